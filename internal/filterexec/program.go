package filterexec

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// base is where the file is mapped, whole: at a multiple of the largest page
// size, 64 KiB.
const base = 0x400000

// Sizes in ELF files of 64 bits, elf(5).
const (
	headerSize  = 64
	segmentSize = 56
)

// failed is the program's exit code when it could not do its work.
const failed = 125

const (
	shell   = "/bin/sh"
	failure = "cordon: the command could not be started under its system call filter\n"
)

// addresses are where the code finds what it works with, in memory.
type addresses struct {
	fprog, path, shell, failure, code uint32
}

// machine is an architecture as ELF and package runtime name it.
type machine struct {
	elf  uint16 // e_machine
	code func(a addresses, fd uint16) []byte
}

func machineOf(goarch string) (machine, error) {
	switch goarch {
	case "amd64":
		return machine{62, amd64}, nil
	case "arm64":
		return machine{183, arm64}, nil
	}
	return machine{}, fmt.Errorf("refused calls can't be logged on %s, only on amd64 and arm64", goarch)
}

// Program returns the ELF file for an architecture, as package runtime names
// it, that closes the descriptor fd, loads filter, a list of struct
// sock_filter, and executes the file at path.
func Program(goarch string, fd int, path string, filter []byte) ([]byte, error) {
	m, err := machineOf(goarch)
	if err != nil {
		return nil, err
	}
	if len(filter) == 0 || len(filter)%8 != 0 || len(filter)/8 > math.MaxUint16 {
		return nil, fmt.Errorf("%d bytes are no system call filter", len(filter))
	}
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("%q is no path", path)
	}
	if fd < 0 || fd > math.MaxUint16 {
		return nil, fmt.Errorf("%d is no descriptor", fd)
	}
	body := body{at: base + headerSize + segmentSize}
	instructions := body.add(filter)
	a := addresses{
		fprog: body.add(fprog(instructions, len(filter)/8)),
		path:  body.add([]byte(path + "\x00")), shell: body.add([]byte(shell + "\x00")), failure: body.add([]byte(failure)),
	}
	a.code = body.next()
	body.add(m.code(a, uint16(fd)))
	return append(header(m.elf, a.code, len(body.bytes)), body.bytes...), nil
}

// body is what follows the headers.
type body struct {
	at    uint32 // address of its beginning
	bytes []byte
}

func (b *body) next() uint32 { return b.at + uint32(len(b.bytes)) }

// add appends what and returns its address. What comes next is aligned to 8
// bytes.
func (b *body) add(what []byte) uint32 {
	at := b.next()
	b.bytes = append(b.bytes, what...)
	for len(b.bytes)%8 != 0 {
		b.bytes = append(b.bytes, 0)
	}
	return at
}

// fprog is struct sock_fprog of linux/filter.h.
func fprog(instructions uint32, n int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(n)) // u16 and padding
	return binary.LittleEndian.AppendUint64(out, uint64(instructions))
}

// header is Elf64_Ehdr and one Elf64_Phdr, which maps all of the file.
func header(machine uint16, entry uint32, body int) []byte {
	le := binary.LittleEndian
	size := uint64(headerSize + segmentSize + body)
	out := append([]byte("\x7fELF"), 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0) // 64 bits, little-endian, version 1, System V
	out = le.AppendUint16(out, 2)                                        // ET_EXEC
	out = le.AppendUint16(out, machine)
	out = le.AppendUint32(out, 1) // version
	out = le.AppendUint64(out, uint64(entry))
	out = le.AppendUint64(out, headerSize) // offset of the segments
	out = le.AppendUint64(out, 0)          // no sections
	out = le.AppendUint32(out, 0)          // flags
	for _, n := range []uint16{headerSize, segmentSize, 1, 0, 0, 0} {
		out = le.AppendUint16(out, n)
	}
	out = le.AppendUint32(out, 1)                                     // PT_LOAD
	out = le.AppendUint32(out, 4|1)                                   // readable, executable
	for _, n := range []uint64{0, base, base, size, size, 0x1_0000} { // offset, addresses, sizes, alignment
		out = le.AppendUint64(out, n)
	}
	return out
}
