package transcript

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

const goneBlock = redactedBlock

func TestThinkingStaysOrGoesWhole(t *testing.T) {
	m := testMatcher(t, options())
	const clean = `{"type":"thinking","thinking":"the user wants 10.202.0.10","signature":"Ep8BCkYICxgC"}`
	tests := []struct{ name, in, want string }{
		{
			"untouched beside a find",
			`{"message":{"content":[` + clean + `,{"type":"text","text":"10.202.0.1"}]}}`,
			`{"message":{"content":[` + clean + `,{"type":"text","text":"proxy.internal"}]}}`,
		},
		{"address in the text", `[{"type":"thinking","thinking":"at 10.202.0.1","signature":"Ep8"},1]`, `[` + goneBlock + `,1]`},
		{"type at the end", `[{"thinking":"at 10.202.0.1","signature":"Ep8","type" : "thinking"}]`, `[` + goneBlock + `]`},
		{"token in the signature", `[{"type":"thinking","thinking":"","signature":"` + b64(token) + `"}]`, `[` + goneBlock + `]`},
		{"redacted thinking", `[{"type":"redacted_thinking","data":"` + b64("x10.202.0.1y") + `"}]`, `[` + goneBlock + `]`},
		{"escaped type", `[{"type":"th\u0069nking","thinking":"10.202.0.1"}]`, `[` + goneBlock + `]`},
		{"escaped key", `[{"ty\u0070e":"thinking","thinking":"10.202.0.1"}]`, `[` + goneBlock + `]`},
		{"escaped find", `[{"type":"thinking","thinking":"\u00310.202.0.1"}]`, `[` + goneBlock + `]`},
		{"nested within", `[{"type":"thinking","x":{"y":["10.202.0.1"]}}]`, `[` + goneBlock + `]`},
		{"number within", `[{"type":"thinking","x":181010433}]`, `[` + goneBlock + `]`},
		{
			"two finds, two blocks", `[{"type":"thinking","thinking":"10.202.0.1 10.202.0.2"},"10.202.0.1",{"signature":"10.202.0.1"},"10.202.0.2"]`,
			`[` + goneBlock + `,"proxy.internal",` + goneBlock + `,"proxy.internal"]`,
		},
		{"a block within a block", `[{"type":"thinking","x":[{"signature":"10.202.0.1"},{"signature":"10.202.0.1"}]}]`, `[` + goneBlock + `]`},
		{"of another type, signed", `[{"type":"tool_use","signature":"Ep8","input":{"a":"10.202.0.1"}}]`, `[` + goneBlock + `]`},
		{"an argument called signature", `[{"type":"tool_use","input":{"signature":"f(x)","a":"10.202.0.1"}}]`, `[{"type":"tool_use","input":{"signature":"f(x)","a":"proxy.internal"}}]`},
		{"thinking as text", `[{"type":"text","text":"\"type\":\"thinking\" 10.202.0.1"}]`, `[{"type":"text","text":"\"type\":\"thinking\" proxy.internal"}]`},
		{"an ordinary line", `{"type":"user","thinkingMetadata":{"level":"high"},"m":"10.202.0.1"}`, `{"type":"user","thinkingMetadata":{"level":"high"},"m":"proxy.internal"}`},
		{"cut off", `{"content":[{"type":"thinking","thinking":"at 10.202.0.1`, `{"content":[{"type":"thinking","thinking":"at proxy.internal`},
		{"brackets don't match", `[{"type":"thinking","thinking":"10.202.0.1"]}`, `[{"type":"thinking","thinking":"proxy.internal"]}`},
		{
			"numbers", `{"a":181010433,"b":[ 181010434 ,181010435],"c":-181010433,"181010433":0}`,
			`{"a":"proxy.internal","b":[ "proxy.internal" ,181010435],"c":-181010433,"proxy.internal":0}`,
		},
		{"a line that is a number", `181010433`, `"proxy.internal"`},
		{"a key", `{"http://10.202.0.1:3000":1}`, `{"http://proxy.internal:3000":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The same line between others, and ended by the file's end.
			other := `{"a":"10.202.0.2"}`
			for _, in := range [][2]string{{tt.in, tt.want}, {other + "\n" + tt.in + "\r\n{}\n", `{"a":"proxy.internal"}` + "\n" + tt.want + "\r\n{}\n"}} {
				if got := text(t, m, "a.jsonl", in[0]); got != in[1] {
					t.Errorf("\n in  %s\n got %s\nwant %s", in[0], got, in[1])
				}
			}
		})
	}
}

func TestNumbersThatHoldASecret(t *testing.T) {
	m := testMatcher(t, Options{Secrets: []string{"31415926535"}, Addresses: []netip.Addr{netip.MustParseAddr("16.1.0.18")}})
	for in, want := range map[string]string{
		`[9931415926535e5,1]`:                      `["[redacted]",1]`,
		`[-3.131415926535,3141592653531415926535]`: `["[redacted]","[redacted]"]`,
		`[10010012]`:                               `["proxy.internal"]`,
	} {
		if got := text(t, m, "a.json", in); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}

// Lines longer than what is in memory at once, with all that can be in them,
// come out as they do when they fit.
func TestLongLines(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	whole := testMatcher(t, options())
	cut := testMatcher(t, options())
	cut.block = 2 * cut.margin
	parts := []string{
		`"10.202.0.1"`, `181010433`, `{"type":"thinking","thinking":"FILL","signature":"10.202.0.1 FILL"}`, `{"type":"thinking","thinking":"FILL"}`,
		`"FILL"`, `"` + strings.Repeat(`\u0031`, 500) + `"`, `"\n\n` + token + `FILL"`, `"` + quoted(odd) + `"`, `[[[]]]`, `"` + b64("FILL10.202.0.2") + `"`,
	}
	for range 12 {
		var b strings.Builder
		for range 3 {
			b.WriteString(`{"a":"10.202.0.2"}` + "\n[0")
			for range rnd.IntN(60) {
				fill := strings.Repeat([]string{"x", " ", `\"`, "%20", `\\`}[rnd.IntN(5)], rnd.IntN(3*cut.margin))
				b.WriteString("," + strings.ReplaceAll(parts[rnd.IntN(len(parts))], "FILL", fill))
			}
			b.WriteString("]\n")
		}
		in := b.String()
		want := text(t, whole, "a.jsonl", in)
		for i, line := range strings.Split(want, "\n") {
			if line != "" && !json.Valid([]byte(line)) {
				t.Fatalf("line %d is no JSON any more", i)
			}
		}
		got := text(t, cut, "a.jsonl", in)
		if got != want {
			n := 0
			for n < min(len(got), len(want)) && got[n] == want[n] {
				n++
			}
			t.Fatalf("differs at %d of %d: got …%q, want …%q", n, len(want), got[max(n-60, 0):min(n+60, len(got))], want[max(n-60, 0):min(n+60, len(want))])
		}
		plain := text(t, whole, "a.txt", in)
		if got := text(t, cut, "a.txt", in); got != plain {
			t.Fatal("differs as text")
		}
	}
}

// More blocks in one line than can be remembered: the line goes as one.
func TestFlood(t *testing.T) {
	m := testMatcher(t, options())
	one := `{"signature":"10.202.0.1"}`
	for _, end := range []string{"", "\n"} {
		in := "{}\n[" + strings.Repeat(one+",", maxDrops) + one + "]" + end
		if got, want := text(t, m, "a.jsonl", in), "{}\n"+goneBlock+end; got != want {
			t.Errorf("%d bytes, want %q", len(got), want)
		}
	}
	deep := strings.Repeat("[", maxNesting+1) + `"10.202.0.1"` + strings.Repeat("]", maxNesting+1)
	if got, want := text(t, m, "a.jsonl", deep), strings.Replace(deep, "10.202.0.1", defaultName, 1); got != want {
		t.Error("what is too deep is not scrubbed")
	}
}
