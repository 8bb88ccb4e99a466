package tinyexec

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"
)

// The addresses that the code below is assembled with.
const at = "path=0x33334444 shell=0x55556666 failure=0x77778888"

func placed(t *testing.T) (a addresses) {
	t.Helper()
	_, err := fmt.Sscanf(at, "path=%v shell=%v failure=%v", &a.path, &a.shell, &a.failure)
	must(t, err)
	a.failureLen = 0x46
	return a
}

// calls are two, with no argument and with all.
var calls = []call{{number: 3}, {number: 0x13d, args: []uint32{1, 0xfffffffe, 0x11112222, 4, 5, 6}}}

// listing puts an instruction and its offset on a line.
func listing(t *testing.T, code []byte, decode func(at int, b []byte) (text string, size int, err error)) string {
	t.Helper()
	var out strings.Builder
	for pc := 0; pc < len(code); {
		text, size, err := decode(pc, code[pc:])
		if err != nil {
			t.Fatalf("at %d: %v: % x", pc, err, code[pc:])
		}
		fmt.Fprintf(&out, "%02x %s\n", pc, text)
		pc += size
	}
	return out.String()
}

func TestAMD64Code(t *testing.T) {
	got := listing(t, amd64(placed(t), calls), func(at int, b []byte) (string, int, error) {
		i, err := x86asm.Decode(b, 64)
		return x86asm.IntelSyntax(i, uint64(at), nil), i.Len, err
	})
	if got != amd64Listing {
		t.Errorf("\n%s\nwant\n%s", got, amd64Listing)
	}
}

func TestARM64Code(t *testing.T) {
	got := listing(t, arm64(placed(t), calls), func(at int, b []byte) (string, int, error) {
		i, err := arm64asm.Decode(b)
		return strings.ToLower(arm64asm.GNUSyntax(i)), 4, err
	})
	if got != arm64Listing {
		t.Errorf("\n%s\nwant\n%s", got, arm64Listing)
	}
}

const amd64Listing = `00 mov eax, 0x3
05 syscall
07 test eax, eax
09 jnz 0x79
0f mov edi, 0x1
14 mov esi, -0x2
19 mov edx, 0x11112222
1e mov r10d, 0x4
24 mov r8d, 0x5
2a mov r9d, 0x6
30 mov eax, 0x13d
35 syscall
37 test eax, eax
39 jnz 0x79
3f lea rsi, ptr [rsp+0x10]
44 mov rax, qword ptr [rsp]
48 lea rdx, ptr [rsp+8*rax+0x10]
4d mov edi, 0x33334444
52 mov eax, 0x3b
57 syscall
59 cmp eax, -0x8
5c jnz 0x79
5e mov qword ptr [rsp+0x10], rdi
63 mov edi, 0x55556666
68 mov qword ptr [rsp+0x8], rdi
6d lea rsi, ptr [rsp+0x8]
72 mov eax, 0x3b
77 syscall
79 mov edi, 0x2
7e mov esi, 0x77778888
83 mov edx, 0x46
88 mov eax, 0x1
8d syscall
8f mov edi, 0x7d
94 mov eax, 0xe7
99 syscall
9b ud2
`

const arm64Listing = `00 mov x8, #0x3
04 svc #0x0
08 cbnz x0, .+0x74
0c mov x0, #0x1
10 mov x1, #0xfffe
14 movk x1, #0xffff, lsl #16
18 mov x2, #0x2222
1c movk x2, #0x1111, lsl #16
20 mov x3, #0x4
24 mov x4, #0x5
28 mov x5, #0x6
2c mov x8, #0x13d
30 svc #0x0
34 cbnz x0, .+0x48
38 add x1, sp, #0x10
3c ldr x9, [sp]
40 add x2, x1, x9, lsl #3
44 mov x0, #0x4444
48 movk x0, #0x3333, lsl #16
4c mov x8, #0xdd
50 svc #0x0
54 cmn x0, #0x8
58 b.ne .+0x24
5c mov x0, #0x4444
60 movk x0, #0x3333, lsl #16
64 str x0, [sp,#16]
68 mov x0, #0x6666
6c movk x0, #0x5555, lsl #16
70 str x0, [sp,#8]
74 add x1, sp, #0x8
78 svc #0x0
7c mov x0, #0x2
80 mov x1, #0x8888
84 movk x1, #0x7777, lsl #16
88 mov x2, #0x46
8c mov x8, #0x40
90 svc #0x0
94 mov x0, #0x7d
98 mov x8, #0x5e
9c svc #0x0
a0 brk #0x0
`

// The file as others read it.
func TestELF(t *testing.T) {
	instructions := refuses(unix.SYS_SETHOSTNAME, unix.EPERM)
	filter, err := Filter(instructions)
	must(t, err)
	program := Program{Calls: []Call{{Number: 7, Args: []Arg{Int(5), filter, String("proc")}}}, Path: "/usr/bin/env", Failure: "failed\n"}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		b, err := program.elf(arch)
		must(t, err)
		f, err := elf.NewFile(bytes.NewReader(b))
		must(t, err)
		if f.Machine != machine || f.Type != elf.ET_EXEC || len(f.Progs) != 1 || len(f.Sections) != 0 {
			t.Errorf("%s: %+v", arch, f.FileHeader)
			continue
		}
		p := f.Progs[0].ProgHeader
		want := elf.ProgHeader{Type: elf.PT_LOAD, Flags: elf.PF_R | elf.PF_X, Vaddr: base, Paddr: base, Filesz: uint64(len(b)), Memsz: uint64(len(b)), Align: 1 << 16}
		if p != want {
			t.Errorf("%s: %+v", arch, p)
		}
		find := func(what []byte) uint32 { return base + uint32(bytes.Index(b, what)) }
		text := func(s string) uint32 { return find([]byte(s)) }
		a := addresses{path: text("/usr/bin/env\x00"), shell: text("/bin/sh\x00"), failure: text("failed\n"), failureLen: 7}
		fprog := binary.LittleEndian.AppendUint64([]byte{4, 0, 0, 0, 0, 0, 0, 0}, uint64(find(instructions)))
		m, err := machineOf(arch)
		must(t, err)
		code := m.code(a, []call{{number: 7, args: []uint32{5, find(fprog), text("proc\x00")}}})
		if f.Entry%4 != 0 || !bytes.HasPrefix(b[f.Entry-base:], code) {
			t.Errorf("%s: the code, or what it refers to, is not where it should be", arch)
		}
	}
}
