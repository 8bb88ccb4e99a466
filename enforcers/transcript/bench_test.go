package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// transcriptText is what an agent's client writes, of about this size: short
// messages, results of tools with code, colours and URLs, signed blocks. One
// line in every has the session's address; 0 is none.
func transcriptText(size, every int) []byte {
	rnd := rand.New(rand.NewPCG(1, 1))
	words := strings.Fields("func return if err != nil { } the a file of 10.0.0.12 127.0.0.1:3000 const x = \"value\" import from './lib' \x1b[31mFAIL\x1b[0m https://example.com/a%20b?q=1 README.md\n error: TypeError at line 1234 cat grep node_modules 0x1f 20261129 ✓ é")
	sentence := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[rnd.IntN(len(words))])
			b.WriteByte(" \n"[rnd.IntN(12)/11])
		}
		return b.String()
	}
	var out bytes.Buffer
	for n := 1; out.Len() < size; n++ {
		signature := make([]byte, 400)
		for i := range signature {
			signature[i] = byte(rnd.Uint32())
		}
		text := sentence(20 + rnd.IntN(1000))
		if every > 0 && n%every == 0 {
			text += "connect to http://10.202.0.1:3000/v1/messages failed"
		}
		line, _ := json.Marshal(map[string]any{
			"type": "assistant", "uuid": fmt.Sprintf("%08x-0000-4000-8000-%012x", rnd.Uint32(), n), "sessionId": "0e3f6a52-0000-4000-8000-1234567890ab", "cwd": "/work",
			"message": map[string]any{"role": "assistant", "content": []any{
				map[string]any{"type": "thinking", "thinking": sentence(40), "signature": signature},
				map[string]any{"type": "tool_result", "content": text},
			}},
		})
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

func BenchmarkScrub(b *testing.B) {
	const size = 64 << 20
	m := testMatcher(b, options())
	b.Logf("%d anchors, %d states, table of %d bytes", len(m.patterns), len(m.automaton.next)/int(m.automaton.width), 4*len(m.automaton.next))
	for _, c := range []struct {
		name string
		file string
		text []byte
	}{
		{"nothing found", "a.jsonl", transcriptText(size, 0)},
		{"a find in every 100th line", "a.jsonl", transcriptText(size, 100)},
		{"a find in every line", "a.jsonl", transcriptText(size, 1)},
		{"one line", "a.jsonl", append([]byte{'['}, bytes.ReplaceAll(transcriptText(size, 1000), []byte("\n"), []byte(","))...)},
		{"text", "a.txt", transcriptText(size, 100)},
		{"hostile: almost found", "a.txt", bytes.Repeat([]byte("10.202.0.10 "), size/12)},
		{"hostile: escapes", "a.txt", bytes.Repeat([]byte(`\u0031%31`), size/9)},
		{"hostile: tokens", "a.txt", bytes.Repeat([]byte("cc-sess-"), size/8)},
		{"hostile: backslashes", "a.jsonl", bytes.Repeat([]byte(`\`), size)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			tr := &tree{o: Options{Name: defaultName}, m: m}
			before := cpu(b)
			n := 0
			for b.Loop() {
				n++
				r := tr.rewriter(bytes.NewReader(c.text), int64(len(c.text)), 0, c.file, func(off int64) (io.Writer, error) {
					_, err := io.Copy(io.Discard, bytes.NewReader(c.text[:off]))
					return io.Discard, err
				})
				if err := r.run(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n*len(c.text))/1e6/(cpu(b)-before).Seconds(), "MB/cpu-s")
		})
	}
}

// cpu is what the process has used: on a busy machine time on the clock says
// nothing.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTree is the whole way: a session's transcripts on disk, of which
// one in ten has something to take out.
func BenchmarkTree(b *testing.B) {
	dir := b.TempDir()
	clean, found := transcriptText(4<<20, 0), transcriptText(4<<20, 100)
	for i := range 20 {
		write(b, fmt.Sprintf("%s/p/%d.jsonl", dir, i), string(clean))
	}
	b.SetBytes(int64(20*len(clean) + 2*len(found)))
	before, n := cpu(b), 0
	for b.Loop() {
		write(b, dir+"/p/a.jsonl", string(found))
		write(b, dir+"/p/b.jsonl", string(found))
		r, err := Scrub(context.Background(), dir, options())
		if err != nil || r.Changed != 2 {
			b.Fatal(r, err)
		}
		n++
	}
	b.ReportMetric(float64(n*(20*len(clean)+2*len(found)))/1e6/(cpu(b)-before).Seconds(), "MB/cpu-s")
}
