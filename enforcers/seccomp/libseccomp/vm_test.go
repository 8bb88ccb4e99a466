package libseccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// call is struct seccomp_data of linux/seccomp.h.
type call struct {
	nr, arch uint32
	args     [6]uint64
}

func (c call) word(offset uint32) (uint32, error) {
	b := make([]byte, 64)
	binary.LittleEndian.PutUint32(b[offNumber:], c.nr)
	binary.LittleEndian.PutUint32(b[offArch:], c.arch)
	for i, a := range c.args {
		binary.LittleEndian.PutUint64(b[offArgs+8*i:], a)
	}
	if offset%4 != 0 || offset > 60 {
		return 0, fmt.Errorf("load at %d", offset)
	}
	return binary.LittleEndian.Uint32(b[offset:]), nil
}

// interpret runs a compiled program as the kernel does: net/core/filter.c,
// with the instructions that seccomp allows.
func interpret(program []byte, c call) (uint32, error) {
	var a, x uint32
	var mem [16]uint32
	for pc := 0; ; pc++ {
		if pc < 0 || 8*pc+8 > len(program) {
			return 0, fmt.Errorf("ran off the program at %d", pc)
		}
		i := program[8*pc:]
		code, jt, jf, k := binary.LittleEndian.Uint16(i), int(i[2]), int(i[3]), binary.LittleEndian.Uint32(i[4:])
		operand := k
		if code&unix.BPF_X != 0 && (code&7 == unix.BPF_ALU || code&7 == unix.BPF_JMP) {
			operand = x
		}
		taken := false
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			var err error
			if a, err = c.word(k); err != nil {
				return 0, err
			}
			continue
		case unix.BPF_LD | unix.BPF_IMM:
			a = k
			continue
		case unix.BPF_LD | unix.BPF_MEM:
			a = mem[k&15]
			continue
		case unix.BPF_ST:
			mem[k&15] = a
			continue
		case unix.BPF_MISC | unix.BPF_TAX:
			x = a
			continue
		case unix.BPF_ALU | unix.BPF_AND, unix.BPF_ALU | unix.BPF_AND | unix.BPF_X:
			a &= operand
			continue
		case unix.BPF_RET:
			return k, nil
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(k)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_X:
			taken = a == operand
		case unix.BPF_JMP | unix.BPF_JGT, unix.BPF_JMP | unix.BPF_JGT | unix.BPF_X:
			taken = a > operand
		case unix.BPF_JMP | unix.BPF_JGE, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_X:
			taken = a >= operand
		case unix.BPF_JMP | unix.BPF_JSET, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_X:
			taken = a&operand != 0
		default:
			return 0, fmt.Errorf("instruction %#x at %d", code, pc)
		}
		if taken {
			pc += jt
		} else {
			pc += jf
		}
	}
}
