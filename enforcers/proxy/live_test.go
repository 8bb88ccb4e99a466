package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/proxy/token"
	"github.com/aicodesit/cordon/internal/inotify"
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

func newLive(t testing.TB) (rundir.Dir, *Live) {
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

// What becomes of a session is seen by the next request: by looking, and as well
// where all is told and nothing is looked at while nothing was.
func TestLiveSeesAtOnce(t *testing.T) {
	const id = "aaaaaaaa"
	type session struct {
		dir, token    string // its directory, the file there
		outside       string // a directory that nobody watches
		kill, release func()
		unseen        func(do func() error) error // does something, which is seen when it is through
	}
	for _, tt := range []struct {
		name string
		do   func(session) error
		want bool // it lives, with the token that it had
	}{
		{"nothing", func(session) error { return nil }, true},
		{"revoked", func(s session) error { return token.Revoke(s.dir) }, false},
		{"another token", func(s session) error { return mint(s.dir) }, false},
		{"removed", func(s session) error { return os.RemoveAll(s.dir) }, false},
		{"token removed by hand", func(s session) error { return os.Remove(s.token) }, false},
		{"token moved away", func(s session) error { return os.Rename(s.token, s.token+".bak") }, false},
		{"token moved to another directory", func(s session) error { return os.Rename(s.token, filepath.Join(s.outside, "token")) }, false},
		{"token written to", func(s session) error { return os.WriteFile(s.token, []byte("{}"), 0o600) }, false},
		{"token touched", func(s session) error { return os.Chtimes(s.token, time.Time{}, time.Now().Add(-time.Hour)) }, true},
		{"directory moved", func(s session) error { return os.Rename(s.dir, s.dir+".bak") }, false},
		{"directory moved elsewhere", func(s session) error { return os.Rename(s.dir, filepath.Join(s.outside, id)) }, false},
		{"token linked", func(s session) error { return os.Link(s.token, filepath.Join(s.outside, "token")) }, true},
		{"token linked, then revoked", func(s session) error {
			return errors.Join(os.Link(s.token, filepath.Join(s.outside, "token")), token.Revoke(s.dir))
		}, false},
		{"token linked, then another", func(s session) error {
			return errors.Join(os.Link(s.token, filepath.Join(s.outside, "token")), mint(s.dir))
		}, false},
		{"token linked, then written to by that name", func(s session) error {
			other := filepath.Join(s.outside, "token")
			return errors.Join(os.Link(s.token, other), os.WriteFile(other, []byte("{}"), 0o600))
		}, false},
		{"directory replaced by one with the same files, then revoked", func(s session) error {
			return errors.Join(s.unseen(func() error { return twin(s.dir) }), token.Revoke(s.dir))
		}, false},
		{"directory replaced by one with the same files, then token moved away", func(s session) error {
			return errors.Join(s.unseen(func() error { return twin(s.dir) }), os.Rename(s.token, s.token+".bak"))
		}, false},
		{"process ended, lock free", func(s session) error { s.release(); s.kill(); return nil }, false},
		{"process ended, lock held", func(s session) error { s.kill(); return nil }, true},
		{"process ended, lock held a little longer", func(s session) error { s.kill(); s.release(); return nil }, false},
		{"lock moved away, then process ended", func(s session) error {
			err := os.Rename(filepath.Join(s.dir, lockFile), filepath.Join(s.outside, lockFile))
			s.release()
			s.kill()
			return err
		}, false},
	} {
		for _, told := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, told %v", tt.name, told), func(t *testing.T) {
				dir, l := newLive(t)
				if told {
					runs(t, l)
				}
				s := session{dir: dir.Session(id), token: filepath.Join(dir.Session(id), token.File), outside: t.TempDir()}
				s.kill, s.release = livesIn(t, dir, lease(id, 3))
				s.unseen = func(do func() error) error {
					l.mu.Lock()
					err := do()
					l.mu.Unlock()
					eventually(t, "it is seen", func() bool {
						_, ok := l.ByAddr(slotAddr(3))
						return ok && (!told || l.settled() && l.isSure(id))
					})
					return err
				}
				if err := mint(s.dir); err != nil {
					t.Fatal(err)
				}
				var before Session
				eventually(t, "the session has its token, and all is told that is to be", func() (ok bool) {
					before, ok = l.ByAddr(slotAddr(3))
					return ok && before.Token.Hash != "" && l.isSure(id) == told
				})
				if err := tt.do(s); err != nil {
					t.Fatal(err)
				}
				after, ok := l.ByAddr(slotAddr(3))
				if (ok && after.Token.Hash == before.Token.Hash) != tt.want {
					t.Errorf("a session: %v, with that token: %v", ok, after.Token.Hash == before.Token.Hash)
				}
				if !tt.want && before.Alive.Err() == nil {
					t.Error("the session that it was has not ended")
				}
			})
		}
	}
}

