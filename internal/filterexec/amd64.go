package filterexec

import (
	"encoding/binary"
	"slices"
)

// amd64 is the code for x86-64. At its start the stack holds the number of
// arguments, the arguments' addresses, 0, and those of the environment. A
// call takes its number in rax and its arguments in rdi, rsi and rdx, which
// it keeps; the result is in rax.
func amd64(a addresses, fd uint16) []byte {
	imm := func(opcode byte, n uint32) []byte { return binary.LittleEndian.AppendUint32([]byte{opcode}, n) }
	eax := func(n uint32) []byte { return imm(0xb8, n) } // mov eax, n
	edx := func(n uint32) []byte { return imm(0xba, n) }
	esi := func(n uint32) []byte { return imm(0xbe, n) }
	edi := func(n uint32) []byte { return imm(0xbf, n) }
	syscall := []byte{0x0f, 0x05}

	fail := slices.Concat(
		edi(2), esi(a.failure), edx(uint32(len(failure))), eax(1), syscall, // write
		edi(failed), eax(231), syscall, // exit_group
		[]byte{0x0f, 0x0b}, // ud2
	)
	script := slices.Concat(
		[]byte{0x48, 0x89, 0x7c, 0x24, 0x10},               // mov [rsp+16], rdi: the path instead of ARGV0
		edi(a.shell), []byte{0x48, 0x89, 0x7c, 0x24, 0x08}, // mov [rsp+8], rdi
		[]byte{0x48, 0x8d, 0x74, 0x24, 0x08}, // lea rsi, [rsp+8]
		eax(59), syscall,                     // execve
	)
	run := slices.Concat(
		[]byte{0x48, 0x8d, 0x74, 0x24, 0x10}, // lea rsi, [rsp+16]: from ARGV0 on
		[]byte{0x48, 0x8b, 0x04, 0x24},       // mov rax, [rsp]
		[]byte{0x48, 0x8d, 0x54, 0xc4, 0x10}, // lea rdx, [rsp+rax*8+16]: the environment
		edi(a.path), eax(59), syscall,        // execve
		[]byte{0x83, 0xf8, 0xf8},        // cmp eax, -8: ENOEXEC
		[]byte{0x75, byte(len(script))}, // jne fail
	)
	return slices.Concat(
		edi(uint32(fd)), eax(3), syscall, // close
		edi(1), esi(2), edx(a.fprog), eax(317), syscall, // seccomp: SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG
		[]byte{0x85, 0xc0, 0x75, byte(len(run) + len(script))}, // test eax, eax; jnz fail
		run, script, fail,
	)
}
