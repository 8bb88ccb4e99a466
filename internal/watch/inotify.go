package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/epoll"
	"github.com/aicodesit/cordon/internal/inotify"
)

// place is a directory that is watched.
type place struct {
	path string
	// parts are woken by a change of the name, which is "" when the directory
	// itself came, went or changed. None: it is of no interest.
	parts func(name string) []string
	// below are the directories in it that are watched too. It is asked again
	// whenever a directory comes or goes whose name wakes anybody.
	below func(dir string) []place
	// open opens the directory without following what others may have put
	// there; nil: by its path, of which the last part must be no link.
	open func() (int, error)
}

// changes are the events that matter; that something was read does not.
const changes = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// tree watches places with one inotify instance.
type tree struct {
	fd     int
	tops   []place
	places map[int]place // by watch descriptor
	paths  map[string]int
	parts  []string
}

func newTree(parts []string, tops []place) (*tree, error) {
	fd, err := inotify.Open()
	if err != nil {
		return nil, err
	}
	return &tree{fd: fd, parts: parts, tops: tops, places: map[int]place{}, paths: map[string]int{}}, nil
}

func (t *tree) close() { _ = unix.Close(t.fd) }

// follow wakes parts by changes of the places at and below tops, until ctx
// ends.
func follow(ctx context.Context, wake Wake, rest time.Duration, parts []string, tops []place) error {
	t, err := newTree(parts, tops)
	if err != nil {
		return err
	}
	defer t.close()
	p, err := epoll.New(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Add(t.fd, unix.EPOLLIN); err != nil {
		return err
	}
	if _, err := t.rescan(); err != nil {
		return err
	}
	wake(t.parts...)
	ready, buf := make([]unix.EpollEvent, 1), make([]byte, 64<<10)
	for {
		if _, err := p.Wait(ready); err != nil {
			return err
		}
		parts, err := t.read(buf)
		if err != nil {
			return err
		}
		if err := parts.wake(ctx, wake, rest); err != nil {
			return err
		}
	}
}

// read takes what fits into buf: who makes events without end is not
// followed at their pace, but is told of as an overrun.
func (t *tree) read(buf []byte) (set, error) {
	events, err := inotify.Read(t.fd, buf)
	if err != nil {
		return nil, err
	}
	var parts set
	again := false
	for e := range events {
		switch p, known := t.places[e.Watch]; {
		case e.Mask&unix.IN_Q_OVERFLOW != 0:
			parts.add(t.parts...)
			again = true
		case !known:
		case e.Mask&(unix.IN_IGNORED|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT) != 0:
			if e.Mask&unix.IN_IGNORED == 0 { // the path is another's from now on
				_, _ = unix.InotifyRmWatch(t.fd, uint32(e.Watch))
			}
			t.forget(e.Watch)
			parts.add(p.parts("")...)
			again = true
		default:
			woken := p.parts(e.Name)
			parts.add(woken...)
			again = again || len(woken) > 0 && e.Mask&unix.IN_ISDIR != 0
		}
	}
	if !again {
		return parts, nil
	}
	came, err := t.rescan()
	parts.add(came...)
	return parts, err
}

func (t *tree) forget(wd int) {
	if p, ok := t.places[wd]; ok {
		delete(t.paths, p.path)
		delete(t.places, wd)
	}
}

// rescan watches what is there and not watched yet, and returns the parts of
// it: what happened there before is not known.
func (t *tree) rescan() (set, error) {
	var came set
	for todo := t.tops; len(todo) > 0; {
		p := todo[0]
		todo = todo[1:]
		there, isNew, err := t.add(p)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		if isNew {
			came.add(p.parts("")...)
		}
		if p.below != nil {
			todo = append(todo, p.below(p.path)...)
		}
	}
	return came, nil
}

// add watches p, if it is there.
func (t *tree) add(p place) (there, isNew bool, err error) {
	path := p.path
	if p.open != nil {
		fd, err := p.open()
		if err != nil {
			return false, false, nil // not there, or not what it should be: its parent tells when that changes
		}
		defer unix.Close(fd)
		path = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	flags := uint32(changes)
	if p.open == nil {
		flags |= unix.IN_DONT_FOLLOW
	}
	wd, err := unix.InotifyAddWatch(t.fd, path, flags)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES):
		return false, false, nil
	case errors.Is(err, unix.ENOSPC):
		return false, false, fmt.Errorf("%s: no inotify watch is left for this user: raise fs.inotify.max_user_watches", p.path)
	case err != nil:
		return false, false, fmt.Errorf("watch %s: %w", p.path, err)
	}
	if old, ok := t.paths[p.path]; ok && old == wd {
		return true, false, nil
	} else if ok { // another directory is at the path now
		_, _ = unix.InotifyRmWatch(t.fd, uint32(old))
		t.forget(old)
	}
	t.places[wd], t.paths[p.path] = p, wd
	return true, true, nil
}
