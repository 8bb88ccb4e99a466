package eventlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// maxLine is more than any line of ours has: six bytes of JSON for each of its
// texts' at most.
const maxLine = 128 << 10

// Read calls fn with each event of since and later, in the order in which they
// were appended, until fn returns an error.
func (l Log) Read(since time.Time, fn func(loop.Event) error) error {
	c := cursor{log: l}
	defer c.close()
	return c.drain(since, fn)
}

// rest is how long Follow rests at most. It is told by inotify when something
// happens, but of that there may be none to be had, and no directory yet.
const rest = time.Second

// Follow is Read, and goes on with what is appended later until ctx ends,
// which is no error. late is told why what happens may be seen a little later than
// it could; nothing is missed by that.
func (l Log) Follow(ctx context.Context, since time.Time, fn func(loop.Event) error, late func(error)) error {
	c := cursor{log: l}
	defer c.close()
	var changed chan fsnotify.Event
	var failed chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		changed, failed = watcher.Events, watcher.Errors
	} else {
		late(err)
	}
	told := false // that no watch is left
	tick := time.NewTicker(rest)
	defer tick.Stop()
	for {
		if watcher != nil && len(watcher.WatchList()) == 0 {
			err := watcher.Add(l.Dir) // until it is there, there's the tick
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !told {
				told = true
				late(err)
			}
		}
		if err := c.drain(since, fn); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case err := <-failed: // what it was about is read now
			late(err)
		case <-tick.C:
		}
	}
}

// Last returns the newest n events, oldest first, as far as they stand in the
// last few hundred kilobytes of the files.
func (l Log) Last(n int) ([]loop.Event, error) {
	numbers, err := l.numbers()
	if err != nil {
		return nil, err
	}
	var out []loop.Event
	for _, number := range slices.Backward(numbers) {
		if len(out) >= n {
			break
		}
		older, err := l.tail(number)
		if err != nil {
			return nil, err
		}
		out = append(older, out...)
	}
	return out[max(0, len(out)-n):], nil
}

// tail is the events in the last bytes of a file.
func (l Log) tail(number int) ([]loop.Event, error) {
	f, err := os.Open(l.path(number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed meanwhile, as the oldest is
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var out []loop.Event
	c := cursor{log: l, file: f, pos: max(0, info.Size()-2*maxLine)}
	c.skip = c.pos > 0 // the first line is not whole
	err = c.lines(func(line []byte) error {
		if e, ok := decode(line); ok {
			out = append(out, e)
		}
		return nil
	})
	return out, err
}

// cursor is a place in the log.
type cursor struct {
	log    Log
	number int
	file   *os.File // nil before the first
	pos    int64    // after the last line that was read whole
	skip   bool     // the line that begins at pos, or before, is none of ours
	buf    []byte

	last time.Time // of the newest event
	told time.Time // events up to here were told before the log began again
}

func (c *cursor) close() {
	if c.file != nil {
		_ = c.file.Close()
	}
}

// drain reads up to the end of the newest file.
func (c *cursor) drain(since time.Time, fn func(loop.Event) error) error {
	line := func(b []byte) error {
		e, ok := decode(b)
		if !ok || e.Time.Before(since) || !e.Time.After(c.told) {
			return nil
		}
		if e.Time.After(c.last) {
			c.last = e.Time
		}
		return fn(e)
	}
	for {
		next, err := c.next(since)
		if err != nil {
			return err
		}
		// That there is a next one means that this one is at its end.
		if c.file != nil {
			if err := c.lines(line); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		c.close()
		c.file, c.number, c.pos, c.skip = next.file, next.number, 0, false
	}
}

// next opens the file after the cursor's, without those that nothing was
// written to since; nil: there is none yet.
func (c *cursor) next(since time.Time) (*cursor, error) {
	numbers, err := c.log.numbers()
	if err != nil {
		return nil, err
	}
	if len(numbers) > 0 && numbers[0] <= c.number && c.removed() {
		// Somebody removed the log, or is about to, and it begins again.
		c.number, c.told = 0, c.last
	}
	for i, n := range numbers {
		if n <= c.number {
			continue
		}
		f, err := os.Open(c.log.path(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile, as the oldest is
		}
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && (i == len(numbers)-1 || !info.ModTime().Before(since)) {
			return &cursor{file: f, number: n}, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// removed tells whether the cursor's file has no name any more.
func (c *cursor) removed() bool {
	var st unix.Stat_t
	return unix.Fstat(int(c.file.Fd()), &st) == nil && st.Nlink == 0
}

// lines calls fn with each whole line from the cursor on.
func (c *cursor) lines(fn func([]byte) error) error {
	if c.buf == nil {
		c.buf = make([]byte, maxLine)
	}
	for {
		n, err := c.file.ReadAt(c.buf, c.pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		chunk := c.buf[:n]
		for line := range bytes.Lines(chunk) {
			whole := line[len(line)-1] == '\n'
			if !whole && n < len(c.buf) || !whole && len(line) < n {
				break
			}
			c.pos += int64(len(line))
			skip := c.skip
			c.skip = !whole
			if whole && !skip {
				if err := fn(line); err != nil {
					return err
				}
			}
		}
		if err == nil {
			continue
		}
		if info, err := c.file.Stat(); err != nil || info.Size() >= c.pos {
			return err // the end, for now
		}
		c.pos, c.skip = 0, false // somebody emptied the file
	}
}
