package loop

import (
	"time"

	"github.com/aicodesit/cordon/reconciler"
)

// StateVersion is the format_version of a State as JSON.
const StateVersion = "1.0"

// State is what a daemon knows, at one moment. It is a copy: nobody changes it
// any more.
type State struct {
	FormatVersion string            `json:"format_version"`
	Time          time.Time         `json:"time"`
	Version       string            `json:"version"` // of cordon
	PID           int               `json:"pid"`
	Started       time.Time         `json:"started"`
	Source        Source            `json:"source"`
	Revision      *Revision         `json:"revision,omitempty"` // what is enforced; nil: nothing yet
	Refused       *Refusal          `json:"refused,omitempty"`  // nil: the newest revision is the one enforced
	Paused        *Pause            `json:"paused,omitempty"`
	Parts         []Part            `json:"parts"` // sorted by name
	Sessions      []Session         `json:"sessions"`
	Warm          int               `json:"warm_slots"`
	NotEnforced   []string          `json:"not_enforced,omitempty"`
	Notes         []reconciler.Note `json:"notes,omitempty"`
}

// Converged tells whether everything is as the newest revision says.
func (s State) Converged() bool {
	if s.Revision == nil || s.Refused != nil || s.Paused != nil || len(s.Parts) == 0 {
		return false
	}
	for _, p := range s.Parts {
		if p.Condition != Converged {
			return false
		}
	}
	return true
}

// Source is where revisions come from.
type Source struct {
	Origin string    `json:"origin"` // without credentials
	Ref    string    `json:"ref,omitempty"`
	How    string    `json:"how,omitempty"`   // "inotify", "polling every 30s"
	Note   string    `json:"note,omitempty"`  // why it is not followed as it should be
	Asked  time.Time `json:"asked"`           // when it was last looked at
	Error  string    `json:"error,omitempty"` // why that gave nothing; empty: it did
}

// Revision names the files that are enforced.
type Revision struct {
	ID      string    `json:"id"`
	Author  string    `json:"author,omitempty"`
	Title   string    `json:"title,omitempty"`
	Signer  string    `json:"signer,omitempty"` // empty: nobody's signature was asked for
	Time    time.Time `json:"time"`             // of the commit
	Since   time.Time `json:"since"`            // when it began to be enforced
	Digest  string    `json:"digest"`           // of the specs
	Reached time.Time `json:"reached,omitzero"` // when everything had converged at it for the first time

	// Before is that it had before this daemon began; Reached is then when this
	// one had looked at all of it, whatever has drifted since.
	Before bool `json:"reached_before,omitempty"`
}

// Refusal is a revision that is not enforced, and why. The one before stays.
type Refusal struct {
	ID          string    `json:"id,omitempty"` // empty: not known
	Since       time.Time `json:"since"`
	Why         string    `json:"why"`
	Diagnostics []string  `json:"diagnostics,omitempty"` // file:line:column: what is wrong
}

// Pause is a time in which nothing is changed, though all is looked at.
type Pause struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

// Condition is how a part stands.
type Condition string

// The conditions, from good to bad.
const (
	Converged Condition = "converged"
	Waiting   Condition = "waiting" // not looked at yet
	Drifted   Condition = "drifted" // differs; about to be repaired, or held back for the reason in Why
	Failing   Condition = "failing" // could not be read, or a change failed
)

// Part is what converges on its own: one enforcer, or one of its databases.
type Part struct {
	Name      string    `json:"name"` // "network", "postgres.main"
	Condition Condition `json:"condition"`
	Since     time.Time `json:"since"`
	Why       string    `json:"why,omitempty"`
	Resources int       `json:"resources"`
	Pending   []Pending `json:"pending,omitempty"` // the changes that are to be made
	Checked   time.Time `json:"checked,omitzero"`  // when it was last read whole
	LastDrift *Drift    `json:"last_drift,omitempty"`
	Failures  int       `json:"failures,omitempty"` // one after the other
	NextRetry time.Time `json:"next_retry,omitzero"`
	Fights    []Fight   `json:"fights,omitempty"`
}

// Pending is a change that is to be made.
type Pending struct {
	Addr   reconciler.Addr   `json:"address"`
	Action reconciler.Action `json:"action"`
	Error  string            `json:"error,omitempty"` // how the last try ended
}

// Drift is a difference found at a revision that had converged.
type Drift struct {
	At       time.Time `json:"at"`
	Changes  []Pending `json:"changes"`
	Repaired time.Time `json:"repaired,omitzero"`
}

// Fight is a resource that somebody else keeps changing back.
type Fight struct {
	Addr    reconciler.Addr `json:"address"`
	Repairs int             `json:"repairs"` // since the fight began
	Since   time.Time       `json:"since"`
	Next    time.Time       `json:"next"` // when it is repaired again
}

// Session is one that runs.
type Session struct {
	ID      string    `json:"id"`
	Project string    `json:"project,omitempty"`
	Sandbox string    `json:"sandbox"`
	User    string    `json:"user"`
	Address string    `json:"address,omitempty"`
	Started time.Time `json:"started"`
	Stale   bool      `json:"stale,omitempty"` // runs under an older profile
}
