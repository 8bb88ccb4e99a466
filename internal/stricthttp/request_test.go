package stricthttp

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/aicodesit/cordon/internal/httphead"
)

// A head is the same however long its lines are and however it comes.
func TestLongHead(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%d %d %d", len(r.Header), len(r.Header.Get("A")), len(r.Header.Get("B")))
	}, nil)
	value := strings.Repeat("v", 3*bufferSize)
	for _, ends := range []int{bufferSize - 1, bufferSize, bufferSize + 1} { // where the buffer does, or a byte before or after it
		first := "GET /a HTTP/1.1\r\nHost: x\r\nB: "
		fill := strings.Repeat("b", ends-len(first)-len("\r\n"))
		v.dial()
		v.send(first + fill + "\r\nA: " + value + "\r\n\r\n" + get)
		for _, want := range []string{fmt.Sprint(2, " ", len(value), " ", len(fill)), "0 0 0"} {
			if _, body := v.answer("GET"); body != want {
				t.Errorf("%d: %q, want %q", ends, body, want)
			}
		}
	}
	for _, b := range []byte("GET /a HTTP/1.1\r\nHost: x\r\nA: abc\r\n\r\n") {
		v.send(string(b))
	}
	if _, body := v.answer("GET"); body != "1 3 0" {
		t.Errorf("byte by byte: %q", body)
	}
}

// FuzzFields reads a head as net/textproto does, or refuses it.
func FuzzFields(f *testing.F) {
	for _, text := range []string{
		"Host: x\r\n", "a: 1\r\nA: 2\r\nb:\r\n", "x-api-key:  k \t\r\n", "A : b\r\n", "A\r\n", ": b\r\n", "A: \x01\r\n", "A:b:c\r\n", "A: \x80\r\n", "", "é: a\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text, _, _ = strings.Cut(text+"\r\n", "\r\n\r\n") // what follows is no header
		if text = strings.TrimSuffix(text, "\r\n"); text != "" {
			text += "\r\n"
		}
		want, wrong := textproto.NewReader(bufio.NewReader(strings.NewReader(text + "\r\n"))).ReadMIMEHeader()
		fields, bad := httphead.CRLF.Fields(nil, text)
		if bad != nil {
			return
		}
		got := fields.Standard()
		if wrong != nil || !maps.EqualFunc(got, http.Header(want), slices.Equal) {
			t.Errorf("%q: %q, net/textproto has %q %v", text, got, want, wrong)
		}
		for name, values := range got {
			if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) || slices.ContainsFunc(values, func(v string) bool { return strings.Trim(v, " \t") != v }) {
				t.Errorf("%q: %q %q", text, name, values)
			}
		}
	})
}
