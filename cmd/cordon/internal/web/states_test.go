package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// calm is a host on a good day.
func calm() (loop.State, []loop.Event) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	commit := "3f2a9c17d04be8815a6c20f1b9de7743a0c5e6f2"
	s := loop.State{
		FormatVersion: loop.StateVersion, Time: now, Version: "v0.9.0", PID: 812, Started: ago(9 * 24 * time.Hour),
		Source: loop.Source{Origin: "https://gitea.internal/platform/isolation.git", Ref: "main", How: "polling every 1m0s", Asked: ago(12 * time.Second)},
		Revision: &loop.Revision{
			ID: commit, Author: "Ann Lee", Title: "Close the shop's orders to anonymous readers", Signer: "ann@example.org",
			Time: ago(55 * time.Minute), Since: ago(40 * time.Minute), Reached: ago(40*time.Minute - 1240*time.Millisecond),
		},
		Warm: 4,
	}
	for i, name := range []string{"cgroup", "git", "network", "postgres.main", "proxy.llm", "root", "seccomp", "session", "slot"} {
		s.Parts = append(s.Parts, loop.Part{Name: name, Condition: loop.Converged, Since: ago(40 * time.Minute), Resources: 7 * (9 - i) % 43, Checked: ago(9 * time.Second)})
	}
	s.Parts[2].LastDrift = &loop.Drift{At: ago(7 * time.Minute), Repaired: ago(7*time.Minute - 80*time.Millisecond), Changes: []loop.Pending{
		{Addr: "network.chain.ipv4.filter.CORDON-INPUT", Action: reconciler.Update}, {Addr: "network.hook.ipv4.filter.INPUT", Action: reconciler.Create},
	}}
	s.Parts[3].LastDrift = &loop.Drift{At: ago(3 * time.Hour), Repaired: ago(3*time.Hour - 240*time.Millisecond), Changes: []loop.Pending{{Addr: "postgres.role.main.shop_anon", Action: reconciler.Update}}}
	for i, sandbox := range []string{"claude-code", "claude-code", "terminal", "dev-server"} {
		project := []string{"shop", "alpha", "shop", "beta"}[i]
		s.Sessions = append(s.Sessions, loop.Session{
			ID: fmt.Sprintf("%08x", 0x4f2a9c01*(i+1)), Project: project, Sandbox: sandbox, User: project,
			Address: fmt.Sprintf("10.202.0.%d", 4*i+2), Started: ago(time.Duration(i+1) * 17 * time.Minute), Stale: i == 2,
		})
	}
	s.NotEnforced = []string{"gateway.data"}
	return s, []loop.Event{
		{Time: ago(41 * time.Minute), Kind: loop.RevisionTaken, By: "git:Ann Lee", Revision: commit, Text: s.Revision.Title},
		{Time: ago(40 * time.Minute), Kind: loop.ChangeMade, By: "daemon", Part: "postgres.main", Addr: "postgres.table.main.shop.orders", Action: reconciler.Update, Text: `grants: - "shop_anon: SELECT"`},
		{Time: ago(40 * time.Minute), Kind: loop.PartConverged, By: "daemon", Part: "postgres.main"},
		{Time: ago(17 * time.Minute), Kind: loop.SessionStarted, By: "user:ann", Session: "4f2a9c01", Project: "shop", Sandbox: "claude-code", Text: "as shop"},
		{Time: ago(7 * time.Minute), Kind: loop.DriftSeen, By: "daemon", Part: "network", Addr: "network.hook.ipv4.filter.INPUT", Action: reconciler.Create, Text: "it is gone"},
		{Time: ago(7 * time.Minute), Kind: loop.ChangeMade, By: "daemon", Part: "network", Addr: "network.hook.ipv4.filter.INPUT", Action: reconciler.Create},
		{Time: ago(2 * time.Minute), Kind: loop.SessionRefused, By: "user:bob", Project: "shop", Sandbox: "terminal", Error: "bob is no operator of project shop"},
	}
}