// mint gives a session a token, another each time.
func mint(dir string) error {
	_, err := token.Mint(dir, specs.Proxy{Name: "llm"})
	return err
}

// twin puts a directory in the place of another, with the same files.
func twin(dir string) error {
	old := dir + ".bak"
	if err := errors.Join(os.Rename(dir, old), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	files, err := os.ReadDir(old)
	for _, f := range files {
		err = errors.Join(err, os.Link(filepath.Join(old, f.Name()), filepath.Join(dir, f.Name())))
	}
	return err
}

// runs has l follow the run directory until the test ends.
func runs(t testing.TB, l *Live) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// isSure tells whether a session is looked at no more as long as nothing is told.
func (l *Live) isSure(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.known[id]
	return k != nil && k.sure
}

// settled tells whether all was seen that was told.
func (l *Live) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var room [1]unix.EpollEvent
	if l.news == nil || !l.news.none() {
		return false
	}
	ready, err := l.news.poll.Ready(room[:])
	return err == nil && len(ready) == 0
}

// A file that two sessions have is told of to both.
func TestLiveSharedFiles(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		do         func(path string, release func()) error
	}{
		{"token written to", token.File, func(path string, _ func()) error { return os.WriteFile(path, []byte("{}"), 0o600) }},
		{"lock let go of, by who lives on", lockFile, func(_ string, release func()) error { release(); return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, l := newLive(t)
			runs(t, l)
			one := lease("aaaaaaaa", 3)
			one.PID = os.Getpid()
			release := lives(t, dir, one)
			path := filepath.Join(dir.Session("aaaaaaaa"), tt.file)
			if err := mint(dir.Session("aaaaaaaa")); err != nil {
				t.Fatal(err)
			}
			l.mu.Lock() // the other is seen when it is complete
			livesIn(t, dir, lease("bbbbbbbb", 4))
			shared := filepath.Join(dir.Session("bbbbbbbb"), tt.file)
			if err := os.Remove(shared); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			err := os.Link(path, shared)
			l.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			var before Session
			found := func() (ok bool) {
				_, other := l.ByAddr(slotAddr(4))
				before, ok = l.ByAddr(slotAddr(3))
				return other && ok && before.Token.Hash != "" && l.settled()
			}
			eventually(t, "both are found", found)
			if err := os.WriteFile(filepath.Join(dir.Session("bbbbbbbb"), "note"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the other was looked at last, and all is told", found)
			if err := tt.do(path, release); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is seen", l.settled)
			if after, ok := l.ByAddr(slotAddr(3)); ok && after.Token == before.Token {
				t.Errorf("it lives with that token, sure: %v", l.isSure("aaaaaaaa"))
			}
		})
	}
}

// Who has begun to let go of the lock, which is told once, and before the lock is
// free, may do so while the session is first seen. Others who are told, too, make
// that moment longer.
func TestLiveBeginsWhileLockIsLetGoOf(t *testing.T) {
	var others []int
	for range 60 {
		fd, err := inotify.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		others = append(others, fd)
	}
	dir := rundir.Dir(filepath.Join(t.TempDir(), "run"))
	own := dir.Session("aaaaaaaa")
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		holder := exec.Command("sh", "-c", "read go; exec 3>&-; echo; read end")
		in, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		f := locked(t, dir, func(lock *os.File) specs.Lease {
			holder.ExtraFiles = []*os.File{lock}
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			made := lease("aaaaaaaa", 3)
			made.PID = holder.Process.Pid
			return made
		})
		err = errors.Join(f.Close(), mint(own))
		for _, fd := range others {
			_, failed := unix.InotifyAddWatch(fd, filepath.Join(own, lockFile), unix.IN_CLOSE_WRITE)
			err = errors.Join(err, failed)
		}
		l, failed := NewLive(dir, []specs.Network{network()}, slog.New(slog.DiscardHandler))
		if err = errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		if l.news, err = l.newNews(t.Context()); err != nil { // what is told stays there
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		for begin, wait := time.Now(), rand.N(100*time.Microsecond); time.Since(begin) < wait; {
		}
		l.sweep()
		l.ByAddr(slotAddr(3))
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if _, ok := l.ByAddr(slotAddr(3)); ok {
			t.Errorf("it lives, and its lock is free; sure: %v", l.isSure("aaaaaaaa"))
		}
		l.forget()
		l.news.close()
		_ = l.folder.Close()
		if err := errors.Join(in.Close(), holder.Wait(), os.RemoveAll(own)); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
}

// The number of the descriptor by which an end was waited for may be another's
// when that end is told.
func TestLiveNumbersUsedAgain(t *testing.T) {
	for range 30 {
		t.Run("", func(t *testing.T) {
			dir, l := newLive(t)
			runs(t, l)
			kill, release := livesIn(t, dir, lease("aaaaaaaa", 3))
			eventually(t, "all is told", func() bool { _, ok := l.ByAddr(slotAddr(3)); return ok && l.settled() })
			release()
			l.mu.Lock() // all that follows is told at once
			kill()
			err := os.RemoveAll(dir.Session("aaaaaaaa"))
			livesIn(t, dir, lease("bbbbbbbb", 4))
			l.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "the next is found", func() bool { _, ok := l.ByAddr(slotAddr(4)); return ok && l.settled() })
			if !l.follows("bbbbbbbb") {
				t.Error("its process counts as ended")
			}
		})
	}
}

// There is no moment in which what was told of is taken, and not yet seen.
func TestLiveSeesInTheRace(t *testing.T) {
	dir, l := newLive(t)
	runs(t, l)
	livesIn(t, dir, lease("aaaaaaaa", 3))
	own := dir.Session("aaaaaaaa")
	for range 500 {
		minted, err := token.Mint(own, specs.Proxy{Name: "llm"})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the session has its token, and all is told", func() bool {
			s, ok := l.ByAddr(slotAddr(3))
			return ok && s.Token.Is(minted) && l.isSure("aaaaaaaa")
		})
		if err := token.Revoke(own); err != nil {
			t.Fatal(err)
		}
		for range 20 { // while what is told is being taken
			if s, ok := l.ByAddr(slotAddr(3)); ok && s.Token.Is(minted) {
				t.Fatal("a revoked token is good")
			}
		}
	}
}

