#!/usr/bin/env bash
# Runs a command on a throwaway host: test/throwaway.sh COMMAND…
#
# It is this machine with namespaces of its own. Links, firewall, mounts,
# processes and /etc, /run, /srv and /opt are private; a PostgreSQL cluster of
# its own runs on a socket; users and directories are those of
# examples/aicodesit. All is gone when the command ends, the cgroups below
# $CORDON_CGROUP_PARENT included. Needs root.
set -euo pipefail

cgroups() { find $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts) -depth -type d -path "*/$CORDON_CGROUP_PARENT*" 2>/dev/null || true; }

# The dying are counted until they are reaped: a cgroup may need a moment.
clean() {
	for _ in {1..100}; do
		[ -n "$(cgroups)" ] || return 0
		cgroups | xargs -r rmdir 2>/dev/null || true
		[ -z "$(cgroups)" ] || sleep 0.05
	done
	echo "throwaway host: cgroups are left: $(cgroups | tr '\n' ' ')" >&2
	return 1
}

if [ -z "${CORDON_THROWAWAY:-}" ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "$0: must be root, to make namespaces" >&2
		exit 1
	fi
	export CORDON_THROWAWAY=1 CORDON_CGROUP_PARENT="cordon-throwaway-$$-host"
	# In the background, for a trap waits for what is in the foreground; with the
	# input and the signals that a command in the foreground has.
	env --default-signal=INT,QUIT unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc "$0" "$@" <&0 &
	host=$!
	trap 'kill -KILL "$host" 2>/dev/null || true' TERM HUP
	trap : INT QUIT # the command's to deal with
	while :; do
		status=0
		wait "$host" || status=$?
		kill -0 "$host" 2>/dev/null || break
	done
	clean || status=1
	exit "$status"
fi

export PATH="$PATH:/usr/sbin:/sbin"
unset CORDON_RUN_DIR CORDON_SETTINGS
hostname throwaway
ip link set lo up

for dir in /run /srv /opt; do mount -t tmpfs -o mode=755 tmpfs "$dir"; done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
cp -a /etc /run/etc
mount --bind /run/etc /etc

id=47100
for user in shop dev-shop alpha beta; do
	id=$((id + 1))
	sed -i "/^$user:/d" /etc/passwd /etc/group
	echo "$user:x:$id:$id::/nonexistent:/usr/sbin/nologin" >>/etc/passwd
	echo "$user:x:$id:" >>/etc/group
done
for user in shop alpha beta; do
	install -d -o "$user" -g "$user" -m 750 "/srv/projects/$user"
	echo "# $user" | install -o "$user" -g "$user" /dev/stdin "/srv/projects/$user/README.md"
done

rm -rf /etc/cordon
install -d -m 700 /etc/cordon/secrets
for secret in anthropic gitea jwt; do echo "not-a-real-$secret-secret" | install -m 600 /dev/stdin "/etc/cordon/secrets/$secret"; done

# The agent itself is not part of this repository. What stands in for it says so.
install -D /dev/stdin /opt/claude/claude <<'STAND_IN'
#!/bin/bash
echo "This is a stand-in for the agent: it only shows that it was started, as uid $UID in $PWD."
STAND_IN

pgbin=$(dirname "$(find /usr/lib/postgresql -name initdb | sort -V | tail -n 1)")
install -d -o postgres -g postgres -m 711 /run/postgres
as_postgres() { (cd / && exec setpriv --reuid postgres --regid postgres --init-groups env -i LC_ALL=C.UTF-8 "$@"); }
as_postgres "$pgbin/initdb" -D /run/postgres/data --username=postgres --auth=trust --no-sync --encoding=UTF8 >/run/postgres.log 2>&1 ||
	{ cat /run/postgres.log >&2; exit 1; }
as_postgres "$pgbin/pg_ctl" -D /run/postgres/data -l /run/postgres/log -w start -s \
	-o "-c listen_addresses= -c unix_socket_directories=/run/postgres -c fsync=off -c max_connections=50" >>/run/postgres.log 2>&1 ||
	{ cat /run/postgres.log /run/postgres/log >&2; exit 1; }
export PGHOST=/run/postgres PGUSER=postgres PGDATABASE=app
psql -qX -d postgres -c 'CREATE DATABASE app'
export CORDON_POSTGRES_URL='postgres://postgres@/app?host=/run/postgres' CORDON_STATE_DIR=/run/state

"$@"
