package libseccomp

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data of linux/seccomp.h; the machines that are
// supported are little-endian, so the low half of an argument comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// x32Bit marks the numbers of the x32 ABI, which share x86_64's token.
const x32Bit = 0x4000_0000

// span is a run of numbers, both ends included.
type span struct{ first, last uint32 }

// prelude is what comes before libseccomp's program and falls through to it.
// It says "none of these" twice, which the library can't: its conditions are
// all "equal", one for each argument, and what it made of two conditions on
// one argument has been wrong before.
//
//   - A number in a gap of the table, or behind its end, answers ENOSYS:
//     neither allowed nor known to be refused.
//   - An ioctl whose low 32 bits are one of ioctls answers EPERM. The kernel
//     ignores the high bits, so they must not make a difference here.
//
// Other architectures, and x32, are left to the library, which kills them.
func prelude(m machine, gaps []span, last uint32, ioctls []uint32) []unix.SockFilter {
	var body []unix.SockFilter
	if m.x32 {
		body = append(body, jump(unix.BPF_JGE, x32Bit, toEnd, 0))
	}
	for _, g := range gaps {
		body = append(body, jump(unix.BPF_JGE, g.first, 0, 2), jump(unix.BPF_JGT, g.last, 1, 0), refuse(unix.ENOSYS))
	}
	body = append(body, jump(unix.BPF_JGT, last, 0, 1), refuse(unix.ENOSYS))
	if len(ioctls) > 0 {
		body = append(body, jump(unix.BPF_JEQ, m.ioctl, 0, toEnd), load(offArgs+8))
		for _, n := range ioctls {
			body = append(body, jump(unix.BPF_JEQ, n, 0, 1), refuse(unix.EPERM))
		}
	}
	head := []unix.SockFilter{load(offArch), jump(unix.BPF_JEQ, m.token, 0, toEnd), load(offNumber)}
	out := append(head, body...)
	for i := range out {
		rest := uint8(len(out) - i - 1)
		if out[i].Jt == toEnd {
			out[i].Jt = rest
		}
		if out[i].Jf == toEnd {
			out[i].Jf = rest
		}
	}
	return out
}

// toEnd stands for the distance to the program that follows.
const toEnd = 255

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func refuse(errno unix.Errno) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// encode writes instructions as struct sock_filter.
func encode(program []unix.SockFilter) []byte {
	out := make([]byte, 0, 8*len(program))
	for _, i := range program {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}

// spans returns the gaps of a table in which known tells what is there, up to
// its last number.
func spans(known []bool) (gaps []span, last uint32) {
	last = uint32(len(known) - 1 - slices.Index(reversed(known), true))
	for n := uint32(0); n < last; n++ {
		if known[n] {
			continue
		}
		g := span{first: n}
		for ; !known[n]; n++ {
			g.last = n
		}
		gaps = append(gaps, g)
	}
	return gaps, last
}

func reversed(list []bool) []bool {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}
