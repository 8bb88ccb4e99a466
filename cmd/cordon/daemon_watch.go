package main

import (
	"context"
	"encoding/json"

	"github.com/aicodesit/cordon/cmd/cordon/internal/daemon"
	"github.com/aicodesit/cordon/internal/watch"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// watchers are what tells the loop of changes at once, as services: one that
// fails is started again, and meanwhile its changes are seen at the interval.
func (d *daemonProcess) watchers(set specs.Set) []daemon.Service {
	list := watch.Host(watch.Options{RunDir: d.Rundir(), CgroupParent: d.CgroupParent})
	projects := watch.Projects{List: set.Projects}
	var out []daemon.Service
	for _, w := range append(list, projects) {
		s := daemon.Service{Name: w.Name(), Start: daemon.Beginning(func(ctx context.Context, began func()) error {
			return w.Run(ctx, func(parts ...string) { began(); d.loop.Wake(parts...) })
		})}
		if w.Name() == projects.Name() {
			s.Digest = digestOf(set.Projects)
		}
		out = append(out, s)
	}
	for _, db := range set.Databases {
		e := d.postgres(set.Secrets, []specs.Database{db})
		name := "postgres." + db.Name
		out = append(out, daemon.Service{
			Name: name, Digest: digestOf([]any{db, set.Secrets}),
			Start: daemon.Beginning(func(ctx context.Context, began func()) error {
				return e.Watch(ctx, db.Name, func() { began(); d.loop.Wake(name) })
			}),
		})
	}
	return out
}

// digestOf stands for what a service is made of; no secret is in a set.
func digestOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// unwatched tells what is seen at the interval alone, and why.
func (d *daemonProcess) unwatched() []reconciler.Note {
	var out []reconciler.Note
	for _, p := range d.watches.Parts() {
		if p.Condition == loop.Failing {
			out = append(out, reconciler.Note{Addr: reconciler.NewAddr("watch", p.Name), Text: "changes are seen at the interval only: " + p.Why})
		}
	}
	return out
}

// watchEvent logs what becomes of a watcher: that it fails delays repairs, and
// is no failure of a part.
func (d *daemonProcess) watchEvent(e loop.Event) {
	if e.Error != "" {
		d.Log().Warn("changes are seen at the interval only", "watcher", e.Part, "error", e.Error)
		return
	}
	d.Log().Info("changes are seen at once again", "watcher", e.Part)
}
