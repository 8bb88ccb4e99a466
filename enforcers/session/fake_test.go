package session

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fake is a run directory in memory.
type fake struct {
	entries map[string]entry
	ended   []string // ids, with "again" behind those that start again
	digest  string   // that a session has when it was started again
	deaf    bool     // sessions don't end when asked
}

func newFake() *fake { return &fake{entries: map[string]entry{}} }

func (f *fake) list() ([]entry, error) {
	var out []entry
	for _, id := range slices.Sorted(maps.Keys(f.entries)) {
		out = append(out, f.entries[id])
	}
	return out, nil
}

func (f *fake) get(id string) (entry, bool, error) {
	e, ok := f.entries[id]
	if !ok {
		e.ID = id
	}
	return e, ok, nil
}

func (f *fake) write(r record) error {
	e := f.entries[r.ID]
	e.record, e.broken = r, nil
	f.entries[r.ID] = e
	return nil
}

func (f *fake) remove(id string) error {
	delete(f.entries, id)
	return nil
}

func (f *fake) unfinished() ([]string, error) { return nil, nil }

func (f *fake) sweep() error { return nil }

func (f *fake) end(_ context.Context, e entry, order Order) error {
	if f.deaf {
		return context.DeadlineExceeded
	}
	if order.restart {
		f.ended = append(f.ended, e.ID+" again")
		e.Digest = f.digest
	} else {
		f.ended = append(f.ended, e.ID)
		e.held = false
	}
	f.entries[e.ID] = e
	return nil
}

// String dumps the fake as `head sessions/*/lease.json` shows one.
func (f *fake) String() string {
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(f.entries)) {
		b, err := json.Marshal(f.entries[id].record)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&out, "==> %s/lease.json <==\n%s\n", id, b)
	}
	return out.String()
}
