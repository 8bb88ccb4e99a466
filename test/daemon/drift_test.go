package daemon

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

// damage is something that somebody does by hand.
type damage struct {
	name, do string
	addr     string // expression for the address that drifts
	text     string // expression for what is told of it
}

// SESSION stands for a session's id, CGROUP for its cgroup in the hierarchy
// that bounds processes.
func damages() []damage {
	return []damage{
		{"our rule deleted", "iptables -D CORDON-INPUT 1", `network\.chain\.ipv4\.filter\.CORDON-INPUT`, `rules: \+ "-i c-dev`},
		{"a rule of ours replaced", "iptables -R CORDON-IN-dev 1 -j ACCEPT", `network\.chain\.ipv4\.filter\.CORDON-IN-dev`, `- "-j ACCEPT" \+ "-j REJECT`},
		{"chain flushed", "ip6tables -F CORDON-FORWARD", `network\.chain\.ipv6\.filter\.CORDON-FORWARD`, `rules:`},
		{"chain unhooked", "iptables -D FORWARD 1", `network\.hook\.ipv4\.filter\.FORWARD`, `it is gone`},
		{"jump reordered", "iptables -I INPUT -s 192.0.2.1 -j ACCEPT", `network\.hook\.ipv4\.filter\.INPUT`, `.`},
		{"set emptied", "ipset flush cordon-llm-only", `network\.member\.llm-only\.0`, `it is gone`},
		{
			"set destroyed and remade with another type",
			"for try in {1..200}; do iptables -F CORDON-IN-llm-only; ! ipset destroy cordon-llm-only 2>/dev/null || exec ipset create cordon-llm-only hash:ip; done; exit 1",
			`network\.set\.llm-only`, `.`,
		},
		{"veth deleted", "ip link del c-llm-only.1", `slot\.llm-only\.1`, `.`},
		{"veth of a running session deleted", "ip link del c-llm-only.0", `slot\.llm-only\.0`, `.`},
		{"address changed", "ip addr flush dev c-llm-only.2; ip addr add 192.0.2.1/30 dev c-llm-only.2", `slot\.llm-only\.2`, `.`},
		{
			"default route added in a slot",
			"nsenter --net=/run/cordon/netns/llm-only.0 ip route add default via 10.202.0.1", `slot\.llm-only\.0`, `egress = "internet" -> "none"`,
		},
		{"cgroup limit raised", "echo 5000 >CGROUP/pids.max", `cgroup\.SESSION`, `pids`},
		{
			"cgroup removed",
			`for p in $(cat CGROUP/cgroup.procs); do echo $p >CGROUP/../cgroup.procs; done; for try in {1..100}; do ! rmdir CGROUP 2>/dev/null || exit 0; done; exit 1`,
			`cgroup\.SESSION`, `.`,
		},
		{"seccomp file altered", `printf x | dd of=/run/cordon/seccomp/agent.bpf conv=notrunc status=none`, `seccomp\.agent`, `.`},
		{"bind in the root tree unmounted", "umount /run/cordon/roots/claude-code/usr/bin/rg", `root\.claude-code`, `/usr/bin/rg: not mounted`},
		{"a writable remount", "mount -o remount,bind,rw /run/cordon/roots/claude-code/usr/bin/git", `root\.claude-code`, `/usr/bin/git`},
		{"RLS switched off", `psql -qc 'ALTER TABLE shop.orders DISABLE ROW LEVEL SECURITY'`, `postgres\.table\.main\.shop\.orders`, `(?i)row|rls|secur`},
		{"policy dropped", `psql -qc 'DROP POLICY cordon_own ON shop.orders'`, `postgres\.table\.main\.shop\.orders`, `polic`},
		{"GRANT to PUBLIC by hand", `psql -qc 'GRANT SELECT ON shop.products TO PUBLIC'`, `postgres\.table\.main\.shop\.products`, `(?i)public`},
		{"role given SUPERUSER", `psql -qc 'ALTER ROLE shop_anon SUPERUSER'`, `postgres\.role\.main\.shop_anon`, `SUPERUSER`},
		{"role given BYPASSRLS", `psql -qc 'ALTER ROLE shop_user BYPASSRLS'`, `postgres\.role\.main\.shop_user`, `BYPASSRLS`},
		{"membership added", `psql -qc 'GRANT shop_admin TO alpha_anon'`, `postgres\.role\.main\.(alpha_anon|shop_admin)`, `member`},
		{"owner changed", `psql -qc 'ALTER TABLE shop.products OWNER TO shop_user'`, `postgres\.table\.main\.shop\.products`, `(?i)own`},
		{"git's configuration replaced", `git config -f /srv/projects/shop/.git/config remote.origin.url http://evil.example/`, `git\.shop`, `.`},
	}
}

// Each is seen, named in the event log, and repaired.
func TestDrift(t *testing.T) {
	onHost(t, func(t *testing.T) {
		h := newHost(t)
		l := h.events()
		end := h.daemon("--interval", "10m") // what nothing told of would not be seen
		h.converged()
		h.sh(`psql -qc 'CREATE TABLE shop.orders (id int, user_id text)' -c 'CREATE TABLE shop.products (id int)'`)
		session := h.session("shop", "claude-code")
		h.converged()
		group := h.sh(`find $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts) -path "*/$CORDON_CGROUP_PARENT/` + session + `/pids.max" | head -n 1 | xargs dirname`)
		fill := strings.NewReplacer("SESSION", session, "CGROUP", group)
		for _, d := range damages() {
			t.Run(d.name, func(t *testing.T) {
				addr, text := regexp.MustCompile("^"+fill.Replace(d.addr)+"$"), regexp.MustCompile(d.text)
				from, begun := l.mark(), time.Now()
				h.sh(fill.Replace(d.do))
				is := func(k loop.Kind) func(loop.Event) bool {
					return func(e loop.Event) bool { return e.Kind == k && addr.MatchString(string(e.Addr)) }
				}
				drift := l.await(from, "the drift of "+d.addr, is(loop.DriftSeen))
				if !text.MatchString(drift.Text) {
					t.Errorf("told %q, want %q", drift.Text, d.text)
				}
				made := l.await(from, "the repair of "+d.addr, is(loop.ChangeMade))
				t.Logf("%s: %s; repaired %s after it was begun", drift.Addr, drift.Text, made.Time.Sub(begun).Round(time.Millisecond))
				h.converged()
			})
		}
		end(syscall.SIGTERM)
		h.converged()
	})
}
