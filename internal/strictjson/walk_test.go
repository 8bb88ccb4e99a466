package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func quiet(Path, Value) error { return nil }

func TestWalkVisits(t *testing.T) {
	var got []string
	err := Walk([]byte(` {"a":[1,{"b\u0041":"x\n"}],"":null, "t":true} `), func(p Path, v Value) error {
		var names []string
		for _, e := range p {
			if e == nil {
				names = append(names, "[]")
				continue
			}
			names = append(names, string(e))
		}
		got = append(got, fmt.Sprintf("%s=%s", strings.Join(names, "."), v.Raw))
		if p.Is("a", "[]", "bA") && v.Text() != "x\n" {
			t.Errorf("text is %q", v.Text())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `a.[]=1|a.[].bA="x\n"|a.[]={"b\u0041":"x\n"}|a=[1,{"b\u0041":"x\n"}]|=null|t=true|` + `={"a":[1,{"b\u0041":"x\n"}],"":null, "t":true}`
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

func TestPath(t *testing.T) {
	p := Path{[]byte("a"), nil, []byte("[]")}
	if p.Is("a", "[]", "[]") { // an element is not a member called []
		t.Error("a member called [] passes as an element")
	}
	if !p.Begins("a", "[]") || p.Begins("a", "x") || !p.Ends() || p[:2].Is("a") || !p[:2].Ends("[]") {
		t.Error("wrong")
	}
}

func TestWalkRefuses(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `[`, `]`, `"`, `"a`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `1 2`, `{}{}`, `nul`, `True`,
		`01`, `+1`, `.5`, `1.`, `1e`, `-`, `0x1`, `NaN`, `Infinity`, `{a:1}`, `'a'`, `// x`, "\xef\xbb\xbf{}",
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `[{"x":{"b":1,"b":1}}]`, `{"model":"x","mode\u006c":"y"}`,
		"\"\xff\"", "\"\xc0\xaf\"", `"\ud800"`, `"\udc00"`, `"\ud800\u0041"`, `"\ud800x"`, `"\u12G4"`, `"\u00:0"`, `"\x41"`, "\"\t\"", "\"\x00\"", "{}\x00",
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	} {
		if err := Walk([]byte(text), quiet); err == nil {
			t.Errorf("accepted %q", text)
		}
	}
	many := "{"
	for i := range 40 {
		many += fmt.Sprintf(`"k%d":0,`, i)
	}
	if err := Walk([]byte(many+`"k40":0}`), quiet); err != nil {
		t.Error(err)
	}
	if err := Walk([]byte(many+`"k3":0}`), quiet); err == nil {
		t.Error("the one of many is accepted twice")
	}
	if err := Walk([]byte(`"\ud83d\ude00"`), quiet); err != nil {
		t.Error(err)
	}
}

// Whatever Walk accepts, encoding/json does; what it refuses beyond that is
// one of the things readers disagree on.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e-3,"x\u00e9",null]}`, `{"a":1,"a":2}`, `[[[]]]`, `"\ud800"`, `-0`, "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		values := 0
		err := Walk(text, func(_ Path, v Value) error {
			values++
			if !json.Valid(v.Raw) {
				t.Errorf("value %q", v.Raw)
			}
			_ = v.Text()
			return nil
		})
		valid := json.Valid(text)
		if err == nil && (!valid || values == 0) {
			t.Errorf("accepted %q", text)
		}
		excused := err != nil && (strings.Contains(err.Error(), "twice") || strings.Contains(err.Error(), "UTF-8") ||
			strings.Contains(err.Error(), "surrogate") || strings.Contains(err.Error(), "deeper"))
		if err != nil && valid && !excused {
			t.Errorf("refused %q: %v", text, err)
		}
	})
}

func BenchmarkWalk(b *testing.B) {
	text := []byte(`{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":[{"type":"text","text":"`+strings.Repeat("some words ", 40)+`"}]},`, 170) + `{}]}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Walk(bytes.Clone(text), quiet); err != nil {
			b.Fatal(err)
		}
	}
}
