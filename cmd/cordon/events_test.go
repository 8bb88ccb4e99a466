package main

import (
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"90m":                  now.Add(-90 * time.Minute),
		"7d":                   now.AddDate(0, 0, -7),
		"0":                    now,
		"2026-03-09":           time.Date(2026, 3, 9, 0, 0, 0, 0, time.Local),
		"2026-03-09 10:11:12":  time.Date(2026, 3, 9, 10, 11, 12, 0, time.Local),
		"2026-03-09T10:11:12Z": time.Date(2026, 3, 9, 10, 11, 12, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "-1h", "yesterday", "99999999d", "2026-13-01"} {
		if got, err := parseSince(text, now); err == nil || !strings.Contains(err.Error(), "36h") {
			t.Errorf("%q: %v, %v, want an error that tells what would be right", text, got, err)
		}
	}
}

func TestEventLine(t *testing.T) {
	at := time.Date(2026, 3, 9, 10, 11, 12, 0, time.Local)
	commit := strings.Repeat("0123456789", 4)
	for _, test := range []struct {
		name string
		e    loop.Event
		want string
	}{
		{
			"a change",
			loop.Event{Kind: loop.ChangeMade, By: "daemon", Part: "network", Addr: "network.chain.x", Action: reconciler.Update, Revision: commit, Text: "rules: - a"},
			"2026-03-09 10:11:12  change           daemon        ~  network.chain.x  rules: - a",
		},
		{
			"a revision",
			loop.Event{Kind: loop.RevisionTaken, By: "git:Ann", Revision: commit, Text: "Close it"},
			"2026-03-09 10:11:12  revision         git:Ann       012345678901  Close it",
		},
		{
			"a session",
			loop.Event{Kind: loop.SessionEnded, By: "user:ann", Session: "0a1b2c3d", Project: "shop", Sandbox: "dev", Text: "exit code 0"},
			"2026-03-09 10:11:12  session.end      user:ann      0a1b2c3d  shop/dev  exit code 0",
		},
		{
			"a session that never was",
			loop.Event{Kind: loop.SessionRefused, By: "user:ann", Sandbox: "dev", Error: "no"},
			"2026-03-09 10:11:12  session.refused  user:ann      dev  no",
		},
		{
			"what a title can do to a terminal",
			loop.Event{Kind: loop.RevisionTaken, By: "git:\x1b]0;x\a\u202e", Revision: "sha256:" + strings.Repeat("ab", 32), Text: "a\n2026-03-09 10:11:12\r\tb\x1b[2J"},
			"2026-03-09 10:11:12  revision         git:\ufffd]0;x\ufffd\ufffd   sha256:abababababab  a 2026-03-09 10:11:12 b\ufffd[2J",
		},
	} {
		test.e.Time = at
		if got := eventLine(test.e, reconciler.Style{}); got != test.want {
			t.Errorf("%s:\n got %q\nwant %q", test.name, got, test.want)
		}
	}
}
