// Package vm boots a fresh Linux host under software emulation and runs a
// script in it as root: what a test machine itself can't be, such as a host
// with another kernel, with cgroup v2 alone, or with nothing on it yet.
//
// A host is Debian's cloud kernel, busybox and the files that a test gives. It
// has no disk and no network, its root file system is memory, and it is gone
// when the script ends. Neither KVM nor root is needed. `make deps` puts the
// kernel where [Run] looks for it.
package vm
