package proxy

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/proxy/token"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

const (
	// What no event may tell of is looked at often. Where an end does, all are
	// looked at now and then all the same.
	sweepEvery  = 2 * time.Second
	sweepRarely = 30 * time.Second
	scanAtMost  = 20 * time.Millisecond // how often strangers may make the proxy look for their session
)

// Live finds sessions by the run directory: a lease whose lock is held lives,
// in the slot that it names (see enforcers/session). Each ByAddr asks the
// kernel whether it still does: by one system call whether inotify has told of
// any change since the session was last looked at, or by two where it did, or
// can't. [Live.Run] notices an end while streams run: by inotify that the lease
// or the token changed, by a pidfd that the process that holds the lock has ended.
type Live struct {
	dir      string
	folder   *os.File        // dir; held, or the garbage collector would close it
	at       int             // its descriptor: to ask for it takes system calls
	networks []specs.Network // those that may reach the proxy
	log      *slog.Logger

	mu      sync.Mutex
	known   map[string]*known     // by id
	byAddr  map[netip.Addr]*known // nil for an address that two claim
	scanned time.Time             // when ByAddr last looked at all
	stale   bool                  // byAddr is to be made anew
	news    *news                 // nil where nothing tells of changes
	blind   chan struct{}         // told when there is a session of whose end nothing may tell
	often   time.Duration         // sweepEvery
	rarely  time.Duration         // sweepRarely
}

// NewLive returns the sessions of the run directory in the slots of networks.
func NewLive(dir rundir.Dir, networks []specs.Network, log *slog.Logger) (*Live, error) {
	path, err := dir.Make("sessions")
	if err != nil {
		return nil, err
	}
	folder, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	l := &Live{
		dir: path, folder: folder, at: int(folder.Fd()), networks: networks, log: log, known: map[string]*known{}, byAddr: map[netip.Addr]*known{},
		blind: make(chan struct{}, 1), often: sweepEvery, rarely: sweepRarely,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scan()
	return l, nil
}

// ByAddr returns the session that lives in the slot with the address.
func (l *Live) ByAddr(addr netip.Addr) (Session, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, found := l.byAddr[addr]
	if found && k != nil && l.lives(k) {
		return k.Session, true
	}
	if k != nil {
		l.refresh(k.Lease.ID)
		l.index()
	}
	if l.byAddr[addr] == nil && time.Since(l.scanned) >= scanAtMost {
		l.scan()
	}
	if k = l.byAddr[addr]; k == nil {
		return Session{}, false
	}
	return k.Session, true
}

// lives tells whether k is what it was. A look counts as long as nothing is told
// after it: of all that it could see differently, inotify tells before the one who
// did it can go on.
func (l *Live) lives(k *known) bool {
	if k.sure && l.news.none() {
		return true
	}
	if !k.lives() || k.token != identify(l.at, k.name) {
		return false
	}
	k.sure = k.followed()
	return true
}

// Run follows the run directory until ctx ends. All sessions then count as ended.
func (l *Live) Run(ctx context.Context) error {
	defer l.forget()
	news, err := l.newNews(ctx)
	if err != nil { // all is still seen, a few seconds later
		l.log.Warn("sessions are looked at every few seconds only", "error", err)
	} else {
		defer news.close()
		l.mu.Lock()
		l.news = news
		l.mu.Unlock()
		var listening sync.WaitGroup
		listening.Go(func() { l.listen(news) })
		defer listening.Wait()
	}
	l.sweep()
	timer := time.NewTimer(l.rarely)
	defer timer.Stop()
	for soon := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-l.blind:
			if !soon {
				soon = true
				timer.Reset(l.often)
			}
		case <-timer.C:
			soon = false
			timer.Reset(l.rarely)
			l.sweep()
		}
	}
}

func (l *Live) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scan()
}

func (l *Live) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.known {
		l.drop(id)
	}
	l.index()
}

// scan looks at every session. The caller holds mu, as for the methods below.
func (l *Live) scan() {
	l.scanned = time.Now()
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		l.log.Error("reading sessions", "error", err)
	}
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.Name()] = true
		l.refresh(e.Name())
	}
	for id := range l.known {
		if !there[id] { // also when they can't be read: closed
			l.drop(id)
		}
	}
	l.index()
}

// refresh looks at one session. One that can't be read is none.
func (l *Live) refresh(id string) {
	dir := filepath.Join(l.dir, id) // by its path: the open folder may not be the one there any more
	lease, record := identify(unix.AT_FDCWD, filepath.Join(dir, "lease.json")), identify(unix.AT_FDCWD, filepath.Join(dir, token.File))
	k := l.known[id]
	if k != nil && k.lease == lease && k.token == record && k.lives() {
		l.follow(k)
		return
	}
	l.drop(id)
	if lease == (identity{}) {
		return
	}
	k, err := l.open(dir)
	if err != nil {
		l.log.Debug("not a session", "dir", dir, "error", err)
		return
	}
	k.lease, k.token = lease, record
	l.known[id], l.stale = k, true
	l.follow(k)
	if !k.lives() { // it ended before its end was waited for
		l.drop(id)
	}
}

func (l *Live) drop(id string) {
	k := l.known[id]
	if k == nil {
		return
	}
	delete(l.known, id)
	l.stale = true
	k.end()
	l.unfollow(k)
	_ = unix.Close(k.lock)
}

// index makes byAddr anew, if it must. An address that two sessions claim is
// nobody's.
func (l *Live) index() {
	if !l.stale {
		return
	}
	clear(l.byAddr)
	defer func() { l.stale = false }()
	for id, k := range l.known {
		if other, two := l.byAddr[k.addr]; two {
			// The slot may have been taken before the end of whom it was was heard of.
			if !k.lives() {
				l.drop(id)
				continue
			}
			if other != nil && !other.lives() {
				l.drop(other.Lease.ID)
				l.byAddr[k.addr] = k
				continue
			}
			l.byAddr[k.addr] = nil
			l.log.Error("two sessions in one slot: neither is served", "address", k.addr)
			continue
		}
		l.byAddr[k.addr] = k
	}
}
