package stricthttp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
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
