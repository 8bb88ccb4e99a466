package watch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
)

// Mounts watches the mounts at and below the run directory, and what it is
// mounted in: trees and pins of slots.
type Mounts struct{ Dir rundir.Dir }

// Name implements [Watcher].
func (Mounts) Name() string { return "mounts" }

// Parts implements [Watcher].
func (Mounts) Parts() []string { return []string{root, slot} }

// Run implements [Watcher].
func (m Mounts) Run(ctx context.Context, wake Wake) error {
	return named(ctx, m.Name(), func() error { return m.run(ctx, wake) })
}

func (m Mounts) run(ctx context.Context, wake Wake) error {
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open mountinfo: %w", err)
	}
	// Not by a poller: who asks whether there is a change takes it away, and
	// one epoll instance in another asks twice.
	table := os.NewFile(uintptr(fd), "mountinfo")
	defer table.Close()
	conn, err := table.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = table.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var was map[string][sha256.Size]byte // by part
	for {
		var parts set
		var failed error
		err := conn.Read(func(uintptr) bool {
			text, err := readAll(fd)
			if err != nil {
				failed = fmt.Errorf("read mountinfo: %w", err)
				return true
			}
			is := map[string][sha256.Size]byte{
				root: digestMounts(text, filepath.Dir(m.Dir.Root("x"))),
				slot: digestMounts(text, filepath.Dir(m.Dir.Netns("n", 0))),
			}
			for _, part := range m.Parts() {
				if was == nil || is[part] != was[part] {
					parts.add(part)
				}
			}
			was = is
			return len(parts) > 0
		})
		if err := cmp.Or(failed, err); err != nil {
			return err
		}
		if err := parts.wake(ctx, wake, rest); err != nil {
			return err
		}
	}
}

// digestMounts stands for the mounts that dir is in, is, or has below it.
func digestMounts(mountinfo []byte, dir string) [sha256.Size]byte {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	hash := sha256.New()
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) < 5 {
			continue
		}
		at := string(f[4])
		if within(at, dir) || within(dir, at) {
			_, _ = hash.Write(append(lines.Bytes(), '\n'))
		}
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// within tells whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// readAll reads a file of /proc from its start.
func readAll(fd int) ([]byte, error) {
	var text []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Pread(fd, buf, int64(len(text)))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return text, err
		}
		text = append(text, buf[:n]...)
	}
}
