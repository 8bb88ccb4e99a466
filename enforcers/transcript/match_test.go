package transcript

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

const (
	token  = "cc-sess-pQ7_x-0123456789abcdefABCDEF0123456789abcdefghi"
	apiKey = "sk-ant-api03-Zm9v/YmFy+x=="
	odd    = "pa\"ss\\wo\nrd&<x>" // a secret with everything that is escaped
)

func options() Options {
	return Options{
		Addresses: []netip.Addr{netip.MustParseAddr("10.202.0.1"), netip.MustParseAddr("10.202.0.2"), netip.MustParseAddr("fd00::1:2")},
		Tokens:    []string{"other-token-without-prefix"},
		Secrets:   []string{apiKey, odd},
	}
}

func testMatcher(t testing.TB, o Options) *matcher {
	t.Helper()
	tr, err := newTree(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr.m
}

// text scrubs in memory, as if it stood in a file of this name.
func text(t testing.TB, m *matcher, name, in string) string {
	t.Helper()
	tr := &tree{o: Options{Name: defaultName}, m: m}
	var out bytes.Buffer
	r := tr.rewriter(strings.NewReader(in), int64(len(in)), 0, name, func(off int64) (io.Writer, error) {
		out.WriteString(in[:off])
		return &out, nil
	})
	if err := r.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r.out == nil {
		return in
	}
	return out.String()
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

func TestBoundaries(t *testing.T) {
	m := testMatcher(t, options())
	const name, gone = defaultName, redacted
	tests := []struct{ in, want string }{
		// Dotted.
		{"10.202.0.1", name},
		{"http://10.202.0.1:3000/v1", "http://" + name + ":3000/v1"},
		{"10.202.0.1 and 10.202.0.2, 10.202.0.1.", name + " and " + name + ", " + name + "."},
		{"10.202.0.10", "10.202.0.10"},
		{"110.202.0.1", "110.202.0.1"},
		{"10.202.0.12 210.202.0.2", "10.202.0.12 210.202.0.2"},
		{"5.10.202.0.1", "5.10.202.0.1"},
		{"10.202.0.1.5", "10.202.0.1.5"},
		{"a.10.202.0.1.b", "a." + name + ".b"},
		{"v10.202.0.1x", "v" + name + "x"},
		{"10x202x0x1", "10x202x0x1"},
		{"10.202.0.3", "10.202.0.3"},
		{"10.202.0.1/30", name + "/30"},
		{"010.202.000.001", name},
		{"0xa.0xCA.0x0.0x1 012.0312.00.01", name + " " + name},
		{"1.0.202.10.in-addr.arpa", name},
		{"11.0.202.10.in-addr.arpa", "11.0.202.10.in-addr.arpa"},
		// Mapped.
		{"::ffff:10.202.0.1", name},
		{"[::FFFF:10.202.0.1]:80", "[" + name + "]:80"},
		{"0:0:0:0:0:ffff:10.202.0.1", name},
		{"0000:0000:0000:0000:0000:ffff:10.202.0.1", name},
		{"::ffff:10.202.0.10", "::ffff:10.202.0.10"},
		{"1::ffff:10.202.0.1", "1::ffff:" + name},
		{"::ffff:aca:1", name},
		{"[::ffff:0ACA:0001]", "[" + name + "]"},
		{"::ffff:aca:1:5 ::ffff:aca:10 1::ffff:aca:1 ::ffff:baca:1", "::ffff:aca:1:5 ::ffff:aca:10 1::ffff:aca:1 ::ffff:baca:1"},
		{"fd00::1:2 fd00::1:2:3 fd00::1:23 1fd00::1:2", name + " fd00::1:2:3 fd00::1:23 1fd00::1:2"},
		{"fd00:0000:0000:0000:0000:0000:0001:0002", name},
		// Hexadecimal, both byte orders.
		{"0x0aca0001 0xACA0001 0aca0001", name + " " + name + " " + name},
		{"0100CA0A:0BB8 0x100ca0a", name + ":0BB8 " + name},
		{"aca0001 10aca0001 0aca00010 xaca0001 0aca0001-dead f0aca0001", "aca0001 10aca0001 0aca00010 xaca0001 0aca0001-dead f0aca0001"},
		// Integer.
		{"ip 181010433, 181010434.", "ip " + name + ", " + name + "."},
		{"181010435 1181010433 1810104330 181010433.5 0.181010433 -181010433 181010433e3 1e+181010433", "181010435 1181010433 1810104330 181010433.5 0.181010433 -181010433 181010433e3 1e+181010433"},
		{"{a: [181010433, 2]}", "{a: [\"" + name + "\", 2]}"},
		// Base64, alone and within longer texts at every alignment.
		{b64("10.202.0.1"), name},
		{"CsoAAQ== CsoAAQ xCsoAAQ CsoAAQx", name + " " + name + " xCsoAAQ CsoAAQx"},
		{b64("10.202.0.10"), b64("10.202.0.10")},
		{b64("110.202.0.1"), b64("110.202.0.1")},
		{b64("x110.202.0.1"), b64("x110.202.0.1")},
		{b64("xy110.202.0.1"), b64("xy110.202.0.1")},
		{b64("x10.202.0.13"), b64("x10.202.0.13")},
		{b64("xy10.202.0.1.2"), b64("xy10.202.0.1.2")},
		{"(" + b64("x10.202.0.1 ")[2:14] + ")", "(" + name + ")"}, // a piece, cut off within groups
		{"(" + b64("x10.202.0.1")[1:] + ")", "(" + name + ")"},
		// Escaped.
		{"http%3A%2F%2F10%2E202%2e0%2E1%3A3000", "http%3A%2F%2F" + name + "%3A3000"},
		{"10%2E202%2E0%2E10", "10%2E202%2E0%2E10"},
		{"10%252E202%252E0%252E1", name},
		{"%31%30%2e%32%30%32%2e%30%2e%31", name},
		{"10.202.0.1%30 %3110.202.0.1", "10.202.0.1%30 %3110.202.0.1"},
		// Tokens and secrets.
		{"Bearer " + token + ".", "Bearer " + gone + "."},
		{"cc-sess- cc-sess-…", "cc-sess- cc-sess-…"},
		{"x-api-key: " + apiKey, "x-api-key: " + gone},
		{"other-token-without-prefix2", gone + "2"},
		{url.QueryEscape(apiKey), gone},
		{url.PathEscape(odd), gone},
		{odd, gone},
		{b64(odd), gone},
		{"{\"a\": \"" + quoted(odd) + "\"}", "{\"a\": \"" + gone + "\"}"},
		{quoted(quoted(odd)), gone},
		{quoted(quoted(quoted(odd))), gone},
		{"\x1b[01;31m\x1b[K0aca0001\x1b[m", "\x1b[01;31m\x1b[K" + name + "\x1b[m"},
		{"C:\\10.202.0.1", "C:\\" + name},
	}
	for _, tt := range tests {
		if got := text(t, m, "a.txt", tt.in); got != tt.want {
			t.Errorf("%q\n got %q\nwant %q", tt.in, got, tt.want)
		}
	}
}

func TestBase64AtEveryAlignment(t *testing.T) {
	m := testMatcher(t, options())
	for _, v := range []struct{ value, replacement string }{
		{"10.202.0.1", defaultName},
		{"10.202.0.2", defaultName},
		{token, redacted},
		{apiKey, redacted},
		{odd, redacted},
	} {
		for before := range 7 {
			for after := range 4 {
				whole := strings.Repeat("/", before) + v.value + strings.Repeat(" ", after)
				for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
					in := "x=\"" + enc.EncodeToString([]byte(whole)) + "\""
					got := text(t, m, "a.txt", in)
					if !strings.Contains(got, v.replacement) || len(got) > len(in)+len(v.replacement)-len(v.value) {
						t.Errorf("%q at %d, %d: %s became %s", v.value, before, after, in, got)
					}
					rest, err := enc.WithPadding(base64.NoPadding).DecodeString(strings.TrimLeft(got[3:], "")[:strings.Index(got[3:], v.replacement)/4*4])
					if err != nil || strings.Trim(string(rest), "/") != "" {
						t.Errorf("%q: what stood before it became %q (%v)", v.value, rest, err)
					}
				}
			}
		}
	}
}

// Each form of an escape, in JSON once and in JSON within JSON, at every
// character.
func TestEscapes(t *testing.T) {
	m := testMatcher(t, options())
	u := func(c byte) string {
		return "\\u00" + string("0123456789abcdef"[c>>4]) + string("0123456789ABCDEF"[c&15])
	}
	uu := func(c byte) string { return "\\" + u(c) }
	uuu := func(c byte) string { return "\\\\" + uu(c) }
	percent := func(c byte) string { return "%" + u(c)[4:] }
	for _, v := range []struct{ value, replacement string }{
		{"10.202.0.1", defaultName},
		{"::ffff:10.202.0.1", defaultName},
		{"0x0aca0001", defaultName},
		{"181010433", defaultName},
		{b64("10.202.0.1"), defaultName},
		{token, redacted},
		{apiKey, redacted},
	} {
		for _, esc := range []func(byte) string{u, uu, uuu, percent} {
			for i := range len(v.value) + 1 {
				escaped := ""
				for j := range len(v.value) {
					if c := v.value[j]; i == j || i == len(v.value) {
						escaped += esc(c)
					} else {
						escaped += string(c)
					}
				}
				in := `{"a":"é\u00e9\n` + escaped + `\t.","b":"` + escaped + `"}`
				want := `{"a":"é\u00e9\n` + v.replacement + `\t.","b":"` + v.replacement + `"}`
				if got := text(t, m, "a.jsonl", in); got != want {
					t.Fatalf("%q\n got %q\nwant %q", in, got, want)
				}
			}
		}
	}
}

func TestEscapesAreBoundaries(t *testing.T) {
	m := testMatcher(t, options())
	tests := []struct{ in, want string }{
		{`"\n10.202.0.1\t0aca0001\r\n181010433\n"`, `"\nproxy.internal\tproxy.internal\r\nproxy.internal\n"`},
		{`"\u001b[31m0aca0001\u001b[0m"`, `"\u001b[31mproxy.internal\u001b[0m"`},
		{`"10.202.0.1\u0030"`, `"10.202.0.1\u0030"`},
		{`"\u003110.202.0.1"`, `"\u003110.202.0.1"`},
		{`"10.202.0.1\\u0030"`, `"10.202.0.1\\u0030"`},
		{`"\u0031\u0031\u0030.202.0.1"`, `"\u0031\u0031\u0030.202.0.1"`},
		{`"\u0010.202.0.1"`, `"\u0010.202.0.1"`}, // not an address: U+0010 and a rest
		{`"\u00a110.202.0.1"`, `"\u00a1proxy.internal"`},
		{`"\u00310.202.0.1"`, `"proxy.internal"`},
		{`"\\10.202.0.1\\"`, `"\\proxy.internal\\"`},
		{`"\ncc-sess-aaaaaaaaaaaaaaa\n"`, `"\n[redacted]\n"`},
		{`"\u0062ca0001"`, `"\u0062ca0001"`},
	}
	for _, tt := range tests {
		if got := text(t, m, "a.jsonl", tt.in); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

// What gives way is no neighbour: else a second run would find what the first
// did not.
func TestNeighboursThatGiveWay(t *testing.T) {
	m := testMatcher(t, Options{Secrets: []string{"5secret-value", "value-ends-in-5", "key-10.202.0.1-end"}, Addresses: []netip.Addr{netip.MustParseAddr("10.202.0.1")}})
	for in, want := range map[string]string{
		"10.202.0.15secret-value":          "proxy.internal[redacted]",
		"10.202.0.1.5secret-value":         "proxy.internal.[redacted]",
		"value-ends-in-510.202.0.1":        "[redacted]proxy.internal",
		"value-ends-in-5.10.202.0.1":       "[redacted].proxy.internal",
		"value-ends-in-50x0aca0001":        "[redacted]proxy.internal",
		"cc-sess-::ffff:aca:1":             "[redacted]proxy.internal",
		"key-10.202.0.1-end10.202.0.1":     "[redacted]proxy.internal",
		"[::ffff:10.202.0.15secret-value]": "[proxy.internal[redacted]]",
		"cc-sess-key-10.202.0.1-end":       "[redacted]",
		"10.202.0.15secret-valu":           "10.202.0.15secret-valu",
		"181010433value-ends-in-5":         "proxy.internal[redacted]",
		"10.202.0.1\\u0035secret-value":    "proxy.internal[redacted]",
	} {
		if got := text(t, m, "a.txt", in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// The edges of what is decoded around an escape are no boundaries.
func TestWindowsAreNoBoundaries(t *testing.T) {
	m := testMatcher(t, options())
	for d := -40; d < 40; d++ {
		fill := strings.Repeat("x", m.window+d)
		for _, in := range []string{"110.202.0.1" + fill + `\u0031`, `\u0031` + fill + "10.202.0.10"} {
			if got := text(t, m, "a.jsonl", in); got != in {
				t.Fatalf("%d: %q became %q", d, in, got)
			}
		}
	}
}

// An escape whose letter begins a value goes with it: half of one is no JSON.
func TestNoHalfEscape(t *testing.T) {
	m := testMatcher(t, Options{Secrets: []string{"needle-secret", `\back\`, "31secret-x"}, Addresses: []netip.Addr{netip.MustParseAddr("240.1.2.3")}})
	for _, tt := range []struct{ in, want string }{
		{`"a\needle-secret"`, `"a[redacted]"`},
		{`"a\\needle-secret"`, `"a\\[redacted]"`},
		{`"\f0010203"`, `"proxy.internal"`},
		{`"x\\back\\"`, `"x[redacted]"`},
		{`"\u0031secret-x"`, `"\u0031secret-x"`},
	} {
		got := text(t, m, "a.jsonl", tt.in)
		if !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", tt.in, got)
		}
		if tt.in != `"\f0010203"` && got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

// A secret that holds JSON's own characters is not looked for as it is where
// it would be JSON and no secret.
func TestSecretOfJSONsCharacters(t *testing.T) {
	m := testMatcher(t, Options{Secrets: []string{`xx","yy`, "two\nlines"}})
	for in, want := range map[string]string{
		`["xx","yy"]`:        `["xx","yy"]`,
		`["xx\",\"yy"]`:      `["[redacted]"]`,
		`["two\nlines"]`:     `["[redacted]"]`,
		"[\"two\nlines\"]\n": "[\"two\nlines\"]\n",
	} {
		if got := text(t, m, "a.jsonl", in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := text(t, m, "a.txt", "two\nlines"); got != redacted {
		t.Errorf("became %q", got)
	}
}
