package network

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/coreos/go-iptables/iptables"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/reconciler/enforcertest"
	"github.com/aicodesit/cordon/specs"
)

// Backends of iptables, as their programs are called.
const (
	nft    = "nft"
	legacy = "legacy"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sh runs a command of the host and returns what it wrote.
func sh(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// use makes the iptables programs of PATH those of one backend.
func use(t testing.TB, backend string) {
	t.Helper()
	multi := "xtables-" + backend + "-multi"
	kerneltest.Program(t, multi, "ipset", "nft")
	path, err := exec.LookPath(multi)
	must(t, err)
	dir := t.TempDir()
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, name := range []string{family, family + "-save", family + "-restore"} {
			must(t, os.Symlink(path, filepath.Join(dir, name)))
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if v := sh(t, "iptables", "--version"); !strings.Contains(v, map[string]string{nft: "nf_tables", legacy: "legacy"}[backend]) {
		t.Fatalf("the programs are %s", v)
	}
}

func real() *Enforcer {
	return &Enforcer{kernel: linux{dir: rundir.Dir("/run/cordon")}, families: families(IPv6Absent()), links: linkNames, wake: wakeTable}
}

func forward(t testing.TB) string {
	t.Helper()
	v, err := readTrimmed(ipForward)
	must(t, err)
	return v
}

func TestOnKernel(t *testing.T) {
	kerneltest.Host(t)
	for _, backend := range []string{nft, legacy} {
		t.Run(backend, func(t *testing.T) {
			use(t, backend)
			before, legacyTables := forward(t), legacyNames(t)
			sh(t, "nft", "flush", "ruleset")
			enforcertest.Run(t, enforcertest.Harness{
				Name:    Name,
				New:     func(*testing.T) reconciler.Enforcer { return real() },
				Sets:    sets()[:2], // the suite makes thousands of changes, 10 ms each
				Foreign: foreign,
				Damage:  append(damage(), map[string][]enforcertest.Damage{nft: dormancy()}[backend]...),
				Steps:   20,
			})
			for _, set := range sets()[2:] {
				apply(t, real(), set)
				converged(t, real(), set)
			}
			apply(t, real(), specs.Set{})
			if after := forward(t); after != before {
				t.Errorf("forwarding was %s and is %s", before, after)
			}
			if names := legacyNames(t); backend == nft && names != legacyTables {
				t.Errorf("tables of the legacy kind were made: %s", names)
			}
			if rules := sh(t, "nft", "list", "ruleset"); backend == legacy && rules != "" {
				t.Errorf("tables of the nf_tables kind were made:\n%s", rules)
			}
			if left := sh(t, "iptables-save") + sh(t, "ip6tables-save") + sh(t, "ipset", "save"); strings.Contains(strings.ToLower(left), "cordon") {
				t.Errorf("left behind:\n%s", left)
			}
		})
	}
}

func legacyNames(t *testing.T) string {
	t.Helper()
	var names string
	for _, f := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		b, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		names += string(b)
	}
	return names
}

// foreign makes chains, rules and sets that look almost like cordon's, and
// some in front of where cordon's go. It looks at them by another library.
func foreign(t *testing.T) func(*testing.T) {
	script := `*filter
:MY-CORDON-INPUT - [0:0]
:CORDONED - [0:0]
-A INPUT -i c-llm.+ -j CORDONED
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A FORWARD -m comment --comment "cordon: not a mark" -j MY-CORDON-INPUT
-A MY-CORDON-INPUT -s 10.201.0.0/24 -j RETURN
-A CORDONED -m set --match-set cordon src -j DROP
COMMIT
*nat
:CORDONED - [0:0]
-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE
-A POSTROUTING -j CORDONED
COMMIT
`
	sh(t, "ipset", "create", "cordon", "hash:ip")
	sh(t, "ipset", "create", "mine-cordon-llm", "hash:net,iface")
	sh(t, "ipset", "add", "mine-cordon-llm", "10.201.0.2,c-llm.0")
	must(t, linux{}.restore(context.Background(), v4, script))
	t.Cleanup(func() {
		sh(t, "iptables", "-F")
		sh(t, "iptables", "-X")
		sh(t, "iptables", "-t", "nat", "-F")
		sh(t, "iptables", "-t", "nat", "-X")
		sh(t, "ipset", "destroy")
	})
	before := foreignRules(t)
	return func(t *testing.T) {
		if diff := cmp.Diff(before, foreignRules(t)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	}
}

// foreignRules are all rules and sets that are not cordon's.
func foreignRules(t *testing.T) []string {
	t.Helper()
	ipt, err := iptables.New(iptables.IPFamily(iptables.ProtocolIPv4), iptables.Timeout(5))
	must(t, err)
	var out []string
	for _, table := range []string{"filter", "nat"} {
		chains, err := ipt.ListChains(table)
		must(t, err)
		for _, c := range chains {
			if strings.HasPrefix(c, "CORDON-") {
				continue
			}
			rules, err := ipt.List(table, c)
			must(t, err)
			for _, r := range rules {
				if !ours(r) {
					out = append(out, table+" "+r)
				}
			}
		}
	}
	for _, line := range strings.Split(sh(t, "ipset", "save"), "\n") {
		if f := strings.Fields(line); len(f) > 2 && !strings.HasPrefix(f[1], "cordon-") {
			out = append(out, strings.Join(f[:3], " "))
		}
	}
	return out
}

// hand is a damage done by commands, one a line.
func hand(name, commands string) enforcertest.Damage {
	return enforcertest.Damage{Name: name, Do: func(t *testing.T) {
		for _, line := range strings.Split(commands, "\n") {
			sh(t, strings.Fields(line)...)
		}
	}}
}

// remade makes the set anew, with options and the members that it had.
func remade(options string) string {
	return "ipset create tmp hash:net,iface " + options + "\nipset add tmp 10.201.0.2,c-llm.0\nipset add tmp 10.201.0.50,c-llm.12\nipset swap tmp cordon-llm\nipset destroy tmp"
}

func damage() []enforcertest.Damage {
	return []enforcertest.Damage{
		hand("rule deleted", "iptables -D CORDON-IN-llm 1"),
		hand("refusal deleted", "iptables -D CORDON-IN-llm 2"),
		hand("rule added", "iptables -I CORDON-IN-llm -j ACCEPT"),
		hand("rule edited", "iptables -R CORDON-INPUT 1 -i c-llm.+ -j ACCEPT"),
		hand("rules in another order", "iptables -D CORDON-FORWARD 1\niptables -A CORDON-FORWARD -o c-llm.+ -j REJECT --reject-with icmp-net-unreachable"),
		hand("chain flushed", "iptables -F CORDON-FORWARD"),
		hand("chain of a network flushed", "iptables -F CORDON-FWD-term-1"),
		hand("chain added", "iptables -N CORDON-MORE\niptables -A CORDON-INPUT -j CORDON-MORE"),
		hand("chain unhooked", "iptables -D INPUT 1"),
		hand("unhooked and removed", "iptables -D INPUT 1\niptables -F CORDON-INPUT\niptables -X CORDON-INPUT"),
		hand("rule put in front", "iptables -I INPUT -i c-llm.0 -j ACCEPT"),
		hand("jump moved to the end", "iptables -A FORWARD -j ACCEPT\niptables -D FORWARD 1\niptables -A FORWARD -m comment --comment cordon:network.hook.ipv4.filter.FORWARD -j CORDON-FORWARD"),
		hand("jump doubled", "iptables -A INPUT -j CORDON-INPUT"),
		hand("jump made narrower", "iptables -R INPUT 1 -p udp -j CORDON-INPUT"),
		hand("jump into the wrong chain", "iptables -R INPUT 1 -j CORDON-FORWARD"),
		hand("everything flushed", "iptables -F\niptables -t nat -F\nip6tables -F"),
		hand("everything flushed and deleted", "iptables -F\niptables -X\niptables -t nat -F\niptables -t nat -X\nip6tables -F\nip6tables -X"),
		hand("nat unhooked", "iptables -t nat -D POSTROUTING 1"),
		hand("nat flushed", "iptables -t nat -F CORDON-NAT-term-1"),
		hand("IPv6 opened", "ip6tables -F CORDON-INPUT"),
		hand("IPv6 unhooked", "ip6tables -D FORWARD 1"),
		hand("set emptied", "ipset flush cordon-llm"),
		hand("all sets emptied", "ipset flush"),
		hand("member removed", "ipset del cordon-llm 10.201.0.2,c-llm.0"),
		hand("member added", "ipset add cordon-llm 10.201.0.6,c-llm.1"),
		hand("member's address changed", "ipset del cordon-llm 10.201.0.2,c-llm.0\nipset add cordon-llm 10.201.0.6,c-llm.0"),
		hand("second address for a member", "ipset add cordon-llm 10.201.0.1,c-llm.0"),
		hand("half the world a member", "ipset add cordon-llm 0.0.0.0/1,c-llm.0"),
		hand("another interface a member", "ipset add cordon-llm 192.0.2.1,eth0"),
		hand("set remade by hand, with members of other kinds", "iptables -F CORDON-IN-llm\nipset destroy cordon-llm\nipset create cordon-llm hash:net,iface\n"+
			"ipset add cordon-llm 10.201.0.2,c-llm.0 nomatch\nipset add cordon-llm 10.201.0.50,c-llm.12 wildcard"),
		hand("set destroyed", "iptables -F\niptables -F CORDON-IN-llm\nipset destroy cordon-llm"),
		hand("set remade with another type", "iptables -F CORDON-IN-llm\nipset destroy cordon-llm\nipset create cordon-llm hash:ip\nipset add cordon-llm 10.201.0.2"),
		hand("set remade and asked again", "iptables -F CORDON-IN-llm\nipset destroy cordon-llm\nipset create cordon-llm hash:net\n"+
			"iptables -A CORDON-IN-llm -p tcp -m set --match-set cordon-llm src -m addrtype --dst-type LOCAL --limit-iface-in -m tcp --dport 8181 -j ACCEPT\n"+
			"iptables -A CORDON-IN-llm -j REJECT --reject-with icmp-net-unreachable"),
		hand("internet set remade and asked again", "iptables -F CORDON-FWD-term-1\niptables -F CORDON-FORWARD\nipset destroy cordon-term-1\nipset create cordon-term-1 hash:net,port\n"+
			"iptables -A CORDON-FORWARD -o c-term-1.+ -m set --match-set cordon-term-1 dst,dst -j ACCEPT"),
		hand("set remade with a timeout", "iptables -F CORDON-IN-llm\nipset destroy cordon-llm\nipset create cordon-llm hash:net,iface timeout 600"),
		hand("set remade for no more members", remade("maxelem 2")),
		hand("set remade for more members", remade("maxelem 1000000")),
		hand("set remade so that members are thrown out", remade("forceadd")),
		hand("set remade with counters", remade("counters")),
		hand("set remade with comments", remade("comment")),
		hand("set remade with marks", remade("skbinfo")),
		hand("set remade for IPv6", "iptables -F CORDON-IN-llm\nipset destroy cordon-llm\nipset create cordon-llm hash:net,iface family inet6"),
		{Name: "forwarding off", Do: func(t *testing.T) { must(t, os.WriteFile(ipForward, []byte("0"), 0o644)) }},
		{Name: "a set of a network that is not", Do: func(t *testing.T) { sh(t, "ipset", "create", "cordon-gone", "hash:ip") }},
	}
}

// dormancy is what only tables of nf_tables can come to.
func dormancy() []enforcertest.Damage {
	return []enforcertest.Damage{
		hand("filter dormant", "nft add table ip filter { flags dormant; }"),
		hand("nat dormant", "nft add table ip nat { flags dormant; }"),
		hand("IPv6 dormant", "nft add table ip6 filter { flags dormant; }"),
		hand("dormant and unhooked", "iptables -D INPUT 1\nnft add table ip filter { flags dormant; }"),
	}
}

// A session's start, which asks for the hooks alone and may take the rules as
// last read, sees that they are dormant, and that they work again.
func TestDormantIsSeenAtOnce(t *testing.T) {
	kerneltest.Host(t)
	use(t, nft)
	e := real()
	_, err := e.kernel.(linux).dir.Make()
	must(t, err)
	apply(t, e, sets()[0])
	t.Cleanup(func() { apply(t, e, specs.Set{}); sh(t, "nft", "flush", "ruleset") })
	for _, c := range []struct{ nft, family, table, chain string }{
		{"ip filter", v4, "filter", "INPUT"},
		{"ip filter", v4, "filter", "FORWARD"},
		{"ip nat", v4, "nat", "POSTROUTING"},
		{"ip6 filter", v6, "filter", "INPUT"},
	} {
		h := newHook(c.family, c.table, c.chain)
		drift := func() []string {
			part, err := e.ReadPart(context.Background(), []reconciler.Addr{h.Addr()})
			must(t, err)
			if len(part) != 1 {
				t.Fatalf("read %v", part)
			}
			return part[0].(Hook).Drift
		}
		for range 2 { // the second time from what is kept
			if d := drift(); d != nil {
				t.Errorf("%s: %q", h.Addr(), d)
			}
		}
		sh(t, "nft", "add", "table", c.nft, "{ flags dormant; }")
		for range 2 {
			if d := drift(); len(d) != 1 || !strings.Contains(d[0], "dormant") {
				t.Errorf("%s: %q", h.Addr(), d)
			}
		}
		apply(t, e, sets()[0])
		if text := sh(t, "nft", "list", "ruleset"); strings.Contains(text, "dormant") {
			t.Errorf("still dormant:\n%s", text)
		}
	}
}

// A table of others, and one that is left, stays as it is.
func TestWakesNothingElse(t *testing.T) {
	kerneltest.Host(t)
	use(t, nft)
	e := real()
	t.Cleanup(func() { sh(t, "nft", "flush", "ruleset") })
	sh(t, "nft", "add", "table", "ip", "mine", "{ flags dormant; }")
	sh(t, "nft", "add", "table", "ip", "raw", "{ flags dormant; }")
	apply(t, e, sets()[0])
	converged(t, e, sets()[0])
	sh(t, "nft", "add", "table", "ip", "filter", "{ flags dormant; }")
	apply(t, e, specs.Set{})
	text := sh(t, "nft", "list", "ruleset")
	if strings.Count(text, "flags dormant") != 3 {
		t.Errorf("woken:\n%s", text)
	}
}

// Where the rules of a built-in chain can't be seen, or aren't asked because
// it hangs on no hook or another one, that is an error.
func TestBuiltinChainsThatAreNone(t *testing.T) {
	kerneltest.Host(t)
	use(t, nft)
	e := real()
	t.Cleanup(func() { sh(t, "nft", "flush", "ruleset") })
	for name, chain := range map[string]string{
		"no hook":          "INPUT",
		"another hook":     "INPUT { type filter hook output priority 0; }",
		"another priority": "INPUT { type filter hook input priority 5; }",
		"another type":     "FORWARD { type route hook output priority 0; }",
		"another name":     "OTHER { type filter hook input priority 0; }",
	} {
		sh(t, "nft", "flush", "ruleset")
		sh(t, "nft", "add", "table", "ip", "filter")
		sh(t, "nft", "add", "chain", "ip", "filter", chain)
		if got, err := e.Read(context.Background()); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}

// Forwarding comes back as it was: off if cordon switched it on, on if someone
// else had.
func TestForwardingComesBack(t *testing.T) {
	kerneltest.Host(t)
	was := forward(t)
	t.Cleanup(func() { must(t, os.WriteFile(ipForward, []byte(was), 0o644)) })
	k := real().kernel
	for _, before := range []string{"0", "1"} {
		must(t, os.WriteFile(ipForward, []byte(before), 0o644))
		for range 2 { // twice, as after a crash
			must(t, k.setForwarding(context.Background(), true))
		}
		if forward(t) != "1" {
			t.Error("not switched on")
		}
		for range 2 {
			must(t, k.setForwarding(context.Background(), false))
		}
		if got := forward(t); got != before {
			t.Errorf("forwarding was %s and is %s", before, got)
		}
		if v, held, err := k.forwarding(context.Background()); held || err != nil {
			t.Errorf("still held: %s %v", v, err)
		}
	}
}

// What was left by a process that was killed while it remembered forwarding is
// seen, and gone whether forwarding is wanted or not.
func TestForwardingHalfRemembered(t *testing.T) {
	kerneltest.Host(t)
	was := forward(t)
	t.Cleanup(func() { must(t, os.WriteFile(ipForward, []byte(was), 0o644)) })
	for _, wanted := range []bool{false, true} {
		k := linux{dir: rundir.Dir(t.TempDir())}
		must(t, os.WriteFile(ipForward, []byte("0"), 0o644))
		must(t, os.WriteFile(k.unfinished(), []byte("0"), 0o600))
		if value, held, err := k.forwarding(context.Background()); value != "" || !held || err != nil {
			t.Errorf("%q %v %v", value, held, err)
		}
		must(t, k.setForwarding(context.Background(), wanted))
		if _, held, err := k.forwarding(context.Background()); held != wanted || err != nil {
			t.Errorf("wanted %v: held %v, %v", wanted, held, err)
		}
		must(t, k.setForwarding(context.Background(), false))
		if left, err := os.ReadDir(string(k.dir)); len(left) > 0 || err != nil || forward(t) != "0" {
			t.Errorf("wanted %v: left %v, %v, forwarding %s", wanted, left, err, forward(t))
		}
	}
}

// A session's start takes the rules as last read only while the kernel says
// that nobody has changed one since, by whatever program.
func TestKnownRulesAreCurrent(t *testing.T) {
	kerneltest.Host(t)
	use(t, nft)
	e := real()
	_, err := e.kernel.(linux).dir.Make()
	must(t, err)
	apply(t, e, sets()[0])
	t.Cleanup(func() { apply(t, e, specs.Set{}) })
	hook := newHook(v4, "filter", "INPUT")
	file := e.kernel.(linux).dir.Rules(v4)
	there := func() bool {
		part, err := e.ReadPart(context.Background(), []reconciler.Addr{hook.Addr()})
		must(t, err)
		return cmp.Equal(part, []reconciler.Resource{hook})
	}
	// remember leaves a text with another hook: who reads it can be told from
	// who asks the kernel.
	remember := func() {
		_, err := e.Read(context.Background())
		must(t, err)
		b, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(b), "-j CORDON-INPUT", "-j CORDON-OTHER")), 0o600))
	}
	remember()
	if there() {
		t.Fatal("the rules are read again though nothing has changed")
	}
	for name, change := range map[string][]string{
		"a rule of others":           {"iptables", "-A", "INPUT", "-s", "192.0.2.1", "-j", "ACCEPT"},
		"by another program":         {"nft", "add", "table", "ip", "others"},
		"of the other family":        {"ip6tables", "-A", "OUTPUT", "-d", "2001:db8::1", "-j", "DROP"},
		"what ends as it was before": {"sh", "-c", "iptables -A OUTPUT -j ACCEPT; iptables -D OUTPUT -j ACCEPT"},
	} {
		t.Run(name, func(t *testing.T) {
			remember()
			sh(t, change...)
			if !there() {
				t.Error("what was known before the change is still believed")
			}
		})
	}
	t.Run("a file cut off", func(t *testing.T) {
		remember()
		b, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, b[:len(b)/2], 0o600))
		if !there() {
			t.Error("believed")
		}
	})
	t.Run("a plan asks the kernel", func(t *testing.T) {
		remember()
		converged(t, e, sets()[0])
	})
	sh(t, "nft", "flush", "ruleset")
}

