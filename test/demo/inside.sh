# Runs inside a session, with bash alone, and reports what it finds: a line
# for each claim, "ok" or "no", a tab, the claim.

claim() {
	local text=$1
	shift
	if "$@" >/dev/null 2>&1; then printf 'ok\t%s\n' "$text"; else printf 'no\t%s\n' "$text"; fi
}
none() { ! "$@"; }
status_is() {
	local key value
	while IFS=$':\t ' read -r key value _; do [ "$key" = "$1" ] && [ "$value" = "$2" ] && return; done </proc/self/status
	return 1
}
absent() {
	local path
	for path; do [ ! -e "$path" ] && [ ! -L "$path" ] || return 1; done
}
touch_work() { echo "made inside" >/work/made-inside; }
has_variable() { [ -n "${!1+set}" ]; }
first_environ_is_clean() {
	local entry
	while IFS= read -r -d '' entry; do
		case $entry in *do-not-show* | CORDON_* | PG*) return 1 ;; esac
	done </proc/1/environ
}
processes_are_few() {
	local all=(/proc/[0-9]*)
	[ "${#all[@]}" -le 4 ]
}
# unreachable ADDRESS MICROSECONDS: connecting fails, and no later than that.
unreachable() {
	local before=${EPOCHREALTIME/./} message
	message=$( (exec 3<>"/dev/tcp/$1/80") 2>&1) && return 1
	[ $((${EPOCHREALTIME/./} - before)) -lt "$2" ] && [[ $message == *nreachable* || $message == *refused* || $message == *"No route"* ]]
}
read_only() { ! (: >"$1/probe"); }

claim "it runs as the project's user (uid $UID), not as root" [ "$UID" != 0 ]
claim "without any capability" status_is CapEff 0000000000000000
claim "and none can come back: the bounding set is empty" status_is CapBnd 0000000000000000
claim "nor by a set-uid program" status_is NoNewPrivs 1
claim "system calls are filtered" status_is Seccomp 2
claim "the host's files aren't there" absent /etc/shadow /root /var/lib /usr/bin/curl /usr/bin/python3 /run/cordon
claim "what is there can't be changed" read_only /usr/bin
claim "nor can /" read_only /
claim "the project's directory is /work, and writable" touch_work
claim "the caller's secrets are not in the environment" none has_variable AWS_SECRET_ACCESS_KEY
claim "nor cordon's own" none has_variable CORDON_POSTGRES_URL
claim "what the profile lets through is" has_variable LC_TIME
claim "nor are they in the first process's environment" first_environ_is_clean
claim "an open directory of the host was not handed on" absent /proc/self/fd/9
claim "the host's processes are invisible" processes_are_few
claim "no address outside can be reached, and that is known at once" unreachable 192.0.2.1 500000
claim "nor can the host itself" unreachable 10.202.0.1 5000000
