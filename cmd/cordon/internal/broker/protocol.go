package broker

import (
	"encoding/json"

	"github.com/aicodesit/cordon/enforcers/session"
)

// version of the protocol. Client and daemon are the same program but for the
// time of an upgrade.
const version = 1

// The kinds of requests that the package itself answers. A daemon may register
// more.
const (
	KindRun   = "run"
	KindPS    = "ps"
	KindStop  = "stop"
	KindState = "state"
	kindSet   = "set" // the specs that are enforced

	kindReview = "review" // look whether who started sessions may have them
)

// request is the first frame of a connection.
type request struct {
	Version int             `json:"version"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// What an answer is about.
const (
	answerDone    = "done"
	answerReady   = "ready"   // a runner waits for begin
	answerSay     = "say"     // Text is for the user
	answerStopped = "stopped" // the terminal is as it was: the client may stop
	answerExit    = "exit"    // of the session, with Code
)

// answer is a frame to a client.
type answer struct {
	Kind    string          `json:"kind"`
	Error   string          `json:"error,omitempty"`
	Refused bool            `json:"refused,omitempty"`
	Text    string          `json:"text,omitempty"`
	Code    int             `json:"code,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// runRequest is the body of a request of [KindRun].
type runRequest struct {
	Project string `json:"project,omitempty"`
	Sandbox string `json:"sandbox"`
}

// begin follows when the runner is ready, with three descriptors on its first
// bytes. Its texts are bytes: what the user's system has need not be UTF-8.
type begin struct {
	Command [][]byte `json:"command"`
	Environ [][]byte `json:"environ"`
}

// signalMessage is a signal that the client got, by name without SIG.
type signalMessage struct {
	Signal string `json:"signal"`
}

// stopRequest is the body of a request of [KindStop].
type stopRequest struct {
	ID    string        `json:"id"`
	Order session.Order `json:"order"`
}

// A Session is one that runs, as `cordon ps` shows it.
type Session struct {
	session.Status
	Token string `json:"token"` // its age, "expired", or "-" without one
}

// RefusedError is the answer to who may not.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

func texts(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

func bytesOf(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}
