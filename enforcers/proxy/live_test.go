package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/proxy/token"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

func network() specs.Network {
	return specs.Network{Name: "llm-only", Pool: netip.MustParsePrefix("10.202.0.0/16")}
}

// slotAddr is the session's address in a slot.
func slotAddr(slot int) netip.Addr { return inside(network(), slot) }

// lives is a session that runs: a lease whose lock is held until release.
func lives(t testing.TB, dir rundir.Dir, lease specs.Lease) (release func()) {
	t.Helper()
	f := locked(t, dir, func(*os.File) specs.Lease { return lease })
	return func() { _ = f.Close() }
}

// livesIn is a session that another process runs, until that is killed. Its
// lock is held until release, too.
func livesIn(t testing.TB, dir rundir.Dir, lease specs.Lease) (kill, release func()) {
	t.Helper()
	holder := exec.Command("sleep", "infinity")
	f := locked(t, dir, func(lock *os.File) specs.Lease {
		holder.ExtraFiles = []*os.File{lock}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		lease.PID = holder.Process.Pid
		return lease
	})
	kill = sync.OnceFunc(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait() // that it was killed
	})
	t.Cleanup(kill)
	return kill, func() { _ = f.Close() }
}

// locked makes a session with a lease. Its lock is held as long as the file is
// open.
func locked(t testing.TB, dir rundir.Dir, lease func(lock *os.File) specs.Lease) *os.File {
	t.Helper()
	sessions, err := dir.Make("sessions")
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(sessions, ".new-")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(tmp, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	l := lease(f)
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "lease.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, dir.Session(l.ID)); err != nil {
		t.Fatal(err)
	}
	return f
}

