package tinyexec

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
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

const shell = "/bin/sh"

// Program is what the file does.
type Program struct {
	Calls   []Call
	Path    string // of the file to execute in the end
	Failure string // what to say if that can't be, a line
}

// Call is a system call of the machine that cordon was built for.
type Call struct {
	Number int
	Args   []Arg
}

// maxArgs is how many a system call can have.
const maxArgs = 6

// Arg puts what an argument refers to into the program's memory and returns
// the argument.
type Arg func(*body) uint32

// Int is a number.
func Int(n uint32) Arg { return func(*body) uint32 { return n } }

// String is the address of a string.
func String(s string) Arg { return func(b *body) uint32 { return b.add([]byte(s + "\x00")) } }

// Filter is the address of a struct sock_fprog, for seccomp(2), with a list of
// struct sock_filter.
func Filter(instructions []byte) (Arg, error) {
	n := len(instructions) / 8
	if n == 0 || len(instructions)%8 != 0 || n > math.MaxUint16 {
		return nil, fmt.Errorf("%d bytes are no system call filter", len(instructions))
	}
	return func(b *body) uint32 { return b.add(fprog(b.add(instructions), n)) }, nil
}

// call is one whose arguments are known.
type call struct {
	number uint32
	args   []uint32
}

// addresses are where the code finds what it works with, in memory.
type addresses struct {
	path, shell, failure, failureLen uint32
}

// machine is an architecture as ELF and package runtime name it.
type machine struct {
	elf  uint16 // e_machine
	code func(addresses, []call) []byte
}

func machineOf(goarch string) (machine, error) {
	switch goarch {
	case "amd64":
		return machine{62, amd64}, nil
	case "arm64":
		return machine{183, arm64}, nil
	}
	return machine{}, fmt.Errorf("a sandbox's first programs can't be made for %s, only for amd64 and arm64", goarch)
}

// ELF returns the file for the machine that cordon was built for.
func (p Program) ELF() ([]byte, error) { return p.elf(runtime.GOARCH) }

func (p Program) elf(goarch string) ([]byte, error) {
	m, err := machineOf(goarch)
	if err != nil {
		return nil, err
	}
	if p.Path == "" || strings.ContainsRune(p.Path, 0) {
		return nil, fmt.Errorf("%q is no path", p.Path)
	}
	body := body{at: base + headerSize + segmentSize}
	var calls []call
	for _, c := range p.Calls {
		if c.Number < 0 || len(c.Args) > maxArgs {
			return nil, fmt.Errorf("%d with %d arguments is no system call", c.Number, len(c.Args))
		}
		known := call{number: uint32(c.Number)}
		for _, arg := range c.Args {
			known.args = append(known.args, arg(&body))
		}
		calls = append(calls, known)
	}
	code := m.code(addresses{
		path: body.add([]byte(p.Path + "\x00")), shell: body.add([]byte(shell + "\x00")),
		failure: body.add([]byte(p.Failure)), failureLen: uint32(len(p.Failure)),
	}, calls)
	entry := body.add(code)
	return append(header(m.elf, entry, len(body.bytes)), body.bytes...), nil
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
