// Package account finds users of the host, those too that only its name
// service switch knows (LDAP, sssd): a program without cgo reads /etc/passwd by
// itself, and getent(1) asks for the rest.
package account

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/aicodesit/cordon/internal/run"
)

// timeout bounds how long a directory service may take.
const timeout = 20 * time.Second

// Lookup finds a user by name. The error is a [user.UnknownUserError] when there
// is none.
func Lookup(ctx context.Context, name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if !errors.As(err, new(user.UnknownUserError)) {
		return u, err
	}
	// Digits are an id to getent.
	return getent(ctx, name, err, func(u *user.User) bool { return u.Username == name })
}

// LookupID finds a user by id. The error is a [user.UnknownUserIdError] when
// there is none.
func LookupID(ctx context.Context, uid uint32) (*user.User, error) {
	id := strconv.FormatUint(uint64(uid), 10)
	u, err := user.LookupId(id)
	if !errors.As(err, new(user.UnknownUserIdError)) {
		return u, err
	}
	// A name may be digits, too.
	return getent(ctx, id, err, func(u *user.User) bool { return u.Uid == id })
}

// getent returns the error unknown when there is no such user.
func getent(ctx context.Context, key string, unknown error, meant func(*user.User) bool) (*user.User, error) {
	if key == "" || strings.ContainsAny(key, ":\n") {
		return nil, unknown
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out, err := run.Output(ctx, "getent", "passwd", "--", key)
	const notFound = 2 // getent(1)
	if run.ExitCode(err) == notFound || errors.Is(err, exec.ErrNotFound) {
		return nil, unknown
	}
	if err != nil {
		return nil, fmt.Errorf("the user database: %w", err)
	}
	line := strings.TrimSuffix(string(out), "\n")
	f := strings.Split(line, ":")
	if len(f) != 7 {
		return nil, fmt.Errorf("the user database: getent passwd says %.200q", line)
	}
	u := &user.User{Username: f[0], Uid: f[2], Gid: f[3], Name: f[4], HomeDir: f[5]}
	if !meant(u) {
		return nil, unknown
	}
	return u, nil
}
