package eventlog

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/aicodesit/cordon/internal/account"
)

// By is who the events of this process are by: the user who logged in, also
// behind su and sudo (audit's login uid), else who called sudo, else whom this
// process runs as. Only root could have it say somebody else.
func By() string {
	for _, text := range []string{loginUID(), os.Getenv("SUDO_UID")} {
		if uid, err := strconv.ParseUint(text, 10, 32); err == nil && uid != unset {
			return ByUser(uint32(uid))
		}
	}
	return ByUser(uint32(os.Getuid()))
}

// ByUser is what events by a user say: the name, or the id where none is known.
func ByUser(uid uint32) string {
	if u, err := account.LookupID(context.Background(), uid); err == nil {
		return "user:" + u.Username
	}
	return "user:" + strconv.FormatUint(uint64(uid), 10)
}

// unset is the login uid of processes that nobody logged in for.
const unset = 1<<32 - 1

func loginUID() string {
	b, err := os.ReadFile("/proc/self/loginuid")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