// A session of which something was told is looked at once more only. One whose
// process can't have the lock, as it could not write there, is looked at by each
// request: nothing tells of the end of who has it.
func TestLiveLooksAgain(t *testing.T) {
	dir, l := newLive(t)
	runs(t, l)
	livesIn(t, dir, lease("aaaaaaaa", 3))
	own := dir.Session("aaaaaaaa")
	settled := func() bool { _, ok := l.ByAddr(slotAddr(3)); return ok && l.settled() }
	eventually(t, "all is told", func() bool { return settled() && l.isSure("aaaaaaaa") })
	for _, err := range []error{
		os.WriteFile(filepath.Join(own, "note"), nil, 0o600),
		os.WriteFile(filepath.Join(own, lockFile), nil, 0o600), // who does so lets go of it, too
	} {
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is seen", func() bool { return settled() && l.isSure("aaaaaaaa") })
	}

	stranger := exec.Command("sleep", "infinity")
	f := locked(t, dir, func(lock *os.File) specs.Lease {
		reading, err := os.Open(lock.Name())
		if err != nil {
			t.Fatal(err)
		}
		defer reading.Close()
		stranger.ExtraFiles = []*os.File{reading}
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		made := lease("bbbbbbbb", 4)
		made.PID = stranger.Process.Pid
		return made
	})
	defer func() { _, _ = stranger.Process.Kill(), stranger.Wait() }() // that it was killed
	eventually(t, "the other is found", func() bool { _, ok := l.ByAddr(slotAddr(4)); return ok && l.settled() })
	if _, ok := l.ByAddr(slotAddr(4)); !ok || l.isSure("bbbbbbbb") {
		t.Errorf("it lives: %v; it is not looked at: %v", ok, l.isSure("bbbbbbbb"))
	}
	_ = f.Close()
	if _, ok := l.ByAddr(slotAddr(4)); ok {
		t.Error("it lives, and its lock is free")
	}
}

