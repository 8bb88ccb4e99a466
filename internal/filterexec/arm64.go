package filterexec

import (
	"encoding/binary"
	"slices"
)

// arm64 is the code for AArch64; it does what [amd64] does. A call takes its
// number in x8 and its arguments in x0, x1 and x2, and keeps all of them but
// x0, where the result is.
func arm64(a addresses, fd uint16) []byte {
	mov := func(reg uint32, n uint16) []uint32 { return []uint32{0xd280_0000 | uint32(n)<<5 | reg} }
	address := func(reg, n uint32) []uint32 { // mov reg, #low; movk reg, #high, lsl #16
		return append(mov(reg, uint16(n)), 0xf2a0_0000|n>>16<<5|reg)
	}
	over := func(opcode uint32, n int) []uint32 { return []uint32{opcode | uint32(n+1)<<5} } // a branch over n instructions
	svc := []uint32{0xd400_0001}

	fail := slices.Concat(
		mov(0, 2), address(1, a.failure), mov(2, uint16(len(failure))), mov(8, 64), svc, // write
		mov(0, failed), mov(8, 94), svc, // exit_group
		[]uint32{0xd420_0000}, // brk #0
	)
	script := slices.Concat(
		address(0, a.path), []uint32{0xf900_0be0}, // str x0, [sp, #16]: the path instead of ARGV0
		address(0, a.shell), []uint32{0xf900_07e0}, // str x0, [sp, #8]
		[]uint32{0x9100_23e1}, svc, // add x1, sp, #8; execve
	)
	run := slices.Concat(
		[]uint32{0x9100_43e1},                // add x1, sp, #16: from ARGV0 on
		[]uint32{0xf940_03e9},                // ldr x9, [sp]
		[]uint32{0x8b09_0c22},                // add x2, x1, x9, lsl #3: the environment
		address(0, a.path), mov(8, 221), svc, // execve
		[]uint32{0xb100_201f},          // cmn x0, #8: ENOEXEC
		over(0x5400_0001, len(script)), // b.ne fail
	)
	code := slices.Concat(
		mov(0, fd), mov(8, 57), svc, // close
		mov(0, 1), mov(1, 2), address(2, a.fprog), mov(8, 277), svc, // seccomp: SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_LOG
		over(0xb500_0000, len(run)+len(script)), // cbnz x0, fail
		run, script, fail,
	)
	var out []byte
	for _, instruction := range code {
		out = binary.LittleEndian.AppendUint32(out, instruction)
	}
	return out
}