// apply makes the host as set says, by this enforcer alone.
func apply(t testing.TB, e reconciler.Enforcer, set specs.Set) {
	t.Helper()
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(context.Background(), set)
	must(t, err)
	must(t, r.Apply(context.Background(), p, nil).Err())
}

func converged(t testing.TB, e reconciler.Enforcer, set specs.Set) {
	t.Helper()
	r := &reconciler.Reconciler{Enforcers: []reconciler.Named{{Name: Name, Enforcer: e}}}
	p, err := r.Plan(context.Background(), set)
	must(t, err)
	if len(p.Changes) > 0 || len(p.Failures) > 0 {
		t.Errorf("not converged: %s %v", enforcertest.Describe(p.Changes), p.Failures)
	}
}

// A large set comes from the kernel in several messages.
func TestManyMembers(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "ipset")
	use(t, nft)
	e := real()
	set := sets()[0]
	set.Networks[0].Pool = netip.MustParsePrefix("10.200.0.0/20")
	numbers := make([]int, 1000)
	for i := range numbers {
		numbers[i] = i
	}
	set.Leases = lease("llm", numbers...)
	t.Cleanup(func() { apply(t, e, specs.Set{}) })
	apply(t, e, set)
	converged(t, e, set)
	if n := strings.Count(sh(t, "ipset", "save"), "add cordon-llm"); n != 1000 {
		t.Errorf("%d elements", n)
	}
}

