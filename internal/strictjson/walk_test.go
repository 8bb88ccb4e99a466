package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
		if p.Is("a", "[]", "bA") && string(v.Text()) != "x\n" {
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
	var kept Walker
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
		if again := kept.Walk(text, visitFunc(quiet)); fmt.Sprint(again) != fmt.Sprint(err) || !reflect.DeepEqual(kept, Walker{}) {
			t.Errorf("%q: %v, and %v after others, of which it keeps %+v", text, err, again, kept)
		}
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

// Of a text nothing is kept, be it accepted or not, nor of a visitor.
func TestWalkerKeepsNothing(t *testing.T) {
	enough := errors.New("enough")
	deep := strings.Repeat(`{"some":[`, 20)
	wide := "{"
	for i := range 40 {
		wide += fmt.Sprintf(`"k%d":{"a":%d},`, i, i)
	}
	var w Walker
	for _, text := range []string{
		`{"a":[1,{"b\u0041":"x\n"}],"":null}`, `{"a":{"b":1,"c":`, `{"a":1,"a":2}`, deep + strings.Repeat("]}", 20), deep, deep[1:],
		wide + `"k3":0}`, wide + `"k40":0}`, wide, ``, `1`, `{"a":{"b":{"stop":0}}}`,
	} {
		visit := visitFunc(func(p Path, _ Value) error {
			if p.Ends("stop") {
				return enough
			}
			return nil
		})
		want := Walk([]byte(text), visit)
		if err := w.Walk([]byte(text), visit); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%q after others: %v, want %v", text, err, want)
		}
		if !reflect.DeepEqual(w, Walker{}) {
			t.Errorf("%q: it keeps %+v", text, w)
		}
	}
}

// What plain passes over needs no look, and it stops where one is needed first.
func TestPlain(t *testing.T) {
	odd := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c >= 0x80 }
	for first := range 256 {
		for at := range 20 {
			for second := range 256 {
				text := []byte("plain as can be, all of it")
				text[at], text[at+1] = byte(first), byte(second)
				want := slices.IndexFunc(text, odd)
				if want < 0 || want >= len(text)/8*8 {
					want = len(text) / 8 * 8
				}
				if got := plain(text); got != want {
					t.Fatalf("%q: %d, want %d", text, got, want)
				}
			}
		}
	}
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

// BenchmarkWalkShort is what a small request or an event takes.
func BenchmarkWalkShort(b *testing.B) {
	text := []byte(`{"model":"claude-test-1","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`)
	var w Walker
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Walk(text, visitFunc(quiet)); err != nil {
			b.Fatal(err)
		}
	}
}
