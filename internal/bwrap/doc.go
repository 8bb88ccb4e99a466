// Package bwrap starts bubblewrap and lets the command run only after it has
// been seen that the sandbox is what was asked for.
//
// The system call filter is the gate: bubblewrap reads it from a pipe as the
// last thing before it starts the command. Until [Process.Release] writes it,
// the sandbox is complete and empty, and can be inspected from outside. Should
// the starter die first, bubblewrap reads an empty filter, which the kernel
// refuses, and the command never runs.
//
// bubblewrap runs as the session's user in a user namespace. Where the host
// has none for it, it runs with that real user id and effective id 0, which it
// takes for being set-user-ID: it sets up as root and drops to the real id for
// good. Either way [Process.Verify] looks at what the kernel says of the
// process.
//
// It is started in a mount namespace whose root holds what it needs and nothing
// else (its own program and libraries, /proc, the tree with its /dev and the
// pinned sources), and as number 1 of a pid namespace around the session's: when it
// dies, with its starter or by itself, the kernel ends all the rest. As number 1
// it also does not heed the signals that a terminal's keys send.
//
// bubblewrap's filter leaves no trace of what it refuses. Where that is wanted
// ([Spec.Logged]), what bubblewrap starts is a program made by package
// tinyexec, which loads the filter once more with SECCOMP_FILTER_FLAG_LOG and
// becomes the command: of filters that give the same answer the kernel takes
// the one loaded last as the one that answered, and logs if that one logs.
//
// Options go by a memory file (--args), never by argv, which the host's
// process list shows; the environment is given as it is to be, for
// /proc/1/environ inside shows what bubblewrap itself was started with.
//
// Sources: bwrap(1), namespaces(7), user_namespaces(7), seccomp(2), prctl(2), and bubblewrap 0.8 to
// 0.11 as observed.
package bwrap
