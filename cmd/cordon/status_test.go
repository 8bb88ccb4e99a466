package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func TestStatusText(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.Local)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	good := loop.State{
		Time: now, Warm: 4, Sessions: []loop.Session{{}, {Stale: true}},
		Source: loop.Source{Origin: "https://git.example.org/isolation.git", Ref: "main", How: "polling every 1m0s", Asked: ago(12 * time.Second)},
		Revision: &loop.Revision{
			ID: strings.Repeat("0123456789", 4), Author: "Ann Lee", Title: "Close the shop's orders", Signer: "ann@example.org",
			Time: ago(time.Hour), Since: ago(40 * time.Minute), Reached: ago(40*time.Minute - 380*time.Millisecond),
		},
		Parts: []loop.Part{
			{Name: "network", Condition: loop.Converged, Since: ago(40 * time.Minute), Resources: 43, Checked: ago(9 * time.Second), LastDrift: &loop.Drift{
				At: ago(7 * time.Minute), Repaired: ago(7*time.Minute - 80*time.Millisecond), Changes: []loop.Pending{{Addr: "network.hook.ipv4.filter.INPUT", Action: reconciler.Create}},
			}},
			{Name: "postgres.main", Condition: loop.Converged, Since: ago(3 * time.Hour), Resources: 120, Checked: ago(time.Second)},
		},
		NotEnforced: []string{"gateway.data"},
	}
	again := loop.State{Time: now, Source: loop.Source{Origin: "/etc/cordon"}, Revision: &loop.Revision{
		ID: "sha256:1", Since: ago(2 * time.Minute), Reached: ago(2 * time.Minute), Before: true,
	}}
	bad := loop.State{
		Time: now, Source: loop.Source{Origin: "/etc/cordon", How: "polling every 5s", Note: "no inotify watch is to be had", Error: "no such\nfile", Asked: ago(time.Second)},
		Revision: &loop.Revision{ID: "sha256:1", Since: ago(48 * time.Hour)},
		Refused:  &loop.Refusal{ID: "sha256:2", Since: ago(3 * time.Minute), Why: "x", Diagnostics: []string{`all.hcl:2:3: error: unknown attribute "comand"`, "all.hcl:9:1: error: more"}},
		Paused:   &loop.Pause{Reason: "upgrading\x1b[2J", By: "user:ann", Since: ago(time.Minute), Until: now.Add(59 * time.Minute)},
		Parts: []loop.Part{
			{Name: "network", Condition: loop.Drifted, Since: ago(4 * time.Second), Why: "paused: upgrading", Resources: 43, Checked: ago(0), Pending: []loop.Pending{
				{Addr: "network.hook.ipv4.filter.INPUT", Action: reconciler.Create}, {Addr: "network.set.x", Action: reconciler.Delete, Error: "busy"},
			}, Fights: []loop.Fight{{Addr: "network.hook.ipv4.filter.INPUT", Repairs: 14, Since: ago(9 * time.Minute), Next: now.Add(31 * time.Second)}}},
			{Name: "postgres.main", Condition: loop.Failing, Since: ago(2 * time.Minute), Why: "connection refused", Failures: 12, NextRetry: now.Add(32 * time.Second), Pending: make([]loop.Pending, 12)},
		},
	}
	for i := range bad.Parts[1].Pending {
		bad.Parts[1].Pending[i] = loop.Pending{Addr: "postgres.role.x", Action: reconciler.Update}
	}
	for _, c := range []struct {
		name  string
		state loop.State
		want  string
	}{
		{"good", good, `Converged: All is as declared.

Revision   012345678901  Close the shop's orders
           by Ann Lee, 2026-03-09 11:00:00, signed by ann@example.org
           enforced since 11:20:00 (40 min ago), all had converged after 380 ms
Source     https://git.example.org/isolation.git main, polling every 1m0s, asked 12 s ago
Running    2 sessions, 1 of them under an older profile; 4 warm slots

PART           CONDITION  FOR      RESOURCES  CHECKED
network        converged  40 min          43  9 s ago
postgres.main  converged  3 h            120  1 s ago

LAST DRIFT
network, 11:53:00 (7 min ago), repaired after 80 ms
    + network.hook.ipv4.filter.INPUT

Declared, not enforced by this build: gateway.data
`},
		{"bad", bad, `Failing: postgres.main fails.

Revision   sha256:1
           signature not asked for
           enforced since 2026-03-07 12:00:00 (2 days ago), not all has converged at it yet
Source     /etc/cordon, polling every 5s, asked 1 s ago
           no inotify watch is to be had
           no answer: no such file
Refused    sha256:2, 3 min ago
           all.hcl:2:3: error: unknown attribute "comand"
           all.hcl:9:1: error: more
Paused     by user:ann until 12:59:00 (in 59 min): upgrading` + "\ufffd" + `[2J
Fight      network.hook.ipv4.filter.INPUT
           something else changed it back 14 times since 11:51:00; it is repaired again in 31 s
Running    0 sessions; 0 warm slots

PART           CONDITION  FOR      RESOURCES  CHECKED
network        drifted    4 s             43  now
    paused: upgrading
    + network.hook.ipv4.filter.INPUT
    - network.set.x  busy
postgres.main  failing    2 min            0  never
    connection refused
    12 failures in a row, next try in 32 s
` + strings.Repeat("    ~ postgres.role.x\n", 10) + `    and 2 more
`},
		{"begun anew", again, `Starting: Nothing was looked at yet.

Revision   sha256:1
           signature not asked for
           enforced since 11:58:00 (2 min ago), all had converged before this daemon began
Source     /etc/cordon, asked never
Running    0 sessions; 0 warm slots
`},
		{"nothing yet", loop.State{Time: now, Source: loop.Source{Origin: "/etc/cordon"}}, `Starting: Nothing is enforced yet.

Revision   none
Source     /etc/cordon, asked never
Running    0 sessions; 0 warm slots
`},
	} {
		if diff := cmp.Diff(c.want, statusText(c.state, reconciler.Style{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		if plain, coloured := statusText(c.state, reconciler.Style{}), statusText(c.state, reconciler.Style{Color: true}); !strings.Contains(coloured, "\x1b[3") || strings.Contains(plain, "\x1b") {
			t.Errorf("%s: colours", c.name)
		}
	}
}

// Who asks a daemon that hangs is told so, and of no daemon that is away.
func TestHangingDaemon(t *testing.T) {
	a := &app{App: cli.New("")}
	a.RunDir = t.TempDir()
	l, err := net.Listen("unix", a.Rundir().Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := a.unattended(ctx); err == nil || !strings.HasPrefix(err.Error(), "the daemon does not answer (socket "+a.RunDir) {
		t.Error(err)
	}
}
