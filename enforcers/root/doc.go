// Package root keeps, for each sandbox, one prebuilt tree of what its
// sessions find below /: a small tmpfs that holds exactly the declared
// programs (each with its interpreter and libraries), files and directories,
// every one a read-only bind of the host's. A session start is then one
// recursive bind of the tree instead of a hundred binds.
//
// # Mechanism
//
// The tree of a sandbox is mounted at [rundir.Dir.Root]. Symbolic links on the
// way to a file (/bin, /lib64, /usr/bin/npm) are symbolic links in the tree
// too, and the bind is on the real path. All mounts are ro, nosuid and nodev,
// so a recursive remount with these flags finds nothing to change.
//
// A tree is built at a hidden path beside its place and moved there when it is
// whole. Sources are opened without following symbolic links, compared with
// what was resolved, cloned detached (open_tree), made read-only while still
// detached (mount_setattr) and attached (move_mount) to a target that is found
// beneath the tree without following symbolic links: no path of the host is
// written to, however the host or the tree is changed meanwhile, and there is
// no moment in which a bind is writable. See open_tree(2), mount_setattr(2),
// openat2(2). Linux 5.12 has them all; [Enforcer.Examine] says so when the
// host does not. Sessions that run keep the copy they started with.
//
// The directory of the trees is a private mount of its own, because a mount
// below a shared one (/run under systemd) can't be moved.
//
// # What a session can rely on
//
// Directories: [Directories]. Files, placeholders to bind one's own onto:
// [Placeholders]; /etc/nsswitch.conf says "files dns" and /etc/resolv.conf is
// empty. A mount point for every declared tmpfs and bind: a file where the
// bind's source is literal and a file on the host, else a directory. /sys is
// not there.
//
// # What programs mean
//
// An ELF file brings its PT_INTERP and, transitively, its DT_NEEDED as the
// loader would find them: RPATH, RUNPATH (with $ORIGIN), /etc/ld.so.cache, the
// default directories; never LD_LIBRARY_PATH. Variants for particular
// processors (glibc-hwcaps) come along if the cache knows them. The cache
// itself is bound only if a library was found by it alone. A script brings
// its interpreter; with env also what env would start, from the usual PATH. A
// program that is a symbolic link is one inside; of a package directory only
// the file itself is there: the owner adds the directory (npm:
// /usr/lib/node_modules/npm) to files. What a program loads by dlopen (nss
// modules before glibc 2.34, libgcc_s for thread cancellation) is not found
// this way and belongs in files as well.
//
// # What counts as drift
//
// A source that was replaced (another device:inode), added or lost by what is
// declared; a mount that is missing, writable, over another, not ours, not
// private, or of other options than it was made with; a name of the tree's own
// tmpfs that came, went or changed in any way (ctime tells), for what is
// planted there, as /etc/ld.so.preload, every session would have. The content of the same inode changing in place is not drift: the tree shows it
// as it is. A source that others than root may write to is bound all the same,
// with a warning in the log: what the owner declared is the owner's, and
// set-user-ID bits have no effect inside.
//
// # Mark and privilege
//
// A tree, its manifest (NAME.json) and half-built trees (.NAME) are cordon's
// by being in the directory of trees. Mounting needs CAP_SYS_ADMIN; all calls
// act on the caller's mount namespace. Reading needs no privilege.
//
// There is no fake: the tests mount for real, in a namespace of their own, and
// a fake of the mount table would only repeat what is believed about it.
package root
