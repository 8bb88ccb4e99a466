package main

// damage is something that somebody does to a host by hand.
type damage struct {
	name, script string
	sessions     bool // it is done to something of a running session
}

// damages are of every kind that a daemon is told of. SESSION stands for a
// session's id, CGROUP for its group in the hierarchy that bounds processes.
func damages() []damage {
	return []damage{
		{name: "a rule deleted", script: "iptables -D CORDON-INPUT 1"},
		{name: "a rule replaced", script: "iptables -R CORDON-IN-llm-only 1 -j ACCEPT"},
		{name: "a chain flushed", script: "ip6tables -F CORDON-FORWARD"},
		{name: "a hook gone", script: "iptables -D FORWARD 1"},
		{name: "a rule before the hook", script: "iptables -I INPUT -s 192.0.2.1 -j ACCEPT"},
		{name: "a member removed", sessions: true, script: `ipset del cordon-llm-only "$(ipset save cordon-llm-only | awk '/^add/ {print $3; exit}')"`},
		{name: "a set emptied", sessions: true, script: "ipset flush cordon-llm-only"},
		{name: "a stranger in a set", script: "ipset add cordon-llm-only 192.0.2.1,eth9"},
		{name: "a pair deleted", script: "ip link del c-llm-only.0"},
		{name: "an address changed", script: "ip addr flush dev c-llm-only.1; ip addr add 192.0.2.1/30 dev c-llm-only.1"},
		{name: "a default route in a slot", script: "nsenter --net=/run/cordon/netns/llm-only.0 ip route add default via 10.202.0.1"},
		{name: "a setting of an interface", script: "sysctl -qw net/ipv4/conf/c-llm-only.1/rp_filter=0"},
		{name: "a limit raised", sessions: true, script: "echo 5000 >CGROUP/pids.max"},
		{name: "a filter altered", script: "printf x | dd of=/run/cordon/seccomp/agent.bpf conv=notrunc status=none"},
		{name: "a bind unmounted", script: "umount /run/cordon/roots/claude-code/usr/bin/env"},
		{name: "a bind made writable", script: "mount -o remount,bind,rw /run/cordon/roots/claude-code/usr/bin/env"},
		{name: "GRANT to PUBLIC", script: "psql -qXc 'GRANT SELECT ON alpha.t1 TO PUBLIC'"},
		{name: "a policy dropped", script: "psql -qXc 'DROP POLICY cordon_own ON alpha.t2'"},
		{name: "row level security off", script: "psql -qXc 'ALTER TABLE alpha.t3 DISABLE ROW LEVEL SECURITY'"},
		{name: "an owner changed", script: "psql -qXc 'ALTER TABLE alpha.t4 OWNER TO alpha_user'"},
		{name: "a role with BYPASSRLS", script: "psql -qXc 'ALTER ROLE alpha_user BYPASSRLS'"},
	}
}

// tenantHCL goes with sandboxHCL.
const tenantHCL = `
secret "postgres" { env = "CORDON_POSTGRES_URL" }

database "main" { connection = secret.postgres }

project "alpha" {
  directory = "/srv/projects/alpha"
  user      = "alpha"

  schema {
    database     = database.main
    owner_column = "user_id"

    table "t1" { anonymous = ["select"] }
    table "t2" { authenticated = ["select", "insert"] }
    table "t3" { authenticated = ["select"] }
    table "t4" { anonymous = ["select"] }
  }
}
`
