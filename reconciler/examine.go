package reconciler

import "context"

// An Examiner is an Enforcer that can tell what this host lets it enforce.
type Examiner interface {
	Examine(context.Context) []Finding
}

// Finding is one thing that a host can or cannot do.
type Finding struct {
	Subject string `json:"subject"` // "bubblewrap", "cgroup memory"
	Status  Status `json:"status"`
	Text    string `json:"text"`             // what was found, with versions
	Remedy  string `json:"remedy,omitempty"` // what to do about it
}

// Status grades a Finding.
type Status string

// The grades.
const (
	OK   Status = "ok"
	Warn Status = "warn" // enforced in a weaker or slower way, or not known
	Fail Status = "fail" // what needs it is refused
)
