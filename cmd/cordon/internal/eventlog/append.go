package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// Bounds of an event's texts, in bytes: names, and what is for people.
const (
	maxName = 512
	maxText = 4096
)

// lockWait is how long Append waits for others that append. They take
// microseconds; one that was stopped in the middle must stop nobody else.
const lockWait = 250 * time.Millisecond

// Append adds e, with the time of now if it has none, and makes the log if
// there is none. Texts that are too long are cut. Who appends goes on with its
// work whatever the error: a full disk is one to report, not to stop for.
func (l Log) Append(e loop.Event) error {
	line, err := encode(e)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	f, locked, err := l.open(int64(len(line)))
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	if err := errors.Join(write(f, line, locked), f.Close()); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// encode is the line of an event. JSON has no line ends within: none can be
// forged by what a text holds.
func encode(e loop.Event) ([]byte, error) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	for _, s := range []*string{&e.By, &e.Part, &e.Revision, &e.Session, &e.Project, &e.Sandbox} {
		*s = cut(*s, maxName)
	}
	e.Kind, e.Action = loop.Kind(cut(string(e.Kind), maxName)), reconciler.Action(cut(string(e.Action), maxName))
	e.Addr = reconciler.Addr(cut(string(e.Addr), maxText))
	e.Text, e.Error = cut(e.Text, maxText), cut(e.Error, maxText)
	b, err := json.Marshal(e)
	return append(b, '\n'), err
}

// cut is s in at most limit bytes of whole characters.
func cut(s string, limit int) string {
	const more = "…"
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	end := limit - len(more)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + more
}

// write appends a line as a whole or, where that is possible, not at all.
func write(f *os.File, line []byte, locked bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := info.Size(); size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' { // a crash left a part of a line
			line = append([]byte{'\n'}, line...)
		}
	}
	n, err := f.Write(line)
	if err != nil && n > 0 && locked { // the disk is full
		return errors.Join(err, f.Truncate(info.Size()))
	}
	return err
}

// open opens the file that grows, with room for more bytes, locked unless
// somebody else has it for too long: then a follower may miss the line, but
// who appends goes on.
func (l Log) open(more int64) (f *os.File, locked bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	number, err := l.newest()
	if err != nil {
		return nil, false, err
	}
	for {
		if f, err = l.openFile(number, 0); err != nil {
			return nil, false, err
		}
		if rundir.Flock(ctx, f, unix.LOCK_EX, nil) != nil {
			return f, false, nil
		}
		full, err := l.full(f, number, more)
		if err != nil {
			return nil, false, errors.Join(err, f.Close())
		}
		if !full {
			return f, true, nil
		}
		number++
		if err := f.Close(); err != nil {
			return nil, false, err
		}
	}
}

func (l Log) newest() (int, error) {
	numbers, err := l.numbers()
	if err != nil || len(numbers) == 0 {
		return 1, err
	}
	return numbers[len(numbers)-1], nil
}

// full tells whether the file, which is locked, has a successor, and makes one
// when there is no room for more bytes.
func (l Log) full(f *os.File, number int, more int64) (bool, error) {
	if _, err := os.Lstat(l.path(number + 1)); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || info.Size()+more <= l.fileSize() {
		return false, err
	}
	next, err := l.openFile(number+1, os.O_EXCL)
	if err != nil {
		return false, err
	}
	return true, errors.Join(next.Close(), l.prune(number+1))
}

func (l Log) prune(newest int) error {
	numbers, err := l.numbers()
	for _, n := range numbers {
		if n > newest-l.files() {
			break
		}
		if e := os.Remove(l.path(n)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (l Log) openFile(number, flags int) (*os.File, error) {
	open := func() (*os.File, error) {
		return os.OpenFile(l.path(number), os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|flags, 0o600)
	}
	f, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(l.Dir), 0o755); err != nil {
			return nil, err
		}
		if err := os.Mkdir(l.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		return open()
	}
	return f, err
}

// decode is the event of a line; false: it is none.
func decode(line []byte) (e loop.Event, ok bool) {
	if len(bytes.TrimSpace(line)) == 0 || json.Unmarshal(line, &e) != nil {
		return loop.Event{}, false
	}
	return e, e.Kind != "" && !e.Time.IsZero()
}
