package tinyexec

import (
	"encoding/binary"
	"slices"
)

// amd64 is the code for x86-64. At its start the stack holds the number of
// arguments, the arguments' addresses, 0, and those of the environment. A
// call takes its number in rax and its arguments in rdi, rsi, rdx, r10, r8 and
// r9, which it keeps; the result is in rax.
func amd64(a addresses, calls []call) []byte {
	mov := func(opcode []byte, n uint32) []byte { return binary.LittleEndian.AppendUint32(opcode, n) }
	eax := func(n uint32) []byte { return mov([]byte{0xb8}, n) } // mov eax, n
	edx := func(n uint32) []byte { return mov([]byte{0xba}, n) }
	esi := func(n uint32) []byte { return mov([]byte{0xbe}, n) }
	edi := func(n uint32) []byte { return mov([]byte{0xbf}, n) }
	r10d := func(n uint32) []byte { return mov([]byte{0x41, 0xba}, n) }
	r8d := func(n uint32) []byte { return mov([]byte{0x41, 0xb8}, n) }
	r9d := func(n uint32) []byte { return mov([]byte{0x41, 0xb9}, n) }
	arguments := [maxArgs]func(uint32) []byte{edi, esi, edx, r10d, r8d, r9d}
	syscall := []byte{0x0f, 0x05}

	fail := slices.Concat(
		edi(2), esi(a.failure), edx(a.failureLen), eax(1), syscall, // write
		edi(failed), eax(231), syscall, // exit_group
		[]byte{0x0f, 0x0b}, // ud2
	)
	script := slices.Concat(
		[]byte{0x48, 0x89, 0x7c, 0x24, 0x10},               // mov [rsp+16], rdi: the path instead of ARGV0
		edi(a.shell), []byte{0x48, 0x89, 0x7c, 0x24, 0x08}, // mov [rsp+8], rdi
		[]byte{0x48, 0x8d, 0x74, 0x24, 0x08}, // lea rsi, [rsp+8]
		eax(59), syscall,                     // execve
	)
	code := slices.Concat(
		[]byte{0x48, 0x8d, 0x74, 0x24, 0x10}, // lea rsi, [rsp+16]: from ARGV0 on
		[]byte{0x48, 0x8b, 0x04, 0x24},       // mov rax, [rsp]
		[]byte{0x48, 0x8d, 0x54, 0xc4, 0x10}, // lea rdx, [rsp+rax*8+16]: the environment
		edi(a.path), eax(59), syscall,        // execve
		[]byte{0x83, 0xf8, 0xf8},        // cmp eax, -8: ENOEXEC
		[]byte{0x75, byte(len(script))}, // jne fail
		script,
	)
	for _, c := range slices.Backward(calls) {
		var set []byte
		for i, n := range c.args {
			set = append(set, arguments[i](n)...)
		}
		test := mov([]byte{0x85, 0xc0, 0x0f, 0x85}, uint32(len(code))) // test eax, eax; jnz fail
		code = slices.Concat(set, eax(c.number), syscall, test, code)
	}
	return append(code, fail...)
}