// troubled is one on a bad day.
func troubled() (loop.State, []loop.Event) {
	s, events := calm()
	now := s.Time
	s.Source.Error = "dial tcp 192.0.2.7:443: connect: connection refused"
	s.Refused = &loop.Refusal{ID: "9b1c" + strings.Repeat("0", 36), Since: now.Add(-3 * time.Minute), Why: "it has errors", Diagnostics: []string{
		`all.hcl:12:3: error: unknown attribute "comand" in sandbox "agent". Did you mean "command"?`,
		`net.hcl:6:29: error: bad pool in network "llm-only": "10.202.0.1/16" has bits set beyond its prefix; write "10.202.0.0/16".`,
	}}
	s.Paused = &loop.Pause{Reason: "upgrading PostgreSQL", By: "user:ann", Since: now.Add(-2 * time.Minute), Until: now.Add(28 * time.Minute)}
	p := &s.Parts[3]
	p.Condition, p.Since, p.Why = loop.Failing, now.Add(-2*time.Minute), "failed to connect to `user=postgres database=app`: dial unix /run/postgres/.s.PGSQL.5432: connect: no such file or directory"
	p.Failures, p.NextRetry = 12, now.Add(32*time.Second)
	n := &s.Parts[2]
	n.Condition, n.Since, n.Why = loop.Drifted, now.Add(-4*time.Second), "paused: upgrading PostgreSQL"
	n.Pending = []loop.Pending{
		{Addr: "network.hook.ipv4.filter.INPUT", Action: reconciler.Create},
		{Addr: "network.chain.ipv4.filter.CORDON-IN-llm-only", Action: reconciler.Update},
		{Addr: "network.chain.ipv4.filter.CORDON-IN-old", Action: reconciler.Delete, Error: "iptables-restore: line 3 failed"},
	}
	n.Fights = []loop.Fight{{Addr: "network.hook.ipv4.filter.INPUT", Repairs: 14, Since: now.Add(-9 * time.Minute), Next: now.Add(31 * time.Second)}}
	n.LastDrift.Repaired = time.Time{}
	return s, append(events, loop.Event{Time: now, Kind: loop.ChangeFailed, By: "daemon", Part: "postgres.main", Error: p.Why})
}

// hostile has, in each text, what would be markup or script if it were not
// escaped, for each place a text can stand in.
func hostile() (loop.State, []loop.Event) {
	const evil = `"'--></title></code></style></small></td></table><script>document.title="owned";fetch("/owned?script")</script>` +
		`<img src="/owned?image" onerror="document.title='owned'"><svg onload="fetch('/owned?svg')"></svg><iframe src="javascript:parent.document.title='owned'"></iframe>` +
		`<style>@import "/owned?style";</style><link rel="stylesheet" href="/owned?link"><form action="/owned"><button autofocus>x</button></form>` +
		`<meta http-equiv="refresh" content="0;url=/owned?meta"><base href="/owned/">{{.}}` + "\u202e\x00\xff\n"
	s, events := troubled()
	s.Version, s.Source = evil, loop.Source{Origin: evil, Ref: evil, How: evil, Note: evil, Error: evil}
	s.Revision.ID, s.Revision.Author, s.Revision.Title, s.Revision.Signer = evil, evil, evil, evil
	s.Refused.ID, s.Refused.Why, s.Refused.Diagnostics = evil, evil, []string{evil}
	s.Paused.Reason, s.Paused.By = evil, evil
	s.NotEnforced, s.Notes = []string{evil}, []reconciler.Note{{Addr: evil, Text: evil}}
	for i := range s.Parts {
		p := &s.Parts[i]
		p.Name, p.Why = evil, evil
		p.Condition = loop.Condition(evil)
		for k := range p.Pending {
			p.Pending[k] = loop.Pending{Addr: evil, Action: evil, Error: evil}
		}
		if p.LastDrift != nil {
			p.LastDrift.Changes = []loop.Pending{{Addr: evil, Action: evil}}
		}
		for k := range p.Fights {
			p.Fights[k].Addr = evil
		}
	}
	for i := range s.Sessions {
		s.Sessions[i] = loop.Session{ID: evil, Project: evil, Sandbox: evil, User: evil, Address: evil}
	}
	for i := range events {
		e := &events[i]
		e.Kind, e.By, e.Action, e.Text, e.Error = evil, evil, evil, evil, evil
		for _, text := range []*string{&e.Part, &e.Revision, &e.Session, &e.Project, &e.Sandbox} {
			if *text != "" {
				*text = evil
			}
		}
		if e.Addr != "" {
			e.Addr = evil
		}
	}
	return s, events
}
