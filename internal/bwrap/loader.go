package bwrap

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/filterexec"
)

// loader is a file in memory that bubblewrap executes instead of the command
// and that stays empty, which nothing can execute, until the gate opens. It
// is reached by its descriptor: the sandbox needs no place for it.
type loader struct {
	file *os.File
	fd   int // the number that it has in the sandbox
}

func newLoader(files *fileList) (*loader, error) {
	const flags = unix.MFD_CLOEXEC
	fd, err := unix.MemfdCreate("loader", flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 all are executable
		fd, err = unix.MemfdCreate("loader", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create of an executable file (to log refused calls; see vm.memfd_noexec): %w", err)
	}
	file := os.NewFile(uintptr(fd), "loader")
	return &loader{file: file, fd: files.borrow(file)}, nil
}

func (l *loader) path() string { return fmt.Sprintf("/proc/self/fd/%d", l.fd) }

// write makes it a program that loads filter and becomes command.
func (l *loader) write(command string, filter []byte) error {
	program, err := filterexec.Program(runtime.GOARCH, l.fd, command, filter)
	if err != nil {
		return err
	}
	_, err = l.file.Write(program)
	return err
}
