package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/user"
	"strconv"

	accounts "github.com/aicodesit/cordon/internal/account"
	"github.com/aicodesit/cordon/internal/bwrap"
	"github.com/aicodesit/cordon/specs"
)

// outsideUser is whom a session outside any project runs as.
const outsideUser = "nobody"

// account is whom a session is on the host.
type account struct {
	name     string
	uid, gid uint32
}

func (a account) home() string { return "/home/" + a.name }

// passwd and group are what the session finds in /etc: itself, and the name
// that unmapped owners have.
func (a account) passwd() []byte {
	s := fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", a.name, a.uid, a.gid, a.home())
	if a.uid != overflowID {
		s += fmt.Sprintf("nobody:x:%d:%[1]d::/:/usr/sbin/nologin\n", overflowID)
	}
	return []byte(s)
}

func (a account) group() []byte {
	s := fmt.Sprintf("%s:x:%d:\n", a.name, a.gid)
	if a.gid != overflowID {
		s += fmt.Sprintf("nogroup:x:%d:\n", overflowID)
	}
	return []byte(s)
}

// overflowID is what an id without a mapping shows as, /proc/sys/kernel/overflowuid.
const overflowID = 65534

// whose finds a session's account: the declared user, else the owner of the
// project's directory.
func whose(ctx context.Context, p *specs.Project) (account, error) {
	declared := outsideUser
	if p != nil {
		declared = p.User
	}
	a, err := find(ctx, declared, p)
	if err != nil {
		return account{}, err
	}
	if declared != "root" && (a.uid == 0 || a.gid == 0) {
		what, orChown := fmt.Sprintf("user %s (uid %d, gid %d)", a.name, a.uid, a.gid), ""
		if p != nil && declared == "" {
			what = fmt.Sprintf("the owner of %s (uid %d, gid %d)", p.Directory, a.uid, a.gid)
			orChown = "; or give the directory to a user: chown -R USER: " + p.Directory
		}
		return account{}, fmt.Errorf("%s is root or in its group: declare another user, or user = \"root\" if that is meant%s", what, orChown)
	}
	return a, nil
}

func find(ctx context.Context, declared string, p *specs.Project) (account, error) {
	if declared != "" {
		u, err := accounts.Lookup(ctx, declared)
		if err != nil {
			return account{}, err
		}
		return fromUser(u)
	}
	dir, err := bwrap.Pin(p.Directory)
	if err != nil {
		return account{}, notThere(p, p.Directory, err)
	}
	defer dir.Close()
	uid, gid, err := dir.Owner()
	if err != nil {
		return account{}, err
	}
	u, err := accounts.LookupID(ctx, uid)
	if errors.As(err, new(user.UnknownUserIdError)) {
		return account{name: fmt.Sprintf("u%d", uid), uid: uid, gid: gid}, nil
	}
	if err != nil {
		return account{}, err
	}
	return fromUser(u)
}

// notThere names the project where it is its directory that can't be opened.
func notThere(p *specs.Project, path string, err error) error {
	if p != nil && path == p.Directory && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("project %q: its directory %s is not there", p.Name, p.Directory)
	}
	return err
}

func fromUser(u *user.User) (account, error) {
	uid, err := parseID(u.Uid)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := parseID(u.Gid)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return account{name: u.Username, uid: uid, gid: gid}, nil
}

// parseID refuses the highest number too: it is -1, by which system calls mean
// that an id is to stay what it is, here root's.
func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	if err == nil && id == math.MaxUint32 {
		err = fmt.Errorf("%s is nobody's id", s)
	}
	return uint32(id), err
}
