package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// writerDir makes this binary a process that appends: see [TestProcesses].
const writerDir = "EVENTLOG_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		os.Exit(writer(dir))
	}
	kerneltest.Main(m)
}

const small = 4 << 10 // a file's size, so that there are many

func writer(dir string) int {
	l := Log{Dir: dir, FileSize: small, Files: 1000}
	_, _ = io.ReadAll(os.Stdin) // all begin at once
	for i := range 200 {
		e := loop.Event{Kind: loop.ChangeMade, By: strconv.Itoa(os.Getpid()), Session: strconv.Itoa(i), Text: strings.Repeat("x", i)}
		if err := l.Append(e); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// Several processes append through many rotations while one follows: it is
// told each event once, and each process's in their order.
func TestProcesses(t *testing.T) {
	l := Log{Dir: filepath.Join(t.TempDir(), "events"), FileSize: small, Files: 1000}
	const processes, each = 4, 200
	next := map[string]int{}
	count := 0
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	followed := make(chan error, 1)
	go func() {
		followed <- l.Follow(ctx, time.Time{}, func(e loop.Event) error {
			if e.Session != strconv.Itoa(next[e.By]) || len(e.Text) != next[e.By] {
				return fmt.Errorf("event %s of %s, want %d", e.Session, e.By, next[e.By])
			}
			next[e.By]++
			if count++; count == processes*each {
				stop()
			}
			return nil
		}, func(error) {}) // so many that events may be lost
	}()
	start, begin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for range processes {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), writerDir+"="+l.Dir)
		cmd.Stdin, cmd.Stderr = start, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}()
	}
	_ = begin.Close()
	if err := <-followed; err != nil || count != processes*each {
		t.Errorf("followed %d of %d events: %v", count, processes*each, err)
	}
	if numbers, err := l.numbers(); len(numbers) < 10 {
		t.Errorf("there was hardly a rotation: %v, %v", numbers, err)
	}
}