// What ipset refuses, it says in words.
func TestErrorsOfSets(t *testing.T) {
	kerneltest.Host(t)
	kerneltest.Program(t, "ipset")
	sh(t, "ipset", "create", "cordon-small", "hash:net,iface", "maxelem", "1")
	t.Cleanup(func() { sh(t, "ipset", "destroy", "cordon-small") })
	var err error
	for i := range 2 {
		m := Member{Network: "small", Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Interface: "c-small." + strconv.Itoa(i)}
		err = linux{}.changeSet(context.Background(), setChange{verb: "add", set: "cordon-small", element: m.element()})
	}
	if err == nil || !strings.Contains(err.Error(), "the set is full") {
		t.Errorf("a set of one with two: %v", err)
	}
	if text := setError(nl.IPSetError(nl.IPSET_ERR_TYPE_SPECIFIC + 99)).Error(); !strings.Contains(text, "4451") {
		t.Errorf("a number without text: %s", text)
	}
}

func TestExamine(t *testing.T) {
	kerneltest.Host(t)
	use(t, nft)
	for _, f := range real().Examine(context.Background()) {
		if f.Status == reconciler.Fail {
			t.Errorf("%+v", f)
		}
	}
	t.Setenv("PATH", t.TempDir())
	found := real().Examine(context.Background())
	if len(found) == 0 || found[0].Status != reconciler.Fail || found[0].Remedy == "" {
		t.Errorf("without iptables: %+v", found)
	}
}
