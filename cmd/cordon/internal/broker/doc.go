// Package broker lets users who are not root start sessions, through the
// daemon's socket in the run directory.
//
// # Who may
//
// The socket is open to all; the kernel tells who connected (SO_PEERCRED), and
// a project's operators decide. An operator "group:NAME" is who both is in the
// group by the user database, now, and whose process had the group when it
// connected (SO_PEERGROUPS). The database alone would let a process that gave
// the group up have it back; the process alone would let a login that is older
// than the removal go on for ever. A process of a session is nobody's operator,
// whatever its user is.
//
// # What is said
//
// Every message is a frame: its length in four bytes, big-endian, and one JSON
// value, read strictly. A client sends one [request]; all kinds but "run" are
// answered with one [answer], and that is all.
//
// "run" is answered by a runner, a process that the daemon starts for the one
// session and hands the connection to: it takes the command, the environment
// and the standard files, of which the daemon sees nothing, does what `cordon
// run` does for root, and tells the exit code. It does not need the daemon any
// more: that one may end, or start anew, while the session goes on.
//
//	client            daemon              runner
//	request run   →   operator? fork  →
//	              ←   ready               ←
//	begin, 3 descriptors              →   checks them
//	                  go, in turn     ↔   ready
//	signal        →                       to the command
//	              ←   say, stopped        ←
//	              ←   exit                ←
//
// The runner writes nothing of its own to the client's descriptors: it is
// root, they may be anything. What it has to say goes over the connection. It
// takes none that is more than a stream; in place of files and sockets the
// client passes pipes, and copies.
package broker
