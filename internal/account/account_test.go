package account

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// directory puts a getent before the host's, as one that a directory service
// answers.
func directory(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const nobody = "nosuchuser-9"

func TestFiles(t *testing.T) {
	directory(t, "echo asked >&2; exit 1") // what files know needs no directory
	for _, look := range []func() (*user.User, error){
		func() (*user.User, error) { return Lookup(context.Background(), "root") },
		func() (*user.User, error) { return LookupID(context.Background(), 0) },
	} {
		if u, err := look(); err != nil || u.Username != "root" || u.Uid != "0" || u.Gid != "0" {
			t.Errorf("root: %+v, %v", u, err)
		}
	}
}

// The host's own getent knows no more than its files.
func TestUnknown(t *testing.T) {
	if _, err := Lookup(context.Background(), nobody); !errors.As(err, new(user.UnknownUserError)) {
		t.Errorf("a name: %v", err)
	}
	if _, err := LookupID(context.Background(), 4_000_000_001); !errors.As(err, new(user.UnknownUserIdError)) {
		t.Errorf("an id: %v", err)
	}
	t.Setenv("PATH", "")
	if _, err := Lookup(context.Background(), nobody); !errors.As(err, new(user.UnknownUserError)) {
		t.Errorf("a name, without getent: %v", err)
	}
}

func TestDirectory(t *testing.T) {
	const id = 4_000_000_001
	for _, tt := range []struct {
		name, script string
		byName, byID string // part of the error; "" is found
	}{
		{"known", "echo 'nosuchuser-9:*:4000000001:4000000002:N:/home/n:/bin/sh'", "", ""},
		{"another name", "echo 'other:*:4000000001:4000000002:N:/home/n:/bin/sh'", "unknown user nosuchuser-9", ""},
		{"another id", "echo 'nosuchuser-9:*:4000000003:4000000002:N:/home/n:/bin/sh'", "", "unknown userid 4000000001"},
		{"fails", "echo gone away >&2; exit 1", "the user database: getent passwd -- nosuchuser-9: exit status 1: gone away", "the user database: "},
		{"half a line", "echo nosuchuser-9:x", `says "nosuchuser-9:x"`, "says"},
		{"too short a line", "echo 'nosuchuser-9:*:4000000001:4000000002:N:/home/n'", "says", "says"},
		{"nothing", "", "says", "says"},
		{"hangs", "exec tail -f /dev/null", "the user database: ", "the user database: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			directory(t, tt.script)
			ctx := context.Background()
			if tt.name == "hangs" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
			}
			u, err := Lookup(ctx, nobody)
			holds(t, u, err, tt.byName)
			u, err = LookupID(ctx, id)
			holds(t, u, err, tt.byID)
		})
	}
}

func holds(t *testing.T, u *user.User, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want == "" && u.Gid != "4000000002":
		t.Errorf("found %+v", u)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%v, want %s", err, want)
	}
}
