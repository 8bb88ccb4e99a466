#!/usr/bin/env bash
# The tour itself; demo.sh makes the host that it runs on.
set -euo pipefail
proofs=$(cd "$(dirname "$0")" && pwd)
work=/run/tour
mkdir -p $work
cd $work
project=shop
run=(cordon run --project "$project" claude-code --)

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1;36m' dim=$'\e[2m' good=$'\e[32m' bad=$'\e[1;31m' plain=$'\e[0m'
else
	bold='' dim='' good='' bad='' plain=''
fi
proven=0

heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
say() { printf '%s\n' "$*"; }
proof() { proven=$((proven + 1)); printf '  %s✓%s %s\n' "$good" "$plain" "$*"; }
fail() { printf '  %s✗ %s%s\n' "$bad" "$*" "$plain"; [ ! -s said ] || sed 's/^/    | /' said; exit 1; }
trap 'printf "%sThe demo stopped in line %s.%s\n" "$bad" "$LINENO" "$plain"' ERR

# command_line PROGRAM…: print it as one would type it.
command_line() {
	local word line=''
	for word; do
		case $word in *' '*) word="'$word'" ;; esac
		line+=" $word"
	done
	printf '%s$%s%s\n' "$dim" "$line" "$plain"
}

# show PROGRAM…: print the command and what it says; its exit code must be 0,
# or $want.
show() {
	local status=0
	command_line "$@"
	"$@" >out 2>&1 || status=$?
	sed 's/^/  /' out
	: >said
	[ "$status" = "${want:-0}" ] || fail "exit code $status, expected ${want:-0}"
}

# outline PROGRAM…: like show, of a plan or an apply: the addresses without
# their attributes, and the last line.
outline() {
	local status=0 lines
	command_line "$@"
	"$@" >out 2>said || status=$?
	[ "$status" = "${want:-0}" ] || { tail -n 40 out; fail "exit code $status, expected ${want:-0}"; }
	grep -E '^[-+~] ' out >lines || true
	lines=$(wc -l <lines)
	if [ "$lines" -gt 16 ]; then
		awk '{print $2}' lines | cut -d. -f1 | sort | uniq -c | while read -r n kind; do
			sed -n "s/^\([-+~] $kind\.\)/  \1/p" lines | head -n 3
			[ "$n" -le 3 ] || printf '  %s… and %d more of %s%s\n' "$dim" $((n - 3)) "$kind" "$plain"
		done
	else
		sed 's/^/  /' lines
	fi
	tail -n 1 out | sed 's/^/  /'
}

# expect CLAIM COMMAND…: the claim holds if the command succeeds.
expect() {
	local claim=$1
	shift
	if "$@" >said 2>&1; then proof "$claim"; else fail "$claim"; fi
}
denied() { ! "$@"; }
is() { [ "$1" = "$2" ] || { echo "got: $1"; return 1; }; }
converged() { cordon plan --detailed-exitcode >plan.txt 2>&1 || { cat plan.txt; return 1; }; }

heading "What can this host enforce?"
show cordon doctor

heading "The files: what may exist"
say "A sandbox, as $CORDON_DIR declares it:"
sed -n '/^sandbox "claude-code"/,/^}/p' "$CORDON_DIR"/*.hcl | sed 's/^/  /'
show cordon validate

heading "The plan: what is missing on this host"
want=2 outline cordon plan --detailed-exitcode
say "In full, the plan shows every attribute. One firewall chain, for example:"
sed -n '/^+ network.chain.ipv4.filter.CORDON-IN/,/^$/p' out | head -n 14 | sed 's/^/  /'


heading "Apply, and nothing is left to do"
outline cordon apply --auto-approve
expect "a second plan is empty" converged

heading "A session: what the agent finds inside"
exec 9</ # a door that a careless parent left open
say "Started by root, with secrets in the environment and a directory of the host open:"
AWS_SECRET_ACCESS_KEY=do-not-show LC_TIME=C.UTF-8 show "${run[@]}" /opt/claude/claude
AWS_SECRET_ACCESS_KEY=do-not-show LC_TIME=C.UTF-8 "${run[@]}" bash -s <"$proofs/inside.sh" >out 2>said ||
	fail "the session's own report ended with $?"
exec 9<&-
while IFS=$'\t' read -r verdict claim; do
	case $verdict in
		ok) proof "$claim" ;;
		no) fail "$claim" ;;
		*) fail "unexpected: $verdict $claim" ;;
	esac
done <out
[ "$(grep -c '^ok' out)" -ge 12 ] || fail "the session's report is too short"
expect "what it wrote to /work belongs to the project's user" is "$(stat -c %U /srv/projects/shop/made-inside)" shop

heading "Limits hold"
status=0
"${run[@]}" bash -c 'x=x; while :; do x=$x$x; done' >out 2>&1 || status=$?
expect "taking all memory ends the session's process (exit code $status), not the host's" is "$status" 137
mkfifo typing
exec 8<>typing # somebody who could type, and doesn't
"${run[@]}" bash -c 'exec 3<&0; for i in {1..100}; do read -r line <&3 & done' <typing 2>&1 | grep -m 1 'fork: retry' >refused || true
expect "the hundredth process is refused" grep -q 'Resource temporarily unavailable' refused

heading "A running session: seen, and stopped"
"${run[@]}" bash -c 'echo "hello from inside"; read -r line' <typing >session.txt 2>&1 &
session=$!
for _ in {1..200}; do [ -s session.txt ] && break; sleep 0.05; done
show cordon ps
expect "the session is listed" grep -q claude-code out
id=$(grep -oE '\b[0-9a-f]{8}\b' out | head -n 1)
show cordon stop "$id"
wait "$session" && ended=0 || ended=$?
expect "it ended (exit code $ended)" is $((ended > 128)) 1
expect "nothing of it is left: the plan is empty" converged
"${run[@]}" bash -c 'echo "hello from inside"; read -r line' <typing >session2.txt 2>&1 &
session=$!
for _ in {1..200}; do [ -s session2.txt ] && break; sleep 0.05; done
{ kill -KILL "$session" && wait "$session"; } 2>/dev/null || true
say "Another session was started, and its 'cordon run' killed with SIGKILL."
outline cordon apply --auto-approve
expect "nothing of it is left either: the plan is empty" converged
expect "no process of its user is left" denied pgrep -U shop

heading "The database: tables come, and are closed before anyone asks"
say "The application's own migration, not cordon, makes its tables:"
sed 's/^/  /' "$proofs/tables.sql" | head -n 12
psql -qX -v ON_ERROR_STOP=1 -f "$proofs/tables.sql"
want=2 show cordon plan --detailed-exitcode
outline cordon apply --auto-approve
expect "the plan is empty" converged

# as ROLE SUB SQL: what a request of the API would do.
as() {
	local claims=''
	[ -z "$2" ] || claims="{\"sub\": \"$2\"}"
	psql -qXAt -v ON_ERROR_STOP=1 2>&1 <<-SQL
		SET ROLE $1;
		SET request.jwt.claims = '$claims';
		SET search_path = shop;
		$3;
	SQL
}
expect "anyone may look at the products" is "$(as shop_anon '' 'select count(*) from products')" 2
expect "the anonymous can't read orders" grep -q 'permission denied' <(as shop_anon '' 'select * from orders')
expect "alice sees her own orders only" is "$(as shop_user alice 'select distinct user_id from orders')" alice
expect "bob sees his" is "$(as shop_user bob 'select distinct user_id from orders')" bob
expect "a login without a name sees none" is "$(as shop_user '' 'select count(*) from orders')" 0
expect "alice can order for herself" is "$(as shop_user alice "insert into orders values (10, 'alice', 1) returning user_id")" alice
expect "but not in bob's name" grep -q 'row-level security' <(as shop_user alice "insert into orders values (11, 'bob', 1)")
expect "nor change an order: that was not declared" grep -q 'permission denied' <(as shop_user alice "update orders set user_id = 'bob'")
expect "nobody but the admin reads the audit log" grep -q 'permission denied' <(as shop_user alice 'select * from audit_log')
expect "the admin sees all orders" is "$(as shop_admin root 'select count(distinct user_id) from orders')" 2

heading "Drift: somebody changes the host behind cordon's back"
say "A firewall reload, a careless GRANT, a mount undone, a password in a repository's configuration:"
mount_point=$(awk '$5 ~ "^/run/cordon/roots/claude-code/.*/rg$" {print $5; exit}' /proc/self/mountinfo)
[ -n "$mount_point" ] || fail "no bind of rg below /run/cordon/roots/claude-code"
show iptables -F
show psql -qX -c 'GRANT SELECT ON shop.orders TO PUBLIC'
show umount "$mount_point"
git_config=/srv/projects/shop/.git/config
show git config --file "$git_config" remote.origin.url https://shop:do-not-show@gitea.internal/acme/shop.git
show git config --file "$git_config" core.fsmonitor /work/run-me-on-the-host
want=2 outline cordon plan --detailed-exitcode
cp out drift.txt
say "In full, four of them:"
for one in network.chain.ipv4.filter.CORDON-INPUT postgres.table.main.shop.orders root.claude-code git.shop; do
	sed -n "/^~ $one\$/,/^\$/p" drift.txt | sed 's/^/  /'
done
expect "the plan names the firewall" grep -q 'network\.' drift.txt
expect "the plan names the table" grep -q 'postgres\.table\.[a-z.]*orders' drift.txt
expect "the plan names the sandbox's files" grep -q 'root\.claude-code' drift.txt
expect "the plan names the repository" grep -q '^~ git\.shop' drift.txt
expect "and does not show the password that stands in it" denied grep -q do-not-show drift.txt
outline cordon apply --auto-approve
expect "the plan is empty again" converged
expect "the password is gone, and what would have run on the host" denied grep -qE 'do-not-show|run-me' "$git_config"
expect "the GRANT is gone" grep -q 'permission denied' <(as shop_anon '' 'select * from orders')
expect "and a new session starts" "${run[@]}" rg --version

heading "Destroy: nothing is left"
iptables -N SOMEONE-ELSE
outline cordon destroy --auto-approve
expect "no chain" denied grep -q CORDON- <(iptables-save; ip6tables-save)
expect "no set" is "$(ipset list -n)" ""
expect "no link but lo" is "$(ip -o link | wc -l)" 1
expect "no mount" denied grep -q '/run/cordon/' /proc/self/mountinfo
expect "no cgroup of a session" is "$(find /sys/fs/cgroup -path "*/$CORDON_CGROUP_PARENT/*" -type d)" ""
expect "no role" is "$(psql -qXAt -c "select string_agg(rolname, ' ') from pg_roles where rolname ~ '^(shop|alpha|beta)_'")" ""
expect "the application's rows are still there" is "$(psql -qXAt -c 'select count(*) from shop.orders')" 5
expect "another's firewall chain is still there" iptables -S SOMEONE-ELSE

printf '\n%sAll %d claims hold.%s\n' "$good" "$proven" "$plain"
