package proxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/proxy/token"
	"github.com/aicodesit/cordon/internal/epoll"
	"github.com/aicodesit/cordon/internal/inotify"
	"github.com/aicodesit/cordon/internal/rawsys"
)

// What is told of: names that come and go in a directory, and what happens to
// the files there; the same of a token by whatever name; that who could write the
// lock, as its holder can, let go of it, which is told before the lock is free.
const (
	ofAll     = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	ofSession = ofAll | ofToken
	ofToken   = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DONT_FOLLOW
	ofLock    = unix.IN_CLOSE_WRITE
)

// news is where sessions' changes and ends are told. What was told stays there
// until it is taken while Live.mu is held: who holds it and finds nothing there
// knows of all that happened.
type news struct {
	poll    *epoll.Poller
	inotify int            // -1 where it can't be had
	ids     map[int]string // sessions by watch descriptor; "" is the directory of all
}

// newNews begins to follow the directory of all sessions.
func (l *Live) newNews(ctx context.Context) (n *news, err error) {
	n = &news{inotify: -1, ids: map[int]string{}}
	if n.poll, err = epoll.New(ctx); err != nil {
		return nil, err
	}
	if err := n.open(l.dir); err != nil { // the ends of processes are still told
		l.log.Warn("sessions are looked at every few seconds only", "error", err)
	}
	return n, nil
}

// open has changes told, of the directory of all sessions to begin with.
func (n *news) open(dir string) error {
	fd, err := inotify.Open()
	if err != nil {
		return err
	}
	if err := n.poll.Add(fd, unix.EPOLLIN); err != nil {
		_ = unix.Close(fd)
		return err
	}
	n.inotify = fd
	return n.watch("", dir, ofAll)
}

func (n *news) close() {
	n.poll.Close()
	if n.inotify >= 0 {
		_ = unix.Close(n.inotify)
	}
}

// none tells whether no change is there that was not taken yet. It does not ask
// poll: epoll_wait(2) may find nothing while another looks at the same.
func (n *news) none() bool {
	unread, err := rawsys.Unread(n.inotify)
	return err == nil && unread == 0
}

// watch has changes of what is at the path told as those of a session. They are
// told of one only.
func (n *news) watch(id, path string, events uint32) error {
	wd, err := unix.InotifyAddWatch(n.inotify, path, events|unix.IN_MASK_ADD)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	if other, ok := n.ids[wd]; ok && other != id {
		return fmt.Errorf("watch %s: it is session %q's, too", path, other)
	}
	n.ids[wd] = id
	return nil
}

// follow has k's end and its changes told, as far as they can be and are not
// yet. The caller holds mu.
func (l *Live) follow(k *known) {
	if l.news != nil && !k.watched {
		err := l.news.watchAll(k)
		if k.watched = err == nil; !k.watched && !errors.Is(err, fs.ErrNotExist) {
			l.log.Debug("watching a session", "session", k.Lease.ID, "error", err)
		}
	}
	if l.news != nil && k.process < 0 && !k.outlived && k.Lease.PID > 1 {
		k.process = l.await(k.Lease.PID)
	}
	if k.followed() {
		return
	}
	select {
	case l.blind <- struct{}{}:
	default:
	}
}

// followed tells whether all that may become of k is told.
func (k *known) followed() bool { return k.watched && k.process >= 0 }

// watchAll has all of k told that is files. That its process holds the lock is
// looked at last, see holds.
func (n *news) watchAll(k *known) error {
	id := k.Lease.ID
	if err := n.watch(id, k.dir, ofSession); err != nil {
		return err
	}
	if err := n.watch(id, self(k.lock), ofLock); err != nil {
		return err
	}
	if k.token != (identity{}) {
		if err := n.watch(id, filepath.Join(k.dir, token.File), ofToken); err != nil {
			return err
		}
	}
	return holds(k.Lease.PID, k.lock)
}

