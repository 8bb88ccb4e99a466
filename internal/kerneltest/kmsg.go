package kerneltest

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// KernelLog listens to the kernel's log. What it returns tells whether a
// record came, since then or since it was last asked, that holds all words.
// The log's rate is bounded: what makes the record may have to be done again.
func KernelLog(t testing.TB) func(words ...string) bool {
	t.Helper()
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Seek(fd, 0, unix.SEEK_END)
	}
	if err != nil {
		Missing(t, "the kernel's log: "+err.Error())
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	record := make([]byte, 8192) // a read returns one
	return func(words ...string) bool {
		for found := false; ; {
			n, err := unix.Read(fd, record)
			switch err {
			case nil:
				found = found || holds(string(record[:n]), words)
			case unix.EPIPE, unix.EINTR: // records were lost
			case unix.EAGAIN:
				return found
			default:
				t.Fatal(os.NewSyscallError("read /dev/kmsg", err))
			}
		}
	}
}

func holds(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
