// Package tinyexec makes a program that makes a few system calls and then
// becomes another program: what a process has to do itself, between its start
// and the command, where no Go can run.
//
// The program is an ELF file that needs nothing: no libc, no interpreter, no
// memory but its own pages. Started with the arguments ARGV0 ARG… it
//
//   - makes the calls that it was made for, each of which must return 0,
//   - executes the file it was made for with exactly ARGV0 ARG… and the
//     environment that it got, as a shell script should the kernel not know
//     the format, as execvp(3) does,
//   - says so on standard error and exits with 125 if any of it fails: the
//     file is not executed without the calls.
//
// Sources: execve(2), elf(5), syscall(2), seccomp(2) for [Filter]; the x86-64
// psABI and the Arm Architecture Reference Manual for the instructions.
package tinyexec
