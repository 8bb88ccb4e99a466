// Package session runs sandboxes and keeps the record of those that run.
//
// # Leases
//
// A session is a directory below the run directory, named by its id, with
// what it was started with (lease.json) and a file (lock) that the process
// which runs it, `cordon run`, holds flock(2)ed. The lease lives exactly as
// long as that process, however it ends. [Enforcer.Survey] puts the live ones
// into the set; whatever an enforcer desires for a lease comes and goes by the
// same diff as everything else, and a dead session's directory is an orphan
// like any other; so is what is left of one that was never whole.
//
// # Starting
//
// [Runner.Run] writes the lease, plans and applies what the session needs
// (its tree, filter, cgroup, slot, membership) and meanwhile starts bubblewrap
// (package internal/bwrap) up to the point where only the system call filter
// is missing. That filter is the gate: it is handed over once every part has
// been verified, so nothing of the user's runs before, and nothing runs at all
// should cordon die.
//
// What a session finds: the profile's tree, read-only; /proc; a /dev of
// its own, read-only but for a bounded /dev/shm; bounded /tmp and
// /home/USER; the declared tmpfs and binds; /etc/passwd, group and hosts of its
// own. Its environment is what the environment block allows of the caller's
// and sets, and nothing else; HOME, USER and LOGNAME, where allowed, have the
// session's own values; bubblewrap adds PWD, the working directory.
//
// # Whom a session is
//
// The project's user, or the owner of its directory; its primary group and no
// other. Root and group 0 are refused unless user = "root" is declared.
// Outside any project it is "nobody".
//
// # Exit codes
//
// The command's own; 128+n when signal n ended it; 127 when it is not found
// and 126 when it can't be executed; 125 for all that cordon itself could not
// do.
//
// Mark: in the run directory's sessions, eight hexadecimal digits, or .new- and
// decimal ones for what is not whole yet. Needs root.
package session
