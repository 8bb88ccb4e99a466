package broker

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/session"
)

// A file or a socket would be more than a stream: a client passes pipes, and
// is refused if it does not.
func TestFilesAreStreams(t *testing.T) {
	h := serve(t, nil)
	file := func(text string) *os.File {
		f, err := os.CreateTemp(t.TempDir(), "")
		must(t, err)
		must(t, os.WriteFile(f.Name(), []byte(text), 0o600))
		t.Cleanup(func() { f.Close() })
		return f
	}
	socket := func(family, kind int) *os.File {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		f := os.NewFile(uintptr(fd), "socket")
		t.Cleanup(func() { f.Close() })
		return f
	}
	zero, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
	must(t, err)
	defer zero.Close()
	directory, err := os.Open("/")
	must(t, err)
	defer directory.Close()
	for what, f := range map[string]*os.File{
		"a file": file(""), "a device": zero, "a directory": directory, "a unix socket": socket(unix.AF_UNIX, unix.SOCK_STREAM),
		"a socket of the host's network": socket(unix.AF_INET, unix.SOCK_DGRAM),
	} {
		c := begun(t, h, f, "copy")
		if a, err := next(c); err == nil || !strings.Contains(err.Error(), "descriptor 0: it is ") {
			t.Errorf("%s passed as it is: %+v, %v", what, a, err)
		}
		if f == directory {
			continue
		}
		if code, err := h.client(f, f).Run(context.Background(), session.Request{Sandbox: "s", Command: []string{"environ"}}); code != 7 || err != nil {
			t.Errorf("%s: %d, %v", what, code, err)
		}
	}
	// All that is written is there when the client ends.
	out := file("")
	long := strings.Repeat("through ", 1<<17)
	if code, err := h.client(file(long), out).Run(context.Background(), session.Request{Sandbox: "s", Command: []string{"copy"}}); code != 7 || err != nil {
		t.Fatalf("%d, %v", code, err)
	}
	got, err := os.ReadFile(out.Name())
	must(t, err)
	if n := strings.Count(string(got), "through "); n < 1<<17-2 { // what the client says comes in between
		t.Errorf("%d of %d", n, 1<<17)
	}
}
