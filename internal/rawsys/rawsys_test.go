package rawsys

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair is the two ends of a connection.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewConn(near.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = far.Close() })
	return c, far.(*net.TCPConn)
}

// What is far more than sockets hold goes both ways at a time, whole and in order.
func TestConn(t *testing.T) {
	near, far := pair(t)
	sent := make([]byte, 16<<20)
	_, _ = rand.Read(sent)
	echoed := make(chan error, 1)
	go func() {
		_, err := io.Copy(far, far)
		echoed <- errors.Join(err, far.CloseWrite())
	}()
	wrote := make(chan error, 1)
	go func() {
		n, err := near.Write(sent)
		if n != len(sent) && err == nil {
			err = io.ErrShortWrite
		}
		wrote <- errors.Join(err, near.CloseWrite())
	}()
	got, err := io.ReadAll(near)
	if err := errors.Join(err, <-wrote, <-echoed); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Error("other bytes came back")
	}
}

// Who asks has the answer there, however large the question is.
func TestAsk(t *testing.T) {
	for _, size := range []int{0, 1, 100, 16 << 20} {
		near, far := pair(t)
		question := make([]byte, size)
		_, _ = rand.Read(question)
		heard := make(chan error, 1)
		go func() {
			got := make([]byte, size)
			_, err := io.ReadFull(far, got)
			if !bytes.Equal(got, question) {
				err = errors.Join(err, errors.New("other bytes came"))
			}
			_, failed := far.Write([]byte("yes"))
			heard <- errors.Join(err, failed)
		}()
		n, err := near.Ask(question)
		if err != nil || n != size {
			t.Fatalf("%d bytes: %d, %v", size, n, err)
		}
		if size == 100 && near.Quiet() {
			t.Error("it did not wait")
		}
		answer := make([]byte, 3)
		if _, err := io.ReadFull(near, answer); err != nil || string(answer) != "yes" {
			t.Fatalf("%d bytes: %q, %v", size, answer, err)
		}
		if err := <-heard; err != nil {
			t.Fatal(err)
		}
	}
}

