package transcript

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func seeds(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		`{"message":{"content":[{"type":"thinking","thinking":"10.202.0.1","signature":"Ep8"},{"type":"text","text":"\u0031\u0030.202.0.1"}]}}`,
		`{"a":181010433,"b":[-181010433,1810104330],"10.202.0.2":"0x0aca0001 0100CA0A:0BB8"}` + "\n" + `"` + b64("http://10.202.0.1:3000") + `"`,
		`"` + token + `.10.202.0.1" "` + b64(token) + `"` + "\r\n" + `"::ffff:10.202.0.1 0:0:0:0:0:ffff:aca:1"`,
		`["\\u0031\\u0030.202.0.1","%31%30.202.0.1","\n10.202.0.1\t","\u001b[31m0aca0001\u001b[m","\u0010.202.0.1"]`,
		`{"k":"` + quoted(odd) + `","l":"` + quoted(quoted(odd)) + `","m":"` + apiKey + `"}`,
		`10.202.0.110.202.0.1.10.202.0.2.181010433cc-sess-1.10.202.0.1`,
		"10.202.0.1MTAuMjAyLjAuM10.202.0.1MTAuM",
		" MTAuMjAyLjAuMX=zEwLjIwMi4wLjIjIx",
		"10.202.0.1A00001A0000zEwLjIwMi4wLjIzEwLjIwMi4wLjI=",
		"10.202.0.1" + b64("10.202.0.1") + "0aca0001" + b64("x10.202.0.2"),
		`[{"signature":"\\","type":"thinking","x":{"type":"redacted_thinking","y":"10.202.0.1"}},"\\",{"signature":"a","z":"10.202.0.1"}]`,
	} {
		f.Add([]byte(s))
	}
}

// sealed tells whether a JSON value must stay as it is or go whole.
func sealed(v any) bool {
	o, ok := v.(map[string]any)
	return ok && (o["type"] == "thinking" || o["type"] == "redacted_thinking")
}

// compare walks a line as it was and as it became.
func compare(t *testing.T, before, after any) {
	t.Helper()
	if reflect.DeepEqual(before, after) || reflect.DeepEqual(after, any(map[string]any{"type": "text", "text": redacted})) {
		return
	}
	if sealed(before) {
		t.Errorf("a block was changed: %v became %v", before, after)
		return
	}
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok || len(a) != len(b) {
			return // a key was replaced, or a signed block went
		}
		for k := range b {
			if v, ok := a[k]; ok {
				compare(t, b[k], v)
			}
		}
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			t.Errorf("%v became %v", before, after)
			return
		}
		for i := range b {
			compare(t, b[i], a[i])
		}
	}
}

func decode(line []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	return v, d.Decode(&v) == nil && json.Valid(line)
}

func FuzzJSON(f *testing.F) {
	seeds(f)
	m := testMatcher(f, options())
	cut := testMatcher(f, options())
	cut.margin, cut.block = 2000, 200
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1500 { // what reaches further than the margin is another matter
			return
		}
		out := []byte(text(t, m, "a.jsonl", string(in)))
		if again := text(t, m, "a.jsonl", string(out)); again != string(out) {
			t.Errorf("not the same twice:\n%q\n%q\n%q", in, out, again)
		}
		before, after := bytes.Split(in, []byte("\n")), bytes.Split(out, []byte("\n"))
		if len(before) != len(after) {
			t.Fatalf("%d lines became %d: %q %q", len(before), len(after), in, out)
		}
		for i := range before {
			b, ok := decode(before[i])
			if !ok {
				continue
			}
			a, ok := decode(after[i])
			if !ok {
				t.Fatalf("no JSON any more:\n%q\n%q", before[i], after[i])
			}
			compare(t, b, a)
			leaks(t, a)
		}
		if got := text(t, cut, "a.jsonl", string(in)); got != string(out) {
			t.Errorf("in pieces it is something else:\n%q\n%q\n%q", in, out, got)
		}
	})
}

// leaks looks at what a client of the file would see.
func leaks(t *testing.T, v any) {
	t.Helper()
	switch v := v.(type) {
	case string:
		if naive(v) != v {
			t.Errorf("left: %q", v)
		}
	case []any:
		for _, e := range v {
			leaks(t, e)
		}
	case map[string]any:
		for k, e := range v {
			leaks(t, k)
			leaks(t, e)
		}
	}
}

// naive replaces dotted addresses, known secrets and nothing else.
func naive(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		replaced := false
		for _, a := range []string{"10.202.0.1", "10.202.0.2"} {
			if strings.HasPrefix(s[i:], a) && !numberBefore(s[:i]) && !numberAfter(s[i+len(a):]) {
				out.WriteString(defaultName)
				i += len(a)
				replaced = true
				break
			}
		}
		if !replaced {
			out.WriteByte(s[i])
			i++
		}
	}
	return strings.NewReplacer(apiKey, redacted, odd, redacted).Replace(out.String())
}

func numberBefore(s string) bool {
	n := len(s)
	return n > 0 && isDigit(s[n-1]) || n > 1 && s[n-1] == '.' && isDigit(s[n-2])
}

func numberAfter(s string) bool {
	return s != "" && isDigit(s[0]) || len(s) > 1 && s[0] == '.' && isDigit(s[1])
}

func FuzzText(f *testing.F) {
	seeds(f)
	m := testMatcher(f, options())
	cut := testMatcher(f, options())
	cut.margin, cut.block = 2000, 200
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1500 {
			return
		}
		out := text(t, m, "a.txt", string(in))
		if again := text(t, m, "a.txt", out); again != out {
			t.Errorf("not the same twice:\n%q\n%q\n%q", in, out, again)
		}
		if got := text(t, cut, "a.txt", string(in)); got != out {
			t.Errorf("in pieces it is something else:\n%q\n%q\n%q", in, out, got)
		}
	})
}

// FuzzBoundaries compares with what is plain to see, in texts that have nothing
// but dotted numbers.
func FuzzBoundaries(f *testing.F) {
	for _, s := range []string{"10.202.0.1", "10.202.0.10", "110.202.0.1", "1.10.202.0.1", "10.202.0.1.1", "10.202.0.1..10.202.0.2 "} {
		f.Add([]byte(s))
	}
	m := testMatcher(f, options())
	f.Fuzz(func(t *testing.T, in []byte) {
		const letters = "0122..1 x/"
		var b strings.Builder
		for _, c := range in {
			switch {
			case c >= 0xf0:
				b.WriteString("10.202.0.1")
			case c >= 0xe0:
				b.WriteString("10.202.0.2")
			case strings.IndexByte(letters, c) >= 0:
				b.WriteByte(c)
			default:
				b.WriteByte(letters[int(c)%len(letters)])
			}
		}
		s := b.String()
		for _, other := range []string{"181010433", "181010434", "010.202.000.00", "012.0312.00.0", "0012.0312.0000."} {
			if strings.Contains(s, other) {
				return
			}
		}
		if got, want := text(t, m, "a.txt", s), naive(s); got != want {
			t.Errorf("%q\n got %q\nwant %q", s, got, want)
		}
	})
}
