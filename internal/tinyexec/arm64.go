package tinyexec

import (
	"encoding/binary"
	"slices"
)

// arm64 is the code for AArch64; it does what [amd64] does. A call takes its
// number in x8 and its arguments in x0 to x5, and keeps all of them but x0,
// where the result is.
func arm64(a addresses, calls []call) []byte {
	mov := func(reg, n uint32) []uint32 { // mov reg, #low; movk reg, #high, lsl #16
		low, high := 0xd280_0000|n&0xffff<<5|reg, 0xf2a0_0000|n>>16<<5|reg
		if n>>16 == 0 {
			return []uint32{low}
		}
		return []uint32{low, high}
	}
	over := func(opcode uint32, n int) []uint32 { return []uint32{opcode | uint32(n+1)<<5} } // a branch over n instructions
	svc := []uint32{0xd400_0001}

	fail := slices.Concat(
		mov(0, 2), mov(1, a.failure), mov(2, a.failureLen), mov(8, 64), svc, // write
		mov(0, failed), mov(8, 94), svc, // exit_group
		[]uint32{0xd420_0000}, // brk #0
	)
	script := slices.Concat(
		mov(0, a.path), []uint32{0xf900_0be0}, // str x0, [sp, #16]: the path instead of ARGV0
		mov(0, a.shell), []uint32{0xf900_07e0}, // str x0, [sp, #8]
		[]uint32{0x9100_23e1}, svc, // add x1, sp, #8; execve
	)
	code := slices.Concat(
		[]uint32{0x9100_43e1},            // add x1, sp, #16: from ARGV0 on
		[]uint32{0xf940_03e9},            // ldr x9, [sp]
		[]uint32{0x8b09_0c22},            // add x2, x1, x9, lsl #3: the environment
		mov(0, a.path), mov(8, 221), svc, // execve
		[]uint32{0xb100_201f},          // cmn x0, #8: ENOEXEC
		over(0x5400_0001, len(script)), // b.ne fail
		script,
	)
	for _, c := range slices.Backward(calls) {
		var set []uint32
		for i, n := range c.args {
			set = append(set, mov(uint32(i), n)...)
		}
		code = slices.Concat(set, mov(8, c.number), svc, over(0xb500_0000, len(code)), code) // cbnz x0, fail
	}
	var out []byte
	for _, instruction := range append(code, fail...) {
		out = binary.LittleEndian.AppendUint32(out, instruction)
	}
	return out
}