// Who says something before it is asked is not asked.
func TestAskNotQuiet(t *testing.T) {
	near, far := pair(t)
	if _, err := far.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	if n, err := near.Await(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := near.Ask([]byte("question")); n != 0 || err != ErrNotQuiet {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := near.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	if n, err := far.Read(got); err != nil || string(got[:n]) != "x" {
		t.Errorf("it was sent %q, %v", got[:n], err)
	}
}

// An error is the one that net's own connection has.
func TestConnErrors(t *testing.T) {
	full := make([]byte, 16<<20)
	for _, tt := range []struct {
		name string
		do   func(near *Conn, far *net.TCPConn) error
		want error
	}{
		{"end", func(near *Conn, far *net.TCPConn) error {
			_ = far.Close()
			_, err := near.Read(make([]byte, 1))
			return err
		}, io.EOF},
		{"reset", func(near *Conn, far *net.TCPConn) error {
			_ = far.SetLinger(0)
			_ = far.Close()
			_, err := near.Read(make([]byte, 1))
			return err
		}, syscall.ECONNRESET},
		{"nobody to write to", func(near *Conn, far *net.TCPConn) error {
			_ = far.Close()
			_, err := near.Write(full)
			_, again := near.Write(full)
			return errors.Join(err, again)
		}, syscall.EPIPE},
		{"nobody to ask", func(near *Conn, far *net.TCPConn) error {
			_ = far.Close()
			_, _ = near.Await() // the end
			_, err := near.Ask(full)
			return err
		}, ErrNotQuiet},
		{"asked, hung up", func(near *Conn, far *net.TCPConn) error {
			go far.CloseWrite() // also before it is asked
			_, err := near.Ask([]byte("?"))
			_, read := near.Read(make([]byte, 1))
			return errors.Join(err, read)
		}, io.EOF},
		{"closed, asked", func(near *Conn, _ *net.TCPConn) error {
			_ = near.Close()
			_, err := near.Ask(full)
			return err
		}, net.ErrClosed},
		{"closed while it is asked", func(near *Conn, _ *net.TCPConn) error {
			go near.Close()
			_, err := near.Ask([]byte("?"))
			return err
		}, net.ErrClosed},
		{"deadline of an answer", func(near *Conn, _ *net.TCPConn) error {
			_ = near.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := near.Ask([]byte("?"))
			return err
		}, os.ErrDeadlineExceeded},
		{"closed, read", func(near *Conn, _ *net.TCPConn) error {
			_ = near.Close()
			_, err := near.Read(make([]byte, 1))
			return err
		}, net.ErrClosed},
		{"closed while it is read", func(near *Conn, _ *net.TCPConn) error {
			go near.Close()
			_, err := near.Read(make([]byte, 1))
			return err
		}, net.ErrClosed},
		{"closed, written", func(near *Conn, _ *net.TCPConn) error {
			_ = near.Close()
			_, err := near.Write(full)
			return err
		}, net.ErrClosed},
		{"deadline of reads", func(near *Conn, _ *net.TCPConn) error {
			_ = near.SetReadDeadline(time.Unix(1, 0))
			_, err := near.Read(make([]byte, 1))
			return err
		}, os.ErrDeadlineExceeded},
		{"deadline of writes", func(near *Conn, _ *net.TCPConn) error {
			_ = near.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, err := near.Write(full)
			return err
		}, os.ErrDeadlineExceeded},
	} {
		near, far := pair(t)
		if err := tt.do(near, far); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestLookAhead(t *testing.T) {
	near, far := pair(t)
	if !near.Quiet() {
		t.Error("nothing was said, and it is not quiet")
	}
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it takes nothing
		if n, err := near.Await(); n != 1 || err != nil {
			t.Errorf("with a byte there: %d, %v", n, err)
		}
	}
	if near.Quiet() {
		t.Error("quiet, with a byte there")
	}
	if n, err := near.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
	_ = near.SetReadDeadline(time.Now())
	if _, err := near.Await(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	_ = near.SetReadDeadline(time.Time{})
	_ = far.Close()
	if n, err := near.Await(); n != 0 || err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if near.Quiet() {
		t.Error("quiet at the end")
	}
}

func TestFlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() int {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	one, two := open(), open()
	for _, tt := range []struct {
		fd, how int
		want    error
	}{{one, unix.LOCK_EX, nil}, {two, unix.LOCK_SH, unix.EWOULDBLOCK}, {one, unix.LOCK_UN, nil}, {two, unix.LOCK_SH, nil}, {-1, unix.LOCK_SH, unix.EBADF}} {
		if err := Flock(tt.fd, tt.how); err != tt.want {
			t.Errorf("flock(%d, %d): %v, want %v", tt.fd, tt.how, err, tt.want)
		}
	}
}

func TestLstat(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	var got, want unix.Stat_t
	if err := unix.Lstat(link, &want); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	long := dir + strings.Repeat("/.", 100) + "/link"
	for _, name := range []string{"link", link, long} {
		if err := Lstat(at, name, &got); err != nil || got != want {
			t.Errorf("%s: %v, %+v, want %+v", name, err, got, want)
		}
	}
	if err := Lstat(at, "none", &got); err != unix.ENOENT {
		t.Errorf("of none: %v", err)
	}
	if err := Lstat(at, "a\x00b", &got); err != unix.EINVAL {
		t.Errorf("of no path: %v", err)
	}
}

// Files of all sizes come whole, with a buffer that has room and with one that
// has not.
func TestReadFile(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	at := int(dir.Fd())
	for _, size := range []int{0, 1, minRead - 1, minRead, minRead + 1, 3*minRead + 5, 1 << 20} {
		want := make([]byte, size)
		_, _ = rand.Read(want)
		path := filepath.Join(dir.Name(), "file")
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, buf := range [][]byte{nil, make([]byte, minRead), make([]byte, 4*minRead)} {
			for name, in := range map[string]int{"file": at, path: unix.AT_FDCWD} {
				if got, err := ReadFile(in, name, buf); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, a buffer of %d: %d bytes, %v", size, len(buf), len(got), err)
				}
			}
		}
	}
	if _, err := ReadFile(at, "none", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadFile(unix.AT_FDCWD, dir.Name(), nil); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory: %v", err)
	}
	if err := os.Symlink("file", filepath.Join(dir.Name(), "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(at, "link", unix.O_NOFOLLOW); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link: %v", err)
	}
	if err := unix.Mkfifo(filepath.Join(dir.Name(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(at, "pipe", nil); err != nil || len(got) != 0 {
		t.Errorf("a pipe that nobody writes to: %q, %v", got, err)
	}
}
