package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// rounds is how often two daemons are killed, one of them at a random moment of
// its work; CORDON_CHAOS says another number.
const rounds = 20

// variants are two states of the files, with little in common.
func variants() [2]string {
	return [2]string{`
network "one" {
  pool = "10.210.0.0/24"
  warm = 2
}
sandbox "one" {
  network = network.one
  filesystem {
    programs = ["/bin/bash"]
  }
  limits {
    pids = 64
  }
}
project "alpha" {
  directory = "/srv/projects/alpha"
  sandboxes = [sandbox.one]
  schema {
    database     = database.main
    owner_column = "user_id"
    table "notes" {
      anonymous = ["select"]
    }
  }
}
`, `
network "one" {
  pool   = "10.210.0.0/24"
  egress = "internet"
  warm   = 1
}
network "two" {
  pool = "10.211.0.0/24"
  warm = 3
}
seccomp "strict" {
  base = "container"
  deny = ["ptrace"]
}
sandbox "one" {
  network = network.one
  seccomp = seccomp.strict
  filesystem {
    programs = ["/bin/bash", "/usr/bin/env"]
  }
  limits {
    pids = 32
  }
}
sandbox "two" {
  network = network.two
  filesystem {
    programs = ["/bin/bash"]
  }
}
project "alpha" {
  directory = "/srv/projects/alpha"
  sandboxes = [sandbox.one, sandbox.two]
  schema {
    database     = database.main
    owner_column = "user_id"
    table "notes" {
      authenticated = ["select"]
    }
  }
}
project "beta" {
  directory = "/srv/projects/beta"
  schema {
    database = database.main
  }
}
`}
}

const database = `
secret "url" {
  env = "CORDON_POSTGRES_URL"
}
database "main" {
  connection = secret.url
}
`

// listing is all that cordon could leave behind, besides what it writes down.
const listing = `
ip -o link | sed 's/^[0-9]*: //; s/@.*//' | sort
for save in iptables-save ip6tables-save; do $save | grep -v '^[#*]\|^COMMIT\|^:[A-Z]* ACCEPT' | sed 's/\[[0-9:]*\]//' | sort; done
ipset save | sort
find /run/cordon ! -name 'rules.*' ! -name 'lock*' ! -name 'daemon.*' ! -name '.allocation' ! -name '.shared' ! -name '.making' -printf '%P %y\n' | sort
findmnt -rno TARGET | grep ^/run/cordon | sort
find $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts) -type d -path "*/$CORDON_CGROUP_PARENT/*" 2>/dev/null | sort
ps -eo comm= | grep -c bwrap || true
psql -qAtc "select rolname from pg_roles where rolname !~ '^pg_' order by 1" -c "select polname, polroles::text from pg_policy order by 1" \
  -c "select nspname, nspacl from pg_namespace where nspname !~ '^pg_' order by 1" -c "select evtname from pg_event_trigger"
`

// written are the files in which it keeps what must outlast it.
const written = `find "$CORDON_STATE_DIR" ! -path '*/events*' ! -path '*/homes*' -printf '%P %y\n' | sort`

func spoilings() []string {
	return []string{
		"iptables -F",
		"ip6tables -F; ip6tables -X",
		"ip link del c-one.0",
		"ipset destroy",
		"psql -qc 'ALTER TABLE alpha.notes DISABLE ROW LEVEL SECURITY'",
		"psql -qc 'ALTER ROLE alpha_anon SUPERUSER'",
		"umount /run/cordon/roots/one/usr/bin/bash",
		"umount -l /run/cordon/netns/one.0",
		"rm -r /run/cordon/seccomp",
		"rm /run/cordon/roots/one.json",
	}
}

