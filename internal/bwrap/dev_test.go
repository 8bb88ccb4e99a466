package bwrap

import (
	"strings"
	"testing"
)

// What /dev holds, that it works, and that nothing else is a way to a device.
func TestDev(t *testing.T) {
	modes(t, func(t *testing.T, userns bool) {
		s := spec(t, "sh", "-c", `
			echo $(ls /dev /dev/pts); echo x > /dev/null && head -c 1 /dev/urandom | wc -c; readlink /dev/fd /dev/stdin /dev/ptmx
			while read -r _ _ _ _ point options _; do
				case ",$options," in *,nodev,*) ;; *) echo "devices at $point" ;; esac
				case ",$options," in *,nosuid,*) ;; *) echo "privilege at $point" ;; esac
			done < /proc/self/mountinfo | sort
		`)
		s.Userns = userns
		out, code := run(t, s)
		want := `/dev: core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero /dev/pts: ptmx
1
/proc/self/fd
/proc/self/fd/0
pts/ptmx
devices at /dev/full
devices at /dev/null
devices at /dev/pts
devices at /dev/random
devices at /dev/tty
devices at /dev/urandom
devices at /dev/zero
`
		if out != want || code != 0 {
			t.Errorf("exit %d:\n%s\nwant:\n%s", code, out, want)
		}
		if strings.Contains(out, "console") {
			t.Error("a console without a terminal")
		}
	})
}