// The end of a process is told once, also while a program that is being started has
// all that is open.
func TestLiveTellsEndsOnce(t *testing.T) {
	dir, l := newLive(t)
	runs(t, l)
	kill, release := livesIn(t, dir, lease("aaaaaaaa", 3))
	eventually(t, "all is told", func() bool { _, ok := l.ByAddr(slotAddr(3)); return ok && l.isSure("aaaaaaaa") })
	l.mu.Lock()
	pid := l.known["aaaaaaaa"].Lease.PID
	other, err := unix.Dup(l.known["aaaaaaaa"].process)
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that nobody has waited for it is not told again", func() bool { return l.settled() && !l.follows("aaaaaaaa") })
	release()
	kill()
	eventually(t, "the end is seen", l.settled)
	if s, ok := l.ByAddr(slotAddr(3)); ok {
		t.Errorf("%s lives", s.Lease.ID)
	}
}

// More is told than the kernel keeps: what was lost is looked for.
func TestLiveLosesEvents(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	dir, l := newLive(t)
	runs(t, l)
	livesIn(t, dir, lease("aaaaaaaa", 3))
	own := dir.Session("aaaaaaaa")
	if err := mint(own); err != nil {
		t.Fatal(err)
	}
	var before Session
	eventually(t, "all is told", func() (ok bool) {
		before, ok = l.ByAddr(slotAddr(3))
		return ok && before.Token.Hash != "" && l.isSure("aaaaaaaa")
	})
	note := filepath.Join(filepath.Dir(own), "note")
	l.mu.Lock() // nothing is taken meanwhile
	for i := 0; err == nil && i <= most; i += 2 {
		if err = os.Mkdir(note, 0o700); err == nil {
			err = os.Remove(note)
		}
	}
	err = errors.Join(err, token.Revoke(own))
	l.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	within(t, before.Alive.Done(), "the session that it was ends")
	if s, ok := l.ByAddr(slotAddr(3)); !ok || s.Token.Hash != "" {
		t.Errorf("a session: %v, its token %+v", ok, s.Token)
	}
	eventually(t, "all is told again", func() bool { _, ok := l.ByAddr(slotAddr(3)); return ok && l.settled() && l.isSure("aaaaaaaa") })
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
		{"lease written to", rarely, true, func(s session) error {
			return os.WriteFile(filepath.Join(s.dir.Session("aaaaaaaa"), "lease.json"), []byte("{}"), 0o600)
		}},
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
				return ok && s.Token.Hash != "" && s.Alive.Err() == nil && l.follows("aaaaaaaa") == tt.pid && l.settled()
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
	return k != nil && k.followed()
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
	l.refresh("bbbbbbbb") // as its event has it done; of the end there is none
	l.index()
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

// Asked of a session that is looked at each time, and of one of which all is told.
func BenchmarkByAddr(b *testing.B) {
	for _, told := range []bool{false, true} {
		b.Run(fmt.Sprintf("told=%v", told), func(b *testing.B) {
			dir, l := newLive(b)
			if told {
				runs(b, l)
			}
			livesIn(b, dir, lease("aaaaaaaa", 3))
			eventually(b, "the session is found", func() bool {
				_, ok := l.ByAddr(slotAddr(3))
				return ok && l.isSure("aaaaaaaa") == told
			})
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := l.ByAddr(slotAddr(3)); !ok {
					b.Fatal("not found")
				}
			}
		})
	}
}