func texts(t *testing.T, l Log, since time.Time) []string {
	t.Helper()
	var out []string
	err := l.Read(since, func(e loop.Event) error {
		out = append(out, e.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func event(text string) loop.Event { return loop.Event{Kind: loop.DriftSeen, By: "daemon", Text: text} }

func mustAppend(t *testing.T, l Log, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := l.Append(event(text)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsNoEvent(t *testing.T) {
	whole := `{"time":"2026-01-02T03:04:05Z","kind":"drift","by":"daemon","text":"old"}`
	tests := map[string]struct {
		before string
		want   []string
	}{
		"nothing":                         {"", []string{"new"}},
		"a line":                          {whole + "\n", []string{"old", "new"}},
		"torn":                            {whole + "\n" + whole[:30], []string{"old", "new"}},
		"torn in a character":             {whole[:70] + "\xc3", []string{"new"}},
		"whole but for its end":           {whole, []string{"old", "new"}},
		"zeros, as after a loss of power": {whole + "\n" + strings.Repeat("\x00", 5000), []string{"old", "new"}},
		"foreign":                         {"hello\n{}\n[1]\n\n" + whole + "\nnull\n", []string{"old", "new"}},
		"a longer line":                   {strings.Repeat("x", 3*maxLine) + "\n" + whole + "\n", []string{"old", "new"}},
		"a longer line of just the buffer's size": {strings.Repeat("x", maxLine) + "\n" + whole + "\n", []string{"old", "new"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := Log{Dir: t.TempDir()}
			if err := os.WriteFile(l.path(1), []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, stray := range []string{"events-1.jsonl", "events-000009.jsonl~", "events--00001.jsonl", "notes"} {
				if err := os.WriteFile(filepath.Join(l.Dir, stray), []byte(whole+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			mustAppend(t, l, "new")
			if diff := cmp.Diff(test.want, texts(t, l, time.Time{})); diff != "" {
				t.Error(diff)
			}
			last, err := l.Last(1)
			if err != nil || len(last) != 1 || last[0].Text != "new" {
				t.Errorf("Last(1) = %v, %v", last, err)
			}
		})
	}
}

func TestTextsAreBounded(t *testing.T) {
	l := Log{Dir: t.TempDir()}
	forged := "a\n" + `{"time":"2026-01-02T03:04:05Z","kind":"drift","by":"user:root"}` + "\r\n\u2028"
	long := strings.Repeat("é", maxText)
	for _, text := range []string{forged, long, "\xff"} {
		e := event(text)
		e.By, e.Addr, e.Error = text, "network.\n", text
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	got := texts(t, l, time.Time{})
	want := []string{forged, strings.Repeat("é", maxText/2-2) + "…", "\ufffd"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b, err := os.ReadFile(l.path(1))
	if err != nil || bytes.Count(b, []byte("\n")) != 3 {
		t.Errorf("%d lines, want 3: %v", bytes.Count(b, []byte("\n")), err)
	}
	worst := event(strings.Repeat("\x01", maxText))
	worst.Error = worst.Text
	if line, err := encode(worst); err != nil || len(line) > maxLine {
		t.Errorf("a line of %d bytes is more than readers take: %v", len(line), err)
	}
}

func TestRotation(t *testing.T) {
	l := Log{Dir: filepath.Join(t.TempDir(), "state", "events"), FileSize: small, Files: 3}
	const n = 500
	for i := range n {
		mustAppend(t, l, strconv.Itoa(i))
	}
	numbers, err := l.numbers()
	if err != nil || len(numbers) != 3 {
		t.Fatalf("files %v, %v, want 3", numbers, err)
	}
	for _, number := range numbers {
		info, err := os.Stat(l.path(number))
		if err != nil || info.Size() > small || info.Mode() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if info, err := os.Stat(l.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	got := texts(t, l, time.Time{})
	for i, text := range got {
		if want := strconv.Itoa(n - len(got) + i); text != want {
			t.Fatalf("event %d is %s, want %s", i, text, want)
		}
	}
	last, err := l.Last(len(got) - 1)
	if err != nil || len(last) != len(got)-1 || last[0].Text != got[1] {
		t.Errorf("Last begins with %v, %v, want %s", last[0], err, got[1])
	}
}

func TestSince(t *testing.T) {
	l := Log{Dir: t.TempDir(), FileSize: 1} // a file for each
	base := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 4 {
		e := event(strconv.Itoa(i))
		e.Time = base.Add(time.Duration(i) * time.Hour)
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(l.path(i+1), e.Time, e.Time); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[time.Duration][]string{
		-time.Hour:        {"0", "1", "2", "3"},
		2 * time.Hour:     {"2", "3"},
		150 * time.Minute: {"3"},
		9 * time.Hour:     nil,
	} {
		if diff := cmp.Diff(want, texts(t, l, base.Add(at))); diff != "" {
			t.Errorf("since %s: %s", at, diff)
		}
	}
}

// A full disk is an error, leaves no part of a line, and is over when it is.
func TestFullDisk(t *testing.T) {
	kerneltest.Host(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	l := In(dir)
	mustAppend(t, l, "first")
	hog := filepath.Join(dir, "hog")
	if err := os.WriteFile(hog, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", maxText-10)
	written := 1
	var err error
	for err == nil && written < 100 {
		if err = l.Append(event(long)); err == nil {
			written++
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("after %d events: %v, want ENOSPC", written, err)
	}
	if b, err := os.ReadFile(l.path(1)); err != nil || b[len(b)-1] != '\n' {
		t.Errorf("a part of a line was left: %v", err)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, "last")
	if got := texts(t, l, time.Time{}); len(got) != written+1 || got[written] != "last" {
		t.Errorf("%d events, want %d", len(got), written+1)
	}
}

// Who holds the lock for ever stops nobody.
func TestLockedByOneThatIsStopped(t *testing.T) {
	l := Log{Dir: t.TempDir()}
	mustAppend(t, l, "one")
	f, err := os.Open(l.path(1))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, "two")
	if diff := cmp.Diff([]string{"one", "two"}, texts(t, l, time.Time{})); diff != "" {
		t.Error(diff)
	}
}

func TestNoLink(t *testing.T) {
	l := Log{Dir: t.TempDir()}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, l.path(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(event("x")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v, want ELOOP", err)
	}
}

// Follow begins before there is a log, and goes on when somebody empties or
// removes it.
func TestFollow(t *testing.T) {
	l := In(filepath.Join(t.TempDir(), "state"))
	l.FileSize = small
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string)
	done := make(chan error, 1)
	go func() {
		done <- l.Follow(ctx, time.Time{}, func(e loop.Event) error {
			got <- e.Text
			return nil
		}, func(err error) { t.Error(err) })
	}()
	check := func(text string) {
		t.Helper()
		mustAppend(t, l, text)
		select {
		case saw := <-got:
			if saw != text {
				t.Fatalf("saw %q, want %q", saw, text)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%q was not seen", text)
		}
	}
	for i := range 100 {
		check(strconv.Itoa(i))
	}
	numbers, err := l.numbers()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(l.path(numbers[len(numbers)-1]), 0); err != nil {
		t.Fatal(err)
	}
	check("after it was emptied")
	if err := os.Remove(l.path(numbers[len(numbers)-1])); err != nil {
		t.Fatal(err)
	}
	check("after its newest file was removed")
	if err := os.RemoveAll(l.Dir); err != nil {
		t.Fatal(err)
	}
	check("after it was removed")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// When the kernel has lost what it had to tell, that is told, and all is read.
func TestFollowOverrun(t *testing.T) {
	kerneltest.Host(t)
	const limit = "/proc/sys/fs/inotify/max_queued_events"
	old, err := os.ReadFile(limit)
	if err != nil {
		t.Fatal(err)
	}
	l := In(filepath.Join(t.TempDir(), "state"))
	mustAppend(t, l, "first")
	// The limit is the one when an instance is made.
	if err := os.WriteFile(limit, []byte("16"), 0o644); err != nil {
		kerneltest.Missing(t, "the right to set "+limit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got, late, done := make(chan string), make(chan error, 100), make(chan error, 1)
	go func() {
		done <- l.Follow(ctx, time.Time{}, func(e loop.Event) error {
			got <- e.Text
			return nil
		}, func(err error) { late <- err })
	}()
	err = nil
	if saw := <-got; saw != "first" {
		err = fmt.Errorf("saw %q", saw)
	}
	if err := errors.Join(err, os.WriteFile(limit, old, 0o644)); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, "second")
	for n := range 2000 { // while the second is waited with
		if err := os.WriteFile(filepath.Join(l.Dir, "other"+strconv.Itoa(n%2)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if saw := <-got; saw != "second" {
		t.Errorf("saw %q", saw)
	}
	if err := <-late; !errors.Is(err, fsnotify.ErrEventOverflow) {
		t.Error(err)
	}
	mustAppend(t, l, "third")
	if saw := <-got; saw != "third" {
		t.Errorf("saw %q", saw)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestBy(t *testing.T) {
	own := ByUser(uint32(os.Getuid()))
	for sudo, want := range map[string]string{"": own, "0": "user:root", "3999999999": "user:3999999999", "x\ny": own} {
		if uid, err := strconv.ParseUint(loginUID(), 10, 32); err == nil && uid != unset {
			want = ByUser(uint32(uid)) // somebody logged in to run this
		}
		t.Setenv("SUDO_UID", sudo)
		if got := By(); got != want {
			t.Errorf("SUDO_UID=%q: %q, want %q", sudo, got, want)
		}
	}
}

// Who only a directory service knows has a name in every program, one without
// cgo too.
func TestByUserOfDirectory(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'carol:*:4000000001:4000000002:Carol:/home/carol:/bin/sh'\n"
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for uid, want := range map[uint32]string{4_000_000_001: "user:carol", 4_000_000_003: "user:4000000003", 0: "user:root"} {
		if got := ByUser(uid); got != want {
			t.Errorf("%d: %q, want %q", uid, got, want)
		}
	}
}
