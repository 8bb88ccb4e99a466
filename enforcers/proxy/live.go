package proxy

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/specs"
)

const (
	sweepEvery = 2 * time.Second       // a holder that was killed makes no event; its next request fails all the same
	scanAtMost = 20 * time.Millisecond // how often strangers may make the proxy look for their session
)

// Live finds sessions by the run directory: a lease whose lock is held lives,
// in the slot that it names (see enforcers/session). Each ByAddr asks the
// kernel whether it still does, by two system calls; [Live.Run] notices an
// end while streams run.
type Live struct {
	dir      string
	networks []specs.Network // those that may reach the proxy
	log      *slog.Logger

	mu      sync.Mutex
	known   map[string]*known     // by id
	byAddr  map[netip.Addr]*known // nil for an address that two claim
	scanned time.Time             // when ByAddr last looked at all
	watcher *fsnotify.Watcher     // nil when events can't be had
}

// NewLive returns the sessions of the run directory in the slots of networks.
func NewLive(dir rundir.Dir, networks []specs.Network, log *slog.Logger) (*Live, error) {
	path, err := dir.Make("sessions")
	if err != nil {
		return nil, err
	}
	l := &Live{dir: path, networks: networks, log: log, known: map[string]*known{}, byAddr: map[netip.Addr]*known{}}
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
	if found && k != nil && k.lives() && k.token == identify(k.path) {
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

// Run follows the run directory until ctx ends. All sessions then count as ended.
func (l *Live) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil { // all is still seen, a few seconds later
		l.log.Warn("sessions are looked at every few seconds only", "error", err)
		watcher = &fsnotify.Watcher{}
	} else {
		defer watcher.Close()
		l.watch(watcher)
	}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	defer l.forget()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			l.event(event)
		case err := <-watcher.Errors: // events were lost: look at all
			l.log.Debug("watching sessions", "error", err)
			l.sweep()
		case <-tick.C:
			l.sweep()
		}
	}
}

func (l *Live) watch(w *fsnotify.Watcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watcher = w
	if err := w.Add(l.dir); err != nil {
		l.log.Warn("sessions are looked at every few seconds only", "error", err)
	}
	for id := range l.known {
		l.follow(id)
	}
}

// follow watches a session's own directory.
func (l *Live) follow(id string) {
	if l.watcher == nil {
		return
	}
	if err := l.watcher.Add(filepath.Join(l.dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.log.Debug("watching a session", "session", id, "error", err)
	}
}

func (l *Live) event(e fsnotify.Event) {
	id := filepath.Base(e.Name)
	if dir := filepath.Dir(e.Name); dir != l.dir {
		id = filepath.Base(dir)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(id)
	l.index()
}

func (l *Live) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scan()
}

func (l *Live) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watcher = nil
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
	dir := filepath.Join(l.dir, id)
	lease, token := identify(filepath.Join(dir, "lease.json")), identify(filepath.Join(dir, tokenFile))
	k := l.known[id]
	if k != nil && k.lease == lease && k.token == token && k.lives() {
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
	k.lease, k.token = lease, token
	l.known[id] = k
	l.follow(id)
}

func (l *Live) drop(id string) {
	k := l.known[id]
	if k == nil {
		return
	}
	delete(l.known, id)
	k.end()
	_ = unix.Close(k.lock)
}

// index makes byAddr anew. An address that two sessions claim is nobody's.
func (l *Live) index() {
	clear(l.byAddr)
	for _, k := range l.known {
		if _, two := l.byAddr[k.addr]; two {
			l.byAddr[k.addr] = nil
			l.log.Error("two sessions in one slot: neither is served", "address", k.addr)
			continue
		}
		l.byAddr[k.addr] = k
	}
}
