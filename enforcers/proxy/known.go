package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/aicodesit/cordon/enforcers/proxy/token"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/rawsys"
	"github.com/aicodesit/cordon/specs"
)

// known is a session that lived when it was last looked at.
type known struct {
	Session
	dir   string // the session's own
	name  string // of its token, in the directory of all
	addr  netip.Addr
	lock  int // descriptor of the file that the session's process holds locked
	lease identity
	token identity
	end   context.CancelFunc

	watched  bool // changes of its directory, its token and its lock are told
	process  int  // pidfd of the process that runs it, whose end is told; -1: it is not
	outlived bool // that process has ended, and the lock is held
	sure     bool // it was looked at when all changes were told, and none was told since
}

// identity tells versions of a file apart: each is put in place by a rename.
// The zero identity is no file.
type identity struct {
	inode uint64
	mtime unix.Timespec
}

// lockFile is locked by the process that runs the session.
const lockFile = "lock"

// identify looks at a file, by a path or by a name in the open directory dir: what
// there is of a path to be looked up takes longer than the look itself.
func identify(dir int, name string) identity {
	var st unix.Stat_t
	if err := rawsys.Lstat(dir, name, &st); err != nil {
		return identity{}
	}
	return identity{st.Ino, st.Mtim}
}

// open reads a session that lives in a slot of one of the networks.
func (l *Live) open(dir string) (*known, error) {
	b, err := os.ReadFile(filepath.Join(dir, "lease.json"))
	if err != nil {
		return nil, err
	}
	k := &known{dir: dir, name: filepath.Join(filepath.Base(dir), token.File), process: -1}
	if err := json.Unmarshal(b, &k.Lease); err != nil {
		return nil, err
	}
	if k.Lease.ID != filepath.Base(dir) {
		return nil, fmt.Errorf("the lease is of %q", k.Lease.ID)
	}
	if k.addr, err = l.address(k.Lease); err != nil {
		return nil, err
	}
	if k.Token, err = token.Read(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// Not an os.File: asking that for its descriptor takes system calls.
	if k.lock, err = unix.Open(filepath.Join(dir, lockFile), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return nil, &os.PathError{Op: "open", Path: filepath.Join(dir, lockFile), Err: err}
	}
	if !k.lives() {
		_ = unix.Close(k.lock)
		return nil, errors.New("nobody runs it")
	}
	if k.Token.Hash == "" {
		k.Alive, k.end = context.WithCancel(context.Background())
		return k, nil
	}
	k.Alive, k.end = context.WithDeadlineCause(context.Background(), k.Token.Expires, errExpired)
	return k, nil
}

func (l *Live) address(lease specs.Lease) (netip.Addr, error) {
	n := specs.Find(l.networks, lease.Network)
	if n == nil || lease.Slot < 0 || lease.Slot >= n.Slots() {
		return netip.Addr{}, fmt.Errorf("slot %d of network %q is not one of those served", lease.Slot, lease.Network)
	}
	_, inside := n.SlotAddrs(lease.Slot)
	return inside.Addr(), nil
}

// lives tells whether the process that runs the session holds its lock.
func (k *known) lives() bool {
	locked, _ := rawsys.Locked(k.lock)
	return locked
}
