package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rundir"
)

// Listen opens the daemon's socket in the run directory, for everybody to
// connect to. What a dead daemon left there is replaced; one that answers is an
// error. The caller is the run directory's only daemon that starts now.
func Listen(dir rundir.Dir) (*net.UnixListener, error) {
	if _, err := dir.Make(); err != nil {
		return nil, err
	}
	path := dir.Socket()
	switch c, err := net.Dial("unix", path); {
	case err == nil:
		return nil, errors.Join(fmt.Errorf("%s: another daemon answers there", path), c.Close())
	case !noDaemon(err):
		return nil, err
	}
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s: is no socket, and in the way of the daemon's", path)
	}
	// Under its name it appears with its mode, and nobody finds it missing.
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o666), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// noDaemon tells whether nobody listens.
func noDaemon(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}