func newLive(t *testing.T) (rundir.Dir, *Live) {
	t.Helper()
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	l, err := NewLive(dir, []specs.Network{network()}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return dir, l
}

func lease(id string, slot int) specs.Lease {
	return specs.Lease{ID: id, Sandbox: "claude-code", Project: "shop", Network: "llm-only", Slot: slot, Started: time.Now()}
}

// Without any event each request sees what is: sessions that begin, end, get
// and lose tokens.
func TestLiveWithoutEvents(t *testing.T) {
	dir, l := newLive(t)
	if _, ok := l.ByAddr(slotAddr(3)); ok {
		t.Error("a session out of nowhere")
	}
	release := lives(t, dir, lease("aaaaaaaa", 3))
	var s Session
	eventually(t, "the session is found", func() (ok bool) { s, ok = l.ByAddr(slotAddr(3)); return ok })
	if s.Lease.ID != "aaaaaaaa" || s.Lease.Project != "shop" || s.Token != (token.Token{}) {
		t.Errorf("%+v", s)
	}
	if _, ok := l.ByAddr(slotAddr(4)); ok {
		t.Error("the neighbour's slot has a session")
	}
	minted, err := token.Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"})
	if err != nil {
		t.Fatal(err)
	}
	before := s
	s, ok := l.ByAddr(slotAddr(3))
	if !ok || !s.Token.Is(minted) || before.Alive.Err() == nil || s.Alive.Err() != nil {
		t.Errorf("the new token: %+v, before %v, now %v", s.Token, before.Alive.Err(), s.Alive.Err())
	}
	if err := token.Revoke(dir.Session("aaaaaaaa")); err != nil {
		t.Fatal(err)
	}
	revoked := s
	if s, ok = l.ByAddr(slotAddr(3)); !ok || s.Token.Is(minted) || revoked.Alive.Err() == nil {
		t.Errorf("revoked: %+v %v", s.Token, revoked.Alive.Err())
	}
	release() // as by a kill: the directory stays
	if _, ok := l.ByAddr(slotAddr(3)); ok || s.Alive.Err() == nil {
		t.Error("the session outlives its process")
	}
	// The slot's next session is another one.
	lives(t, dir, lease("bbbbbbbb", 3))
	eventually(t, "the next session is found", func() bool { s, ok := l.ByAddr(slotAddr(3)); return ok && s.Lease.ID == "bbbbbbbb" })
}

// A token is what is at its path: its file has no say under another name, also where
// no event is heard of.
func TestLiveTokenByName(t *testing.T) {
	const id = "aaaaaaaa"
	for _, tt := range []struct {
		name string
		do   func(dir, file string) error
		want bool // the token is still that
	}{
		{"moved away", func(_, file string) error { return os.Rename(file, file+".bak") }, false},
		{"moved to another directory", func(dir, file string) error { return os.Rename(file, filepath.Join(filepath.Dir(dir), "token")) }, false},
		{"its session's directory is moved", func(dir, _ string) error { return os.Rename(dir, dir+".bak") }, false},
		{"linked", func(_, file string) error { return os.Link(file, file+".bak") }, true},
		{"linked, then revoked", func(dir, file string) error { return errors.Join(os.Link(file, file+".bak"), token.Revoke(dir)) }, false},
		{"linked, then another", func(dir, file string) error {
			if err := os.Link(file, file+".bak"); err != nil {
				return err
			}
			_, err := token.Mint(dir, specs.Proxy{Name: "llm"})
			return err
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, l := newLive(t)
			lives(t, dir, lease(id, 3))
			minted, err := token.Mint(dir.Session(id), specs.Proxy{Name: "llm"})
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the session has its token", func() bool { s, ok := l.ByAddr(slotAddr(3)); return ok && s.Token.Is(minted) })
			if err := tt.do(dir.Session(id), filepath.Join(dir.Session(id), token.File)); err != nil {
				t.Fatal(err)
			}
			if s, ok := l.ByAddr(slotAddr(3)); (ok && s.Token.Is(minted)) != tt.want {
				t.Errorf("a session: %v, with that token: %v", ok, s.Token.Is(minted))
			}
		})
	}
}

// A folder of sessions that is gone has none, and one that is put in its place has
// its own.
func TestLiveFolderAnew(t *testing.T) {
	dir, l := newLive(t)
	for _, id := range []string{"aaaaaaaa", "bbbbbbbb"} {
		lives(t, dir, lease(id, 3))
		minted, err := token.Mint(dir.Session(id), specs.Proxy{Name: "llm"})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the session is found", func() bool { s, ok := l.ByAddr(slotAddr(3)); return ok && s.Token.Is(minted) })
		if err := os.RemoveAll(filepath.Dir(dir.Session(id))); err != nil {
			t.Fatal(err)
		}
		if s, ok := l.ByAddr(slotAddr(3)); ok {
			t.Errorf("%s outlives its folder", s.Lease.ID)
		}
	}
}

// While streams run and nobody asks, an end is noticed: by an event, for all are
// looked at too rarely for this test, or soon after where none can tell.
func TestLiveNoticesEnds(t *testing.T) {
	type session struct {
		dir           rundir.Dir
		kill, release func()
	}
	const often, rarely = 10 * time.Millisecond, time.Hour
	for _, tt := range []struct {
		name  string
		often time.Duration
		pid   bool // the lease names who holds the lock
		end   func(session) error
	}{
		{"revoked", rarely, true, func(s session) error { return token.Revoke(s.dir.Session("aaaaaaaa")) }},
		{"another token", rarely, true, func(s session) error {
			_, err := token.Mint(s.dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"})
			return err
		}},
		{"removed", rarely, true, func(s session) error { return os.RemoveAll(s.dir.Session("aaaaaaaa")) }},
		{"killed", rarely, true, func(s session) error { s.release(); s.kill(); return nil }},
		{"killed, and held a little longer", often, true, func(s session) error { s.kill(); s.release(); return nil }},
		{"killed, who is not known", often, false, func(s session) error { s.release(); return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, l := newLive(t)
			l.often, l.rarely = tt.often, rarely
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- l.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			here := session{dir: dir}
			if tt.pid {
				here.kill, here.release = livesIn(t, dir, lease("aaaaaaaa", 3))
			} else {
				here.release = lives(t, dir, lease("aaaaaaaa", 3))
			}
			if _, err := token.Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"}); err != nil {
				t.Fatal(err)
			}
			var s Session
			eventually(t, "the session has its token, and is followed", func() (ok bool) {
				s, ok = l.ByAddr(slotAddr(3))
				return ok && s.Token.Hash != "" && s.Alive.Err() == nil && l.follows("aaaaaaaa") == tt.pid
			})
			if err := tt.end(here); err != nil {
				t.Fatal(err)
			}
			within(t, s.Alive.Done(), "the session's context ends")
		})
	}
}

// follows tells whether events tell of all that becomes of a session.
func (l *Live) follows(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[id]
	return k != nil && k.watched && k.process >= 0
}

func TestLiveEndsAllWithIt(t *testing.T) {
	dir, l := newLive(t)
	lives(t, dir, lease("aaaaaaaa", 3))
	var s Session
	eventually(t, "the session is found", func() (ok bool) { s, ok = l.ByAddr(slotAddr(3)); return ok })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Run(ctx); err != nil || s.Alive.Err() == nil {
		t.Errorf("%v %v", err, s.Alive.Err())
	}
}

// A slot is its next session's at once, also when nobody heard of the end of
// the last.
func TestLiveSlotPassesOn(t *testing.T) {
	dir, l := newLive(t)
	release := lives(t, dir, lease("aaaaaaaa", 3))
	l.sweep()
	lives(t, dir, lease("bbbbbbbb", 3))
	release()
	l.event(fsnotify.Event{Name: dir.Session("bbbbbbbb")}) // of the end there is none
	if k := l.byAddr[slotAddr(3)]; k == nil || k.Lease.ID != "bbbbbbbb" || len(l.known) != 1 {
		t.Errorf("the slot has %+v, of %d sessions", k, len(l.known))
	}
}

// What is odd is no session.
func TestLiveRefuses(t *testing.T) {
	dir, l := newLive(t)
	other := lease("00000001", 1)
	other.Network = "dev"
	lives(t, dir, other)
	lives(t, dir, lease("00000002", specs.NoSlot))
	lives(t, dir, lease("00000003", 100_000))
	lives(t, dir, lease("00000004", 4))
	lives(t, dir, lease("00000005", 4)) // two in one slot
	lives(t, dir, lease("00000006", 6))()
	lives(t, dir, lease("00000007", 7))
	if err := os.WriteFile(filepath.Join(dir.Session("00000007"), "token.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	lives(t, dir, lease("00000008", 8))
	if err := os.Rename(dir.Session("00000008"), dir.Session("00000009")); err != nil {
		t.Fatal(err)
	}
	lives(t, dir, lease("0000000a", 10)) // and one that is fine
	eventually(t, "the one that is fine is found", func() bool { _, ok := l.ByAddr(slotAddr(10)); return ok })
	for _, slot := range []int{1, 4, 6, 7, 8, 9} {
		if s, ok := l.ByAddr(slotAddr(slot)); ok {
			t.Errorf("slot %d has session %s", slot, s.Lease.ID)
		}
	}
	if len(l.byAddr) != 2 || len(l.known) != 3 {
		t.Errorf("%d addresses, %d sessions", len(l.byAddr), len(l.known))
	}
}

// The whole way: a session of the run directory in a slot whose address is a
// loopback one, its minted token, and the revocation of it in mid-stream.
func TestServesTheRunDirectory(t *testing.T) {
	n := specs.Network{Name: "llm-only", Pool: netip.MustParsePrefix("127.0.0.0/16")}
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	live, err := NewLive(dir, []specs.Network{n}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- live.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	r := newRig(t, func(o *Options) { o.Sessions = live })
	held(r, make(chan struct{}))
	lives(t, dir, lease("aaaaaaaa", 3))
	lives(t, dir, lease("bbbbbbbb", 4))
	if r.token, err = token.Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"}); err != nil {
		t.Fatal(err)
	}
	if _, err := token.Mint(dir.Session("bbbbbbbb"), specs.Proxy{Name: "llm"}); err != nil {
		t.Fatal(err)
	}
	own, neighbour := inside(n, 3), inside(n, 4)
	eventually(t, "both sessions are known", func() bool {
		a, okA := live.ByAddr(own)
		b, okB := live.ByAddr(neighbour)
		return okA && okB && a.Token.Hash != "" && b.Token.Hash != ""
	})
	status, body := r.doFrom(neighbour.String(), r.post(simple))
	refused(t, status, body, 403, "permission_error")
	_, in := r.open(own.String(), r.post(streamed))
	begin := time.Now()
	if err := token.Revoke(dir.Session("aaaaaaaa")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, in); err == nil {
		t.Error("the stream's end looks like an end")
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %v", took)
	}
	status, body = r.doFrom(own.String(), r.post(simple))
	refused(t, status, body, 403, "permission_error")
}

func inside(n specs.Network, slot int) netip.Addr {
	_, session := n.SlotAddrs(slot)
	return session.Addr()
}

func BenchmarkByAddr(b *testing.B) {
	dir := rundir.Dir(filepath.Join(b.TempDir(), "run"))
	l, err := NewLive(dir, []specs.Network{network()}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		b.Fatal(err)
	}
	lives(b, dir, lease("aaaaaaaa", 3))
	l.sweep()
	for b.Loop() {
		if _, ok := l.ByAddr(slotAddr(3)); !ok {
			b.Fatal("not found")
		}
	}
}