// holds returns nil where the process has the file that fd is open for writing. That
// it lets go of it is told to whoever watches it by now: close(2), and the end of a
// process, take the descriptor away before they tell.
func holds(pid, fd int) error {
	file, err := os.Readlink(self(fd))
	if err != nil {
		return err
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range fds {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err != nil || to != file {
			continue
		}
		if open, err := f.Info(); err == nil && open.Mode()&0o200 != 0 { // the link's mode tells how it was opened
			return nil
		}
	}
	return fmt.Errorf("process %d does not have %s open for writing", pid, file)
}

func self(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// await has the end of a process told, and returns the pidfd for that; -1: it
// can't be waited for.
func (l *Live) await(pid int) int {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		l.log.Debug("waiting for a session's process", "process", pid, "error", err)
		return -1
	}
	if err := l.news.poll.Add(fd, unix.EPOLLIN); err != nil {
		l.log.Debug("waiting for a session's process", "process", pid, "error", err)
		_ = unix.Close(fd)
		return -1
	}
	return fd
}

func (l *Live) unfollow(k *known) {
	if k.process < 0 {
		return
	}
	if l.news != nil {
		l.news.poll.Remove(k.process) // a program that is being started has it, too
	}
	_ = unix.Close(k.process)
	k.process, k.sure = -1, false
}

// listen looks at sessions of which something is told, until n ends.
func (l *Live) listen(n *news) {
	ready, buf := make([]unix.EpollEvent, 16), make([]byte, 16<<10)
	for {
		_, err := n.poll.Wait(ready[:1])
		if err == nil {
			err = l.take(n, ready, buf)
		}
		if err != nil {
			l.log.Debug("waiting for sessions", "error", err)
			l.deafen()
			return
		}
	}
}

// take looks at the sessions of which something is told now.
func (l *Live) take(n *news, ready []unix.EpollEvent, buf []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.index()
	ready, err := n.poll.Ready(ready)
	if err != nil {
		return err
	}
	for _, e := range ready { // before changes, after which a descriptor's number may be another's
		if int(e.Fd) != n.inotify {
			l.exited(int(e.Fd))
		}
	}
	ids, err := n.take(buf)
	for id := range ids {
		l.told(id)
	}
	return err
}

// take takes what is told, and returns of which sessions; "" is all.
func (n *news) take(buf []byte) (ids map[string]bool, err error) {
	if n.inotify < 0 {
		return nil, nil
	}
	events, err := inotify.Read(n.inotify, buf)
	if err != nil {
		return nil, err
	}
	ids = map[string]bool{}
	for e := range events {
		id, ok := n.ids[e.Watch]
		if id == "" {
			id = e.Name
		}
		switch {
		case e.Mask&unix.IN_Q_OVERFLOW != 0:
			ids[""] = true
		case ok:
			ids[id] = true
		}
		if e.Mask&unix.IN_IGNORED != 0 { // it is watched no more
			delete(n.ids, e.Watch)
		}
	}
	return ids, nil
}

// told looks at a session of which something is told, and at all where id is "".
func (l *Live) told(id string) {
	if id == "" {
		l.scan()
		for id := range maps.Clone(l.known) {
			l.told(id)
		}
		return
	}
	if k := l.known[id]; k != nil {
		k.sure, k.watched = false, false // what is at its path may be another's
	}
	l.refresh(id)
}

// exited looks at the session whose process was waited for by fd. One that is
// still held, as by a program that its process was about to start, is looked at
// again soon.
func (l *Live) exited(fd int) {
	for id, k := range l.known {
		if k.process != fd {
			continue
		}
		l.refresh(id)
		if l.known[id] == k {
			k.outlived = true
			l.unfollow(k)
			l.follow(k)
		}
		return
	}
}

// deafen is called when nothing tells of sessions any more.
func (l *Live) deafen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.known {
		k.sure, k.watched = false, false
		l.unfollow(k)
	}
	l.news = nil
	for _, k := range l.known {
		l.follow(k)
	}
}
