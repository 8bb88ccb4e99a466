// Package filterexec makes a program that loads a system call filter whose
// refusals the kernel logs, and then becomes another program.
//
// That a filter logs is a flag of the load, SECCOMP_FILTER_FLAG_LOG of
// seccomp(2), and bubblewrap loads without it. So the sandbox's first program
// is one of these: it loads the filter once more, with the flag. Of filters
// that give the same answer the kernel takes the one loaded last as the one
// that answered, and logs if that one logs.
//
// The program is an ELF file that needs nothing: no libc, no interpreter, no
// memory but its own pages. Started with the arguments ARGV0 ARG… it
//
//   - closes the descriptor that it was itself started from,
//   - loads the filter,
//   - executes the file it was made for with exactly ARGV0 ARG… and the
//     environment that it got, as a shell script should the kernel not know
//     the format, as execvp(3) does,
//   - says so on standard error and exits with 125 if either fails: nothing
//     runs without the filter.
//
// no_new_privs must be set. The filter that is there already must allow
// execve and seccomp.
//
// Sources: seccomp(2), execve(2), elf(5), syscall(2); the x86-64 psABI and
// the Arm Architecture Reference Manual for the instructions.
package filterexec
