package stricthttp

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

func TestHead(t *testing.T) {
	const ok = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"two requests", ok + ok, nil},
		{"a body that looks like a request", "POST /a?b HTTP/1.1\r\nContent-Length: 7\r\n\r\nGET / \n" + ok, nil},
		{"chunked", "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n0\n\nanything", nil},
		{"empty body", "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + ok, nil},
		{"bare LF", "GET / HTTP/1.1\nHost: x\n\n", errLineEnd},
		{"bare LF between headers", "GET / HTTP/1.1\r\nA: b\nContent-Length: 3\r\n\r\n", errLineEnd},
		{"bare CR", "GET / HTTP/1.1\r\nA: b\rContent-Length: 3\r\n\r\n", errLineEnd},
		{"NUL", "GET / HTTP/1.1\r\nA: \x00\r\n\r\n", errLineEnd},
		{"empty line first", "\r\n" + ok, errRequestLine},
		{"obs-fold", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", errFolded},
		{"obs-fold of the first", "GET / HTTP/1.1\r\n\tA: b\r\n\r\n", errFolded},
		{"both lengths", "POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", errBothLengths},
		{"both lengths, turned", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", errBothLengths},
		{"length twice", "POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n", errContentLength},
		{"length in small letters", "POST / HTTP/1.1\r\ncontent-length: 4, 4\r\n\r\n", errContentLength},
		{"length list", "POST / HTTP/1.1\r\nContent-Length: 4, 4\r\n\r\n", errContentLength},
		{"length signed", "POST / HTTP/1.1\r\nContent-Length: +4\r\n\r\n", errContentLength},
		{"length empty", "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", errContentLength},
		{"length with blanks around", "POST / HTTP/1.1\r\nContent-Length:\t 4 \t\r\n\r\nabcd" + ok, nil},
		{"length with a blank inside", "POST / HTTP/1.1\r\nContent-Length: 4 4\r\n\r\n", errContentLength},
		{"length of 63 bits", "POST / HTTP/1.1\r\nContent-Length: 9223372036854775807\r\n\r\n", nil},
		{"length of 64 bits", "POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n\r\n", errContentLength},
		{"length beyond 63 bits", "POST / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n", errContentLength},
		{"encoding list", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", errEncoding},
		{"encoding twice", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", errEncoding},
		{"encoding identity", "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", errEncoding},
		{"encoding by vertical tab", "POST / HTTP/1.1\r\nTransfer-Encoding: \vchunked\r\n\r\n", errEncoding},
		{"absolute form", "GET http://x/ HTTP/1.1\r\n\r\n", errRequestLine},
		{"authority form", "CONNECT x:443 HTTP/1.1\r\n\r\n", errRequestLine},
		{"asterisk", "OPTIONS * HTTP/1.1\r\n\r\n", errRequestLine},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", errRequestLine},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\n", errRequestLine},
		{"HTTP/0.9", "GET /\r\n", errRequestLine},
		{"two spaces", "GET  / HTTP/1.1\r\n\r\n", errRequestLine},
		{"a tab", "GET\t/ HTTP/1.1\r\n\r\n", errRequestLine},
		{"a space in the target", "GET /a b HTTP/1.1\r\n\r\n", errRequestLine},
		{"a byte above 127", "GET /\xe4 HTTP/1.1\r\n\r\n", errRequestLine},
		{"lower case method", "get / HTTP/1.1\r\n\r\n", errRequestLine},
		{"long line", "GET /" + strings.Repeat("a", maxLine), errLineLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var whole head
			if err := whole.feed([]byte(tt.text)); !errors.Is(err, tt.want) {
				t.Errorf("at once: %v, want %v", err, tt.want)
			}
			if err := byByte(tt.text); !errors.Is(err, tt.want) {
				t.Errorf("byte by byte: %v, want %v", err, tt.want)
			}
		})
	}
}

// A number is what [strconv.ParseUint] takes for one of 63 bits.
func TestNumber(t *testing.T) {
	for _, text := range []string{"", "0", "007", "42", "4a", "/", ":", "-1", "+1", "\xb0", "9223372036854775807", "9223372036854775808", "9223372036854775810", "18446744073709551617", "00000000000000000000000001"} {
		want, err := strconv.ParseUint(text, 10, 63)
		if got, ok := number([]byte(text)); ok != (err == nil) || ok && got != int64(want) {
			t.Errorf("%q: %d %v, want %d %v", text, got, ok, want, err)
		}
	}
}

func byByte(text string) error {
	var h head
	for i := range len(text) {
		if err := h.feed([]byte{text[i]}); err != nil {
			return err
		}
	}
	return nil
}

// How a text is cut into reads changes nothing, and a refused one never has
// two framings.
func FuzzHead(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", 7)
	f.Add("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET", 20)
	f.Add("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 40)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var whole, parts head
		want := whole.feed([]byte(text))
		cut = max(0, min(cut, len(text)))
		got := parts.feed([]byte(text[:cut]))
		if got == nil {
			got = parts.feed([]byte(text[cut:]))
		}
		if (got == nil) != (want == nil) || want == nil && (whole.body != parts.body || whole.through != parts.through || whole.inHead != parts.inHead) {
			t.Errorf("%q cut at %d: %v %+v, at once: %v %+v", text, cut, got, parts, want, whole)
		}
		if len(whole.line) > maxLine {
			t.Errorf("%d bytes kept", len(whole.line))
		}
	})
}