// Killed at any moment of busy convergence, beside sessions that are killed
// too, nothing is lost and nothing left: the next one converges to exactly what
// a host has to which nothing ever happened.
func TestKilledAtAnyMoment(t *testing.T) {
	n := rounds
	if v := os.Getenv("CORDON_CHAOS"); v != "" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	onHost(t, func(t *testing.T) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d, %d rounds", seed, n)
		random := rand.New(rand.NewPCG(seed, 0))
		h := newHost(t)
		h.sh("rm " + h.dir + "/*.hcl")
		h.write("database.hcl", database)
		var clean, kept, ids [2]string
		for i, text := range variants() {
			h.write("variant.hcl", text)
			end := h.daemon("--interval", "1s", "--allow-deletes")
			h.converged()
			if i == 0 {
				h.sh(`psql -qc 'CREATE TABLE alpha.notes (id int, user_id text)'`)
				h.converged()
			}
			if out, err := h.command(t.Context(), "run", "--project", "alpha", "one", "--", "bash", "-c", "exit 0").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			h.converged()
			clean[i] = h.sh(listing)
			ids[i] = h.arrived("")
			kept[i] = h.sh(written)
			end(syscall.SIGTERM)
		}
		for i := range n {
			v := i % 2
			h.write("variant.hcl", variants()[v])
			spoil := spoilings()[random.IntN(len(spoilings()))]
			_ = exec.Command("bash", "-c", spoil).Run() // what is spoilt need not be there
			killed := h.daemon("--interval", "200ms", "--allow-deletes")
			session := h.command(context.Background(), "run", "--project", "alpha", "one", "--", "bash", "-c", "exec 3<> <(:); read -u 3")
			if err := session.Start(); err != nil {
				t.Fatal(err)
			}
			pause := time.Duration(random.Int64N(int64(500 * time.Millisecond)))
			time.Sleep(pause)
			killed(syscall.SIGKILL)
			time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
			_ = session.Process.Kill()
			_ = session.Wait()

			end := h.daemon("--interval", "200ms", "--allow-deletes")
			h.converged()
			what := fmt.Sprintf("round %d, killed after %s, spoilt by %q", i, pause, spoil)
			h.same(what, listing, clean[v])
			h.arrived(ids[v])
			h.same(what, written, kept[v])
			end(syscall.SIGKILL)
		}
	})
}

func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		h.t.Fatal(err)
	}
}

// arrived waits until the daemon has all of a revision, any when id is empty, and
// has written that down: it then writes nothing before something changes.
func (h *host) arrived(id string) string {
	h.t.Helper()
	var out, kept []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var s loop.State
		out, _ = h.command(h.t.Context(), "status", "--json").Output()
		if json.Unmarshal(out, &s) != nil || s.Revision == nil || s.Revision.Reached.IsZero() || id != "" && s.Revision.ID != id {
			continue
		}
		kept, _ = os.ReadFile(filepath.Join(os.Getenv("CORDON_STATE_DIR"), "daemon/folder/revision"))
		if bytes.Contains(kept, []byte(s.Revision.ID)) {
			return s.Revision.ID
		}
	}
	h.t.Fatalf("not arrived at %q: %s\nkept is %s", id, out, kept)
	return ""
}

// same fails the test when a listing is not as it should be, with what it is a
// second later, too: what is left stays, what is on its way is gone by then.
func (h *host) same(what, listing, want string) {
	h.t.Helper()
	now := h.sh(listing)
	if now == want {
		return
	}
	time.Sleep(time.Second)
	h.t.Fatalf("%s: what is there differs:\n%s\nand a second later:\n%s", what, difference(want, now), difference(want, h.sh(listing)))
}

// difference is the lines of which one has more than the other.
func difference(want, got string) string {
	count := map[string]int{}
	for l := range strings.SplitSeq(want, "\n") {
		count[l]--
	}
	for l := range strings.SplitSeq(got, "\n") {
		count[l]++
	}
	var b strings.Builder
	for _, l := range slices.Sorted(maps.Keys(count)) {
		if n := count[l]; n != 0 {
			fmt.Fprintf(&b, "%+d %s\n", n, l)
		}
	}
	return b.String()
}
