package reconciler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// An Enforcer makes one subsystem match the specs.
type Enforcer interface {
	// Desired is what should exist. It is pure: no privilege, no I/O, no clock.
	Desired(specs.Set) ([]Resource, error)
	// Read is all that bears cordon's mark, at a cost as the package says.
	Read(context.Context) ([]Resource, error)
	// Apply makes one change. It may find it made already, in part or whole.
	Apply(context.Context, Change) error
}

// A Batcher is an Enforcer that makes many changes at less cost than one by
// one, in their order. after[i] are those before i that i waits for: when one
// of them was not made, i's error is [ErrNotTried]. The errors are in the
// order of the changes; a nil one means that the change was made and stays.
type Batcher interface {
	ApplyAll(ctx context.Context, changes []Change, after [][]int) []error
}

// ErrNotTried is the error of a change that waits for one that was not made.
var ErrNotTried = errors.New("not tried: it waits for a change that was not made")

// An Explainer is an Enforcer that can tell how it would make changes, without
// making them: the steps of each, as of now.
type Explainer interface {
	Explain(ctx context.Context, changes []Change) ([][]Step, error)
}

// Step is one statement in the subsystem's own language.
type Step struct {
	Text string `json:"text"`
	Lock string `json:"lock,omitempty"` // what it keeps others from meanwhile
}

// A Surveyor is an Enforcer whose desired state also depends on facts: things
// that others make and that cordon follows. Survey returns set with its facts
// added; it runs before Desired, on the host, and is left out when a plan is
// made from a snapshot (which holds the facts).
type Surveyor interface {
	Survey(context.Context, specs.Set) (specs.Set, error)
}

// A PartReader is an Enforcer that can read a few addresses at less cost than
// everything. ReadPart returns the resources at addrs that exist, each in the
// same form as Read would.
type PartReader interface {
	ReadPart(ctx context.Context, addrs []Addr) ([]Resource, error)
}

// A Noter is an Enforcer with something to say about the desired state that is
// no change: what waits for a table that does not exist yet, a session that
// runs under an older profile.
type Noter interface {
	Notes(specs.Set) []Note
}

// A ChangeNoter is an Enforcer that can tell in words what changes mean.
type ChangeNoter interface {
	ChangeNotes([]Change) []Note
}

// Note is a remark in a plan.
type Note struct {
	Addr   Addr   `json:"address"`
	Text   string `json:"text"`
	Effect bool   `json:"effect,omitempty"` // it tells what a change of the plan means: who gains, who loses
}

// A Resource is the smallest thing that its subsystem changes atomically.
// Its JSON form, without address and needs, is what is compared and shown: a
// secret never stands in it.
type Resource interface {
	Addr() Addr    // unique within the host
	Needs() []Addr // must exist before this one, in any enforcer
}

// Ephemeral is a Resource that comes and goes with sessions. Its deletion does
// not count against the deletion budget.
type Ephemeral interface {
	Resource
	Ephemeral() bool
}

// Excess is a Resource that only ever opens something, and that no file can
// want. Nothing is lost with it, so its deletion does not count against the
// deletion budget: who makes many must not keep them by that.
type Excess interface {
	Resource
	Excess() bool
}

// Addr names a Resource: parts joined by dots, the first of which is the
// enforcer's name. A part with other characters than letters, digits, _ and -
// is written as a JSON string.
type Addr string

// NewAddr joins parts to an address.
func NewAddr(parts ...string) Addr {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('.')
		}
		if plain(p) {
			b.WriteString(p)
		} else {
			q, _ := json.Marshal(p) // a string always marshals
			b.Write(q)
		}
	}
	return Addr(b.String())
}

// Enforcer is the first part of the address.
func (a Addr) Enforcer() string {
	name, _, _ := strings.Cut(string(a), ".")
	return name
}

// Parts are what NewAddr joined. An address that no NewAddr made may come
// apart in any way.
func (a Addr) Parts() []string {
	var parts []string
	rest := string(a)
	for {
		part, after := rest, ""
		if strings.HasPrefix(rest, `"`) {
			d := json.NewDecoder(strings.NewReader(rest))
			if d.Decode(&part) == nil {
				after = rest[d.InputOffset():]
			}
		} else if i := strings.IndexByte(rest, '.'); i >= 0 {
			part, after = rest[:i], rest[i:]
		}
		parts = append(parts, part)
		if !strings.HasPrefix(after, ".") {
			return parts
		}
		rest = after[1:]
	}
}

func plain(part string) bool {
	for _, r := range part {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return false
		}
	}
	return part != ""
}

// Change is one step from live to desired: a nil Before creates, a nil After
// deletes.
type Change struct{ Before, After Resource }

// Addr is the address of what changes.
func (c Change) Addr() Addr {
	if c.After != nil {
		return c.After.Addr()
	}
	return c.Before.Addr()
}

// Action is what a Change does.
type Action string

// The actions, with the symbols of the field: + ~ -.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Action tells whether c creates, updates or deletes.
func (c Change) Action() Action {
	switch {
	case c.Before == nil:
		return Create
	case c.After == nil:
		return Delete
	}
	return Update
}

// Recorded is a Resource read from a snapshot or a plan file: its attributes
// are known, its type is not.
type Recorded struct {
	Address    Addr            `json:"address"`
	Needed     []Addr          `json:"needs,omitempty"`
	Attributes json.RawMessage `json:"attributes"`
	Fleeting   bool            `json:"ephemeral,omitempty"`
}

// Addr implements Resource.
func (r Recorded) Addr() Addr { return r.Address }

// Needs implements Resource.
func (r Recorded) Needs() []Addr { return r.Needed }

// Ephemeral implements Ephemeral.
func (r Recorded) Ephemeral() bool { return r.Fleeting }

// Record returns r in the form that files hold.
func Record(r Resource) (Recorded, error) {
	if rec, ok := r.(Recorded); ok {
		return rec, nil
	}
	attrs, err := attributes(r)
	if err != nil {
		return Recorded{}, err
	}
	e, ok := r.(Ephemeral)
	return Recorded{Address: r.Addr(), Needed: r.Needs(), Attributes: attrs, Fleeting: ok && e.Ephemeral()}, nil
}

// attributes is the normal form of r: JSON with sorted keys and no spaces.
func attributes(r Resource) (json.RawMessage, error) {
	var raw []byte
	var err error
	if rec, ok := r.(Recorded); ok {
		raw = rec.Attributes
	} else if raw, err = json.Marshal(r); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Addr(), err)
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%s: attributes: %w", r.Addr(), err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%s: attributes: %w", r.Addr(), err)
	}
	return out, nil
}
