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
	"time"

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
	kept  int // that of the token's file; -1: there is none
	lease identity
	token identity
	named unix.Timespec // st_ctime of kept while its path was known to lead to it
	end   context.CancelFunc

	watched  bool // changes of its directory are told
	process  int  // pidfd of the process that runs it, whose end is told; -1: it is not
	outlived bool // that process has ended, and the lock is held
}

// same tells whether the session's token is the one that was read. Whatever becomes
// of the file or of its name changes a time of the open file (st_ctime, inode(7)),
// and to ask for that is much cheaper than to look the path up. That the session's
// own directory has another name is for events to tell. The caller holds mu.
func (k *known) same(dir int) bool {
	var st unix.Stat_t
	there := k.kept >= 0 && rawsys.Fstat(k.kept, &st) == nil
	if there && st.Ctim == k.named {
		return k.token == identity{st.Ino, st.Mtim}
	}
	if k.token != identify(dir, k.name) {
		return false
	}
	if there && st.Ino == k.token.inode && time.Since(time.Unix(st.Ctim.Unix())) > clockTick {
		k.named = st.Ctim
	}
	return true
}

// clockTick is more than the kernel's clock for files goes on by at once: a time that
// is older changes with the next change.
const clockTick = 50 * time.Millisecond

// identity tells versions of a file apart: each is put in place by a rename.
// The zero identity is no file.
type identity struct {
	inode uint64
	mtime unix.Timespec
}

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
	k := &known{dir: dir, name: filepath.Join(filepath.Base(dir), token.File), lock: -1, kept: -1, process: -1}
	if err := l.read(k); err != nil {
		k.close()
		return nil, err
	}
	if k.Token.Hash == "" {
		k.Alive, k.end = context.WithCancel(context.Background())
		return k, nil
	}
	k.Alive, k.end = context.WithDeadlineCause(context.Background(), k.Token.Expires, errExpired)
	return k, nil
}

// read reads the lease and the token in k's directory. What it opened is in k
// also where it fails.
func (l *Live) read(k *known) error {
	b, err := os.ReadFile(filepath.Join(k.dir, "lease.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &k.Lease); err != nil {
		return err
	}
	if k.Lease.ID != filepath.Base(k.dir) {
		return fmt.Errorf("the lease is of %q", k.Lease.ID)
	}
	if k.addr, err = l.address(k.Lease); err != nil {
		return err
	}
	// Opened before it is read: what is put in its place meanwhile is another.
	if k.kept, err = rawsys.Open(unix.AT_FDCWD, filepath.Join(k.dir, token.File), unix.O_NOFOLLOW); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if k.Token, err = token.Read(k.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if k.lock, err = rawsys.Open(unix.AT_FDCWD, filepath.Join(k.dir, "lock"), unix.O_NOFOLLOW); err != nil {
		return err
	}
	if !k.lives() {
		return errors.New("nobody runs it")
	}
	return nil
}

// close lets go of what is open of the session.
func (k *known) close() {
	for _, fd := range []int{k.lock, k.kept} {
		if fd >= 0 {
			rawsys.Close(fd)
		}
	}
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
