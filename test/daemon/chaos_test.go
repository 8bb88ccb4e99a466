package daemon

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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

// listing is all that cordon could leave behind.
const listing = `
ip -o link | sed 's/^[0-9]*: //; s/@.*//' | sort
for save in iptables-save ip6tables-save; do $save | grep -v '^[#*]\|^COMMIT\|^:[A-Z]* ACCEPT' | sed 's/\[[0-9:]*\]//' | sort; done
ipset save | sort
find /run/cordon ! -name 'rules.*' ! -name 'lock*' ! -name 'daemon.*' ! -name '.allocation' ! -name '.shared' -printf '%P %y\n' | sort
findmnt -rno TARGET | grep ^/run/cordon | sort
find $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts) -type d -path "*/$CORDON_CGROUP_PARENT/*" 2>/dev/null | sort
find "$CORDON_STATE_DIR" ! -path '*/events*' ! -path '*/homes*' -printf '%P %y\n' | sort
ps -eo comm= | grep -c bwrap || true
psql -qAtc "select rolname from pg_roles where rolname !~ '^pg_' order by 1" -c "select polname, polroles::text from pg_policy order by 1" \
  -c "select nspname, nspacl from pg_namespace where nspname !~ '^pg_' order by 1" -c "select evtname from pg_event_trigger"
`

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
		var clean [2]string
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
			if now := h.sh(listing); now != clean[v] {
				t.Fatalf("round %d, killed after %s, spoilt by %q: what is there differs:\n%s", i, pause, spoil, difference(clean[v], now))
			}
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

// difference is the lines that only one of them has.
func difference(want, got string) string {
	var b strings.Builder
	in := func(lines string, l string) bool { return strings.Contains("\n"+lines+"\n", "\n"+l+"\n") }
	for l := range strings.SplitSeq(want, "\n") {
		if !in(got, l) {
			b.WriteString("- " + l + "\n")
		}
	}
	for l := range strings.SplitSeq(got, "\n") {
		if !in(want, l) {
			b.WriteString("+ " + l + "\n")
		}
	}
	return b.String()
}
