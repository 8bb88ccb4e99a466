package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func framed(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	must(t, writeFrame(&buf, request{Version: 1, Kind: "a"}))
	must(t, writeFrame(&buf, request{Version: 2, Kind: "b"}))
	for _, want := range []string{"a", "b"} {
		var q request
		must(t, readFrame(&buf, maxRequest, &q))
		if q.Kind != want {
			t.Errorf("%q, want %q", q.Kind, want)
		}
	}
	if err := readFrame(&buf, maxRequest, &request{}); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestBadFrames(t *testing.T) {
	for name, in := range map[string]string{
		"a short header":    "\x00\x00",
		"a short body":      string(framed(`{"kind":"ps"}`)[:10]),
		"too long":          "\xff\xff\xff\xff{}",
		"nothing":           string(framed("")),
		"no JSON":           string(framed("GET / HTTP/1.1")),
		"two values":        string(framed(`{"kind":"a"}{"kind":"b"}`)),
		"a name twice":      string(framed(`{"kind":"a","kind":"b"}`)),
		"an unknown name":   string(framed(`{"kind":"a","root":true}`)),
		"a wrong type":      string(framed(`{"kind":1}`)),
		"not UTF-8":         string(framed("{\"kind\":\"\xff\"}")),
		"a list":            string(framed(`[]`)),
		"a bottomless list": string(framed(`{"body":` + strings.Repeat("[", 8000) + `}`)),
	} {
		if err := readFrame(strings.NewReader(in), maxRequest, &request{}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// FuzzFrame: whatever comes is refused or is what it says, and no more than
// one frame is taken.
func FuzzFrame(f *testing.F) {
	f.Add(framed(`{"version":1,"kind":"run","body":{"project":"p","sandbox":"s"}}`))
	f.Add([]byte("\x00\x00\x10\x00{"))
	f.Add(framed(`{"command":["eA=="],"environ":[null]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var q request
		if err := readFrame(r, maxRequest, &q); err != nil {
			return
		}
		if n := int(binary.BigEndian.Uint32(in)); len(in)-r.Len() != headerLen+n {
			t.Errorf("took %d bytes of a frame of %d", len(in)-r.Len(), n)
		}
		for _, v := range []any{&runRequest{}, &begin{}, &signalMessage{}, &stopRequest{}} {
			_ = decode(q.Body, v)
		}
	})
}
