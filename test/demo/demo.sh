#!/usr/bin/env bash
# Shows what cordon does, and checks each claim: from files to a running
# session, a database that keeps people apart, drift that is repaired, and
# nothing left. On a throwaway host; this machine is not touched.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" != 0 ]; then
	echo "make demo: must be root, to make a throwaway host of namespaces" >&2
	exit 1
fi
top=$(cd "$here/../.." && pwd)
export PATH=$top/bin:$PATH CORDON_DIR=$top/examples/aicodesit
unset CORDON_THROWAWAY
exec "$here/../throwaway.sh" "$here/tour.sh"
