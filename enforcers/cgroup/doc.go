// Package cgroup bounds what a session may use, and ends all of it at once.
//
// Mechanism: one control group for each session, named by the session's id,
// below one parent group, in every hierarchy that has a say: the single tree
// of cgroup v2, the memory, cpu and pids hierarchies of v1, or (hybrid) both,
// where the v2 tree is there to kill. Memory is bounded together with swap.
// The session's first process is in its group before it runs anything: on v2
// it is cloned into it, on v1 the thread that forks it joins before and leaves
// after.
//
// Mark: the parent group is cordon's own; in it, names of eight lower-case
// hexadecimal digits. Other groups there are not seen. The parent goes with the
// last group in it.
//
// Privilege: root, or a parent that was delegated with its controllers.
//
// Sources: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/*.rst of the
// kernel.
package cgroup
