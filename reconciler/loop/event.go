package loop

import (
	"time"

	"github.com/aicodesit/cordon/reconciler"
)

// Kind is what an Event tells of.
type Kind string

// The kinds.
const (
	DaemonStarted   Kind = "daemon.started"
	DaemonStopped   Kind = "daemon.stopped"
	RevisionTaken   Kind = "revision"      // it is enforced from now on
	RevisionRefused Kind = "refusal"       // it is broken, not trusted, or removes too much
	SourceFailed    Kind = "source.failed" // no answer; once until it recovers
	SourceBack      Kind = "source.back"
	DriftSeen       Kind = "drift"     // one event for each address
	ChangeMade      Kind = "change"    // made by cordon, whatever the reason
	ChangeFailed    Kind = "failure"   // of a change, or of reading a part; once until it differs
	PartRecovered   Kind = "recovery"  // what failed has converged
	PartConverged   Kind = "converged" // after a revision
	FightBegan      Kind = "fight"
	FightEnded      Kind = "fight.ended"
	PauseBegan      Kind = "pause"
	PauseEnded      Kind = "resume"
	SessionStarted  Kind = "session.start"
	SessionEnded    Kind = "session.end"
	SessionRefused  Kind = "session.refused"
	SessionFailed   Kind = "session.failed"  // it could not be started
	SessionRevoked  Kind = "session.revoked" // it is ended, for the files don't let its user have it any more
)

// Kinds are all there are.
func Kinds() []Kind {
	return []Kind{
		DaemonStarted, DaemonStopped, RevisionTaken, RevisionRefused, SourceFailed, SourceBack, DriftSeen,
		ChangeMade, ChangeFailed, PartRecovered, PartConverged, FightBegan, FightEnded, PauseBegan, PauseEnded,
		SessionStarted, SessionEnded, SessionRefused, SessionFailed, SessionRevoked,
	}
}

// Event is one thing that happened. No secret stands in it.
type Event struct {
	Time     time.Time         `json:"time"`
	Kind     Kind              `json:"kind"`
	By       string            `json:"by"` // "daemon", "user:NAME" (of who typed a command), "git:AUTHOR"
	Part     string            `json:"part,omitempty"`
	Addr     reconciler.Addr   `json:"address,omitempty"`
	Action   reconciler.Action `json:"action,omitempty"`
	Revision string            `json:"revision,omitempty"`
	Session  string            `json:"session,omitempty"`
	Project  string            `json:"project,omitempty"`
	Sandbox  string            `json:"sandbox,omitempty"`
	Text     string            `json:"text,omitempty"` // for people: what differed, the first line of the commit
	Error    string            `json:"error,omitempty"`
}
