// Package git keeps each project's repository with the declared remote and
// with nothing that leaks a credential or runs code, and runs git on the host
// against it.
//
// Mechanism. The live state of a project is what its .git/config says, read by
// a parser of its own: no git runs on it, nothing it includes is read. What
// may stand there is a list (see allowed); all else is drift: credentials in
// URLs, extra headers, credential helpers, insteadOf, hooks, filters, aliases.
// Drift is shown by the names of the settings, never with their values.
// Repairing writes the file anew, through git's own lock on it.
//
// [Runner] gives a credential to one git command for one remote. See there.
//
// Mark. The setting cordon.project in .git/config; it also ends drift from
// being hidden by its removal: what is amiss shows with or without it.
//
// Privilege. To read and replace the file; with a project's user other than
// cordon's own, CAP_CHOWN, CAP_SETUID and CAP_SETGID.
package git
