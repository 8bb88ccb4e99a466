package proxy

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
	sessions, err := dir.Make("sessions")
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(sessions, ".new-")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(lease)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "lease.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(tmp, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, dir.Session(lease.ID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return func() { _ = f.Close() }
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
	if s.Lease.ID != "aaaaaaaa" || s.Lease.Project != "shop" || s.Token != (Token{}) {
		t.Errorf("%+v", s)
	}
	if _, ok := l.ByAddr(slotAddr(4)); ok {
		t.Error("the neighbour's slot has a session")
	}
	token, err := Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"})
	if err != nil {
		t.Fatal(err)
	}
	before := s
	s, ok := l.ByAddr(slotAddr(3))
	if !ok || !s.Token.is(token) || before.Alive.Err() == nil || s.Alive.Err() != nil {
		t.Errorf("the new token: %+v, before %v, now %v", s.Token, before.Alive.Err(), s.Alive.Err())
	}
	if err := Revoke(dir.Session("aaaaaaaa")); err != nil {
		t.Fatal(err)
	}
	revoked := s
	if s, ok = l.ByAddr(slotAddr(3)); !ok || s.Token.is(token) || revoked.Alive.Err() == nil {
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

// While streams run and nobody asks, an end is noticed.
func TestLiveNoticesEnds(t *testing.T) {
	for name, end := range map[string]func(dir rundir.Dir, release func()) error{
		"revoked": func(dir rundir.Dir, _ func()) error { return Revoke(dir.Session("aaaaaaaa")) },
		"another token": func(dir rundir.Dir, _ func()) error {
			_, err := Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"})
			return err
		},
		"removed": func(dir rundir.Dir, _ func()) error { return os.RemoveAll(dir.Session("aaaaaaaa")) },
		"killed":  func(_ rundir.Dir, release func()) error { release(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir, l := newLive(t)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- l.Run(ctx) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			release := lives(t, dir, lease("aaaaaaaa", 3))
			if _, err := Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"}); err != nil {
				t.Fatal(err)
			}
			var s Session
			eventually(t, "the session has its token", func() (ok bool) {
				s, ok = l.ByAddr(slotAddr(3))
				return ok && s.Token.Hash != "" && s.Alive.Err() == nil
			})
			begin := time.Now()
			if err := end(dir, release); err != nil {
				t.Fatal(err)
			}
			within(t, s.Alive.Done(), "the session's context ends")
			if took := time.Since(begin); name != "killed" && took >= sweepEvery {
				t.Errorf("it took %v: no event told of it", took)
			}
		})
	}
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
	if r.token, err = Mint(dir.Session("aaaaaaaa"), specs.Proxy{Name: "llm"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Mint(dir.Session("bbbbbbbb"), specs.Proxy{Name: "llm"}); err != nil {
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
	if err := Revoke(dir.Session("aaaaaaaa")); err != nil {
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
