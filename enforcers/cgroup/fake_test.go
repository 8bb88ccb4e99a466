package cgroup

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// fake is a kernel in memory. It rounds and refuses as the real one does.
type fake struct {
	mounted []hierarchy
	noSwap  bool
	state   map[string]map[string]limits // mount → group
}

func newFake(hs ...hierarchy) *fake {
	f := &fake{mounted: hs, state: map[string]map[string]limits{}}
	for _, h := range hs {
		f.state[h.path] = map[string]limits{}
	}
	return f
}

func (f *fake) hierarchies() ([]hierarchy, error) { return f.mounted, nil }

func (f *fake) groups(h hierarchy, parent string) ([]string, error) {
	var out []string
	for g := range f.state[h.path] {
		if path.Dir(g) == parent {
			out = append(out, path.Base(g))
		}
	}
	return out, nil
}

func (f *fake) empty(hierarchy, string) (bool, error) { return false, nil }

func (f *fake) discard(hierarchy, string) error { return nil }

func (f *fake) limits(h hierarchy, parent string, ids []string) (map[string]limits, error) {
	out := map[string]limits{}
	for _, id := range ids {
		if l, ok := f.state[h.path][parent+"/"+id]; ok {
			out[id] = l
		}
	}
	return out, nil
}

func (f *fake) create(h hierarchy, group string) error {
	if _, ok := f.state[h.path][group]; ok {
		return nil
	}
	l := limits{absent, absent, absent, absent, absent}
	if h.has(memory) {
		l.memory, l.swap = unlimited, 0
		if h.v2 {
			l.swap = unlimited
		}
		if f.noSwap {
			l.swap = absent
		}
	}
	if h.has(cpu) {
		l.quota, l.period = unlimited, period
	}
	if h.has(pids) {
		l.pids = unlimited
	}
	f.state[h.path][group] = l
	return nil
}

func (f *fake) set(h hierarchy, group string, l limits) error {
	have, ok := f.state[h.path][group]
	if !ok {
		return &fs.PathError{Op: "open", Path: h.path + "/" + group, Err: fs.ErrNotExist}
	}
	var err error
	put := func(to *int64, v int64) {
		if v == absent {
			return
		}
		if *to == absent {
			err = fmt.Errorf("%s/%s: no such controller", h.path, group)
			return
		}
		*to = v
	}
	if l.memory > 0 {
		l.memory -= l.memory % int64(os.Getpagesize())
	}
	put(&have.memory, l.memory)
	put(&have.swap, l.swap)
	put(&have.quota, l.quota)
	put(&have.period, l.period)
	put(&have.pids, l.pids)
	f.state[h.path][group] = have
	return err
}

func (f *fake) remove(_ context.Context, hs []hierarchy, group string) error {
	for _, h := range hs {
		delete(f.state[h.path], group)
	}
	return nil
}

// String dumps the fake as `grep . FILES` shows a cgroup tree.
func (f *fake) String() string {
	var out strings.Builder
	for _, h := range f.mounted {
		for _, g := range slices.Sorted(maps.Keys(f.state[h.path])) {
			l := f.state[h.path][g]
			fmt.Fprintf(&out, "%s/%s/memory.max:%d\n%[1]s/%[2]s/memory.swap.max:%[4]d\n", h.path, g, l.memory, l.swap)
			fmt.Fprintf(&out, "%s/%s/cpu.max:%d %d\n%[1]s/%[2]s/pids.max:%[5]d\n", h.path, g, l.quota, l.period, l.pids)
		}
	}
	return out.String()
}
