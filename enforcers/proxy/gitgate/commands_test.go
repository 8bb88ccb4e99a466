package gitgate

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

const (
	oid1 = "1111111111111111111111111111111111111111"
	oid2 = "2222222222222222222222222222222222222222"
)

func lines(texts ...string) string {
	var b []byte
	for _, t := range texts {
		b = packet(b, t)
	}
	return string(b) + flushPacket
}

func TestReadCommands(t *testing.T) {
	one := oid1 + " " + oid2 + " refs/heads/agent/x"
	for name, tt := range map[string]struct {
		text string
		refs string // "" for an error
	}{
		"one":               {lines(one + "\x00 report-status side-band-64k"), "refs/heads/agent/x"},
		"without a newline": {lines(one), "refs/heads/agent/x"},
		"with one":          {lines(one + "\n"), "refs/heads/agent/x"},
		"two":               {lines(one+"\x00x\n", oid1+" "+oid2+" refs/heads/b\n"), "refs/heads/agent/x refs/heads/b"},
		"shallow":           {lines("shallow "+oid1, one), "refs/heads/agent/x"},
		"SHA-256":           {lines(strings.Repeat("1", 64) + " " + strings.Repeat("2", 64) + " refs/heads/b"), "refs/heads/b"},
		"no flush":          {strings.TrimSuffix(lines(one), flushPacket), ""},
		"cut":               {lines(one)[:20], ""},
		"delimiter":         {strings.TrimSuffix(lines(one), flushPacket) + "0001" + lines(one), ""},
		"response's end":    {strings.TrimSuffix(lines(one), flushPacket) + "0002" + flushPacket, ""},
		"three":             {"0003" + flushPacket, ""},
		"empty line":        {"0004" + lines(one), ""},
		"sign":              {"+03c" + one + flushPacket, ""},
		"too long":          {"fff1" + strings.Repeat("a", 0xfff1-4) + flushPacket, ""},
		"two newlines":      {lines(one + "\n\n"), ""},
		"newline within":    {lines(one + "\n" + oid1 + " " + oid2 + " refs/heads/main"), ""},
		"NUL later":         {lines(one, oid1+" "+oid2+" refs/heads/b\x00x"), ""},
		"twice":             {lines(one, one), ""},
		"certificate":       {lines("push-cert\x00 report-status"), ""},
		"no ref":            {lines(oid1 + " " + oid2 + " HEAD"), ""},
		"dots":              {lines(oid1 + " " + oid2 + " refs/heads/agent/../main"), ""},
		"two slashes":       {lines(oid1 + " " + oid2 + " refs/heads/agent//x"), ""},
		"slash at the end":  {lines(oid1 + " " + oid2 + " refs/heads/agent/"), ""},
		"lock":              {lines(oid1 + " " + oid2 + " refs/heads/agent/x.lock"), ""},
		"space":             {lines(oid1 + " " + oid2 + " refs/heads/agent/x refs/heads/main"), ""},
		"two spaces":        {lines(oid1 + "  " + oid2 + " refs/heads/b"), ""},
		"mixed ids":         {lines(oid1 + " " + strings.Repeat("2", 64) + " refs/heads/b"), ""},
		"no id":             {lines("x " + oid2 + " refs/heads/b"), ""},
		"shallow later":     {lines(one, "shallow "+oid1), ""},
	} {
		from := strings.NewReader(tt.text + "PACK")
		c, err := readCommands(from)
		if got := strings.Join(c.refs, " "); got != tt.refs || (err == nil) != (tt.refs != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil {
			continue
		}
		if rest, _ := io.ReadAll(from); string(rest) != "PACK" || string(c.raw) != tt.text {
			t.Errorf("%s: %q is left, %q taken", name, rest, c.raw)
		}
	}
}

func TestCommandsAreBounded(t *testing.T) {
	long := strings.Repeat(string(packet(nil, "shallow "+oid1)), maxCommands/52+1)
	if _, err := readCommands(strings.NewReader(long + flushPacket)); err == nil {
		t.Error("no bound")
	}
}

// What goes on is what was read, whatever came: a ref that no pattern has is
// never in it.
func FuzzReadCommands(f *testing.F) {
	f.Add(lines(oid1 + " " + oid2 + " refs/heads/agent/x\x00 report-status"))
	f.Add("0000")
	f.Add("0001" + lines("push-cert\x00"))
	g := specs.Git{Push: []string{"refs/heads/agent/*"}}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := readCommands(strings.NewReader(text))
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, string(c.raw)) || !bytes.HasSuffix(c.raw, []byte(flushPacket)) {
			t.Errorf("%q of %q", c.raw, text)
		}
		allowed := true
		for _, ref := range c.refs {
			allowed = allowed && g.Pushes(ref)
		}
		if allowed && strings.Contains(string(c.raw), " refs/heads/main") && !strings.Contains(string(c.raw), "\x00") {
			t.Errorf("%q goes on", c.raw)
		}
	})
}

func compressed(t *testing.T, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompressedCommandsAreRead(t *testing.T) {
	r := newRig(t)
	zeros, tip := strings.Repeat("0", 40), r.at("refs/heads/trunk")
	r.git(r.dir+"/srv/u/shop.git", "branch", "wip", "trunk")
	gone := compressed(t, lines(tip+" "+zeros+" refs/heads/wip\x00 report-status delete-refs"))
	status, body := r.do("POST", r.path("/git-receive-pack"), gone, "Content-Type", pushType, "Content-Encoding", "gzip")
	if status != http.StatusOK || !strings.Contains(body, "ok refs/heads/wip") || r.at("refs/heads/wip") != "" {
		t.Errorf("a deletion: %d %q", status, body)
	}
	b := compressed(t, lines(zeros+" "+tip+" refs/heads/main\x00 report-status"))
	status, body = r.do("POST", r.path("/git-receive-pack"), b, "Content-Type", pushType, "Content-Encoding", "gzip")
	if status != http.StatusOK || !strings.Contains(body, "ng refs/heads/main cordon: not among") {
		t.Errorf("%d %q", status, body)
	}
	status, _ = r.do("POST", r.path("/git-receive-pack"), b, "Content-Type", pushType, "Content-Encoding", "deflate")
	if status != http.StatusUnsupportedMediaType || r.at("refs/heads/main") != "" {
		t.Errorf("another encoding: %d", status)
	}
}

func TestMask(t *testing.T) {
	const text = "a secret-one b secret-on c secret-secret-one secret-o"
	want := strings.ReplaceAll(text, "secret-one", "xxxxxxxxxx")
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		m := newMask(&b, []string{"secret-one", "short", ""})
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := m.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := m.flush(); err != nil || b.String() != want {
			t.Errorf("by %d: %q", size, b.String())
		}
	}
}
