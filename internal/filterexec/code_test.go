package filterexec

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
const at = "fprog=0x11112222 path=0x33334444 shell=0x55556666 failure=0x77778888"

func placed(t *testing.T) (a addresses) {
	t.Helper()
	_, err := fmt.Sscanf(at, "fprog=%v path=%v shell=%v failure=%v", &a.fprog, &a.path, &a.shell, &a.failure)
	must(t, err)
	return a
}

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
	got := listing(t, amd64(placed(t), 9), func(at int, b []byte) (string, int, error) {
		i, err := x86asm.Decode(b, 64)
		return x86asm.IntelSyntax(i, uint64(at), nil), i.Len, err
	})
	if got != amd64Listing {
		t.Errorf("\n%s\nwant\n%s", got, amd64Listing)
	}
}

func TestARM64Code(t *testing.T) {
	got := listing(t, arm64(placed(t), 9), func(at int, b []byte) (string, int, error) {
		i, err := arm64asm.Decode(b)
		return strings.ToLower(arm64asm.GNUSyntax(i)), 4, err
	})
	if got != arm64Listing {
		t.Errorf("\n%s\nwant\n%s", got, arm64Listing)
	}
}

const amd64Listing = `00 mov edi, 0x9
05 mov eax, 0x3
0a syscall
0c mov edi, 0x1
11 mov esi, 0x2
16 mov edx, 0x11112222
1b mov eax, 0x13d
20 syscall
22 test eax, eax
24 jnz 0x60
26 lea rsi, ptr [rsp+0x10]
2b mov rax, qword ptr [rsp]
2f lea rdx, ptr [rsp+8*rax+0x10]
34 mov edi, 0x33334444
39 mov eax, 0x3b
3e syscall
40 cmp eax, -0x8
43 jnz 0x60
45 mov qword ptr [rsp+0x10], rdi
4a mov edi, 0x55556666
4f mov qword ptr [rsp+0x8], rdi
54 lea rsi, ptr [rsp+0x8]
59 mov eax, 0x3b
5e syscall
60 mov edi, 0x2
65 mov esi, 0x77778888
6a mov edx, 0x46
6f mov eax, 0x1
74 syscall
76 mov edi, 0x7d
7b mov eax, 0xe7
80 syscall
82 ud2
`

const arm64Listing = `00 mov x0, #0x9
04 mov x8, #0x39
08 svc #0x0
0c mov x0, #0x1
10 mov x1, #0x2
14 mov x2, #0x2222
18 movk x2, #0x1111, lsl #16
1c mov x8, #0x115
20 svc #0x0
24 cbnz x0, .+0x48
28 add x1, sp, #0x10
2c ldr x9, [sp]
30 add x2, x1, x9, lsl #3
34 mov x0, #0x4444
38 movk x0, #0x3333, lsl #16
3c mov x8, #0xdd
40 svc #0x0
44 cmn x0, #0x8
48 b.ne .+0x24
4c mov x0, #0x4444
50 movk x0, #0x3333, lsl #16
54 str x0, [sp,#16]
58 mov x0, #0x6666
5c movk x0, #0x5555, lsl #16
60 str x0, [sp,#8]
64 add x1, sp, #0x8
68 svc #0x0
6c mov x0, #0x2
70 mov x1, #0x8888
74 movk x1, #0x7777, lsl #16
78 mov x2, #0x46
7c mov x8, #0x40
80 svc #0x0
84 mov x0, #0x7d
88 mov x8, #0x5e
8c svc #0x0
90 brk #0x0
`

// The file as others read it.
func TestELF(t *testing.T) {
	filter := refuses(unix.SYS_SETHOSTNAME, unix.EPERM)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		b, err := Program(arch, 3, "/usr/bin/env", filter)
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
		var a addresses
		text := func(s string) uint32 { return base + uint32(bytes.Index(b, []byte(s))) }
		a.path, a.shell, a.failure = text("/usr/bin/env\x00"), text("/bin/sh\x00"), text(failure)
		instructions := base + uint64(bytes.Index(b, filter))
		a.fprog = base + uint32(bytes.Index(b, binary.LittleEndian.AppendUint64([]byte{4, 0, 0, 0, 0, 0, 0, 0}, instructions)))
		m, err := machineOf(arch)
		must(t, err)
		if code := m.code(a, 3); f.Entry%4 != 0 || !bytes.HasPrefix(b[f.Entry-base:], code) {
			t.Errorf("%s: the code, or what it refers to, is not where it should be", arch)
		}
	}
}
