package cgroup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Read lists the parent group once in each hierarchy, then reads the few
// files of each group. Where the parent is empty, that is a [Parent].
func (e *Enforcer) Read(ctx context.Context) ([]reconciler.Resource, error) {
	hs, err := e.kernel.hierarchies()
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	found := map[string]bool{}
	var left Parent
	for _, h := range hs {
		empty, err := e.kernel.empty(h, e.parent)
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		if empty {
			left.Hierarchies = append(left.Hierarchies, h.String())
			continue
		}
		names, err := e.kernel.groups(h, e.parent)
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		for _, n := range names {
			if specs.ValidSessionID(n) {
				found[n] = true
			}
		}
	}
	out, err := e.read(ctx, hs, slices.Sorted(maps.Keys(found)))
	if err == nil && len(left.Hierarchies) > 0 {
		out = append(out, left)
	}
	return out, err
}

// ReadPart implements reconciler.PartReader.
func (e *Enforcer) ReadPart(ctx context.Context, addrs []reconciler.Addr) ([]reconciler.Resource, error) {
	hs, err := e.kernel.hierarchies()
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	var ids []string
	for _, a := range addrs {
		if id, ok := idOf(a); ok {
			ids = append(ids, id)
		}
	}
	return e.read(ctx, hs, ids)
}

func (e *Enforcer) read(ctx context.Context, hs []hierarchy, ids []string) ([]reconciler.Resource, error) {
	found := make([]map[string]limits, len(hs))
	for i, h := range hs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if found[i], err = e.kernel.limits(h, e.parent, ids); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	var out []reconciler.Resource
	for _, id := range ids {
		if g, exists := group(hs, found, id); exists {
			out = append(out, g)
		}
	}
	return out, nil
}

// group puts together what was found of one session in each hierarchy.
func group(hs []hierarchy, found []map[string]limits, id string) (g Group, exists bool) {
	g.ID = id
	var missing []string
	for i, h := range hs {
		l, ok := found[i][id]
		if !ok {
			missing = append(missing, "missing in "+h.String())
			continue
		}
		exists = true
		g.add(l)
	}
	g.Drift = append(g.Drift, missing...)
	return g, exists
}

// add takes over the bounds that one hierarchy has.
func (g *Group) add(l limits) {
	if l.memory > 0 {
		g.Memory = l.memory
		switch {
		case l.swap > 0:
			g.Drift = append(g.Drift, fmt.Sprintf("swap: %d bytes beyond memory", l.swap))
		case l.swap == unlimited:
			g.Drift = append(g.Drift, "swap: not bounded")
		}
	}
	if l.quota > 0 && l.period > 0 {
		g.CPU = l.quota * 100 / l.period
		if g.CPU*l.period != l.quota*100 {
			g.Drift = append(g.Drift, fmt.Sprintf("cpu: %d of %d µs", l.quota, l.period))
		}
	}
	switch {
	case l.pids > 0:
		g.Pids = l.pids
	case l.pids == 0:
		g.Drift = append(g.Drift, "pids: 0, no process can start")
	}
	if l.memory == 0 {
		g.Drift = append(g.Drift, "memory: 0, no process can start")
	}
}

func (e *Enforcer) path(id string) string { return e.parent + "/" + id }
