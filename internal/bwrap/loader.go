package bwrap

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/tinyexec"
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

// write makes it a program that loads filter, so that the kernel logs what it
// refuses, and becomes command.
func (l *loader) write(command string, filter []byte) error {
	arg, err := tinyexec.Filter(filter)
	if err != nil {
		return err
	}
	program, err := tinyexec.Program{
		Calls: []tinyexec.Call{
			{Number: unix.SYS_CLOSE, Args: []tinyexec.Arg{tinyexec.Int(uint32(l.fd))}}, // its own file
			{Number: unix.SYS_SECCOMP, Args: []tinyexec.Arg{
				tinyexec.Int(unix.SECCOMP_SET_MODE_FILTER), tinyexec.Int(unix.SECCOMP_FILTER_FLAG_LOG), arg,
			}},
		},
		Path:    command,
		Failure: "cordon: the command could not be started under its system call filter\n",
	}.ELF()
	if err != nil {
		return err
	}
	_, err = l.file.Write(program)
	return err
}
