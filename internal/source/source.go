// Package source is where the desired state comes from: the texts of a
// directory, or of a directory of a git repository, at one moment.
//
// The contract is in this package, with what all sources need: the last good
// revision on disk ([Store]), when to look again ([Pace]) and the webhook
// ([Hook]). The sources are in folder and git; who may sign a revision is in
// signature.
package source

import (
	"context"
	"errors"
	"time"
)

// Limits of what a revision may hold, in bytes. They are far above what people
// write and far below what would hold up a host.
const (
	MaxFile  = 10_000_000
	MaxTotal = 64 << 20
)

// A File is one text of a revision.
type File struct {
	Name  string `json:"name"` // as diagnostics show it
	Bytes []byte `json:"bytes"`
}

// A Revision is all texts as they were at one moment. It is read into memory
// at once, so that what is loaded is what was checked.
type Revision struct {
	ID     string    `json:"id"`     // hash of the commit, or sha256:… of the files
	Origin string    `json:"origin"` // the source it is from, without credentials
	Ref    string    `json:"ref,omitempty"`
	Author string    `json:"author,omitempty"`
	Title  string    `json:"title,omitempty"` // first line of the commit's message
	Time   time.Time `json:"time"`            // of the commit; of the newest file
	Signer string    `json:"signer,omitempty"`
	Files  []File    `json:"files"`           // sorted by name
	Notes  []string  `json:"notes,omitempty"` // what was left out, for people

	// Signed is the commit or tag object whose signature was verified, so
	// that it can be verified again by the keys of a later day.
	Signed []byte `json:"signed,omitempty"`
}

// Status says how a source is followed, for people.
type Status struct {
	How  string `json:"how"`            // "inotify", "polling every 30s"
	Note string `json:"note,omitempty"` // why it is not followed as it should be
}

// A Source is followed by one daemon. Its methods may be called at the same
// time.
type Source interface {
	// Follow watches until ctx ends. It returns an error only when ctx ended.
	Follow(ctx context.Context) error

	// Wake receives when Fetch may have something new. Several wakes that
	// nobody waited for are one.
	Wake() <-chan struct{}

	// Ring makes Wake receive, for signals and webhooks.
	Ring()

	// Fetch returns the revision that should be enforced now, with the ID it
	// had before when nothing changed. A revision that must not be used is an
	// error, see [ErrRefused]; then the last good one stays.
	Fetch(ctx context.Context) (Revision, error)

	// Keep remembers a revision that Fetch returned and that is being
	// enforced: after a restart Last returns it, and the source never goes
	// back before it.
	Keep(r Revision) error

	// Last returns what was kept last, [ErrNothingKept] if nothing was. What
	// is damaged, or no longer trusted, is another error and never a
	// revision.
	Last() (Revision, error)

	Status() Status
}

var (
	// ErrNothingKept is returned by Last before the first Keep.
	ErrNothingKept = errors.New("no revision was kept yet")

	// ErrRefused is what errors of Fetch wrap when the source could be read
	// but its revision is not to be used: unsigned, wrongly signed, older than
	// what was enforced already, or without files that can be read. What is
	// known of the revision comes with the error.
	ErrRefused = errors.New("refused")
)

// Bell is a Wake channel.
type Bell chan struct{}

// NewBell returns a Bell.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes who waits, or who will wait next. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
