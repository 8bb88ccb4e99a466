package httphead

import (
	"bufio"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

func TestHead(t *testing.T) {
	for _, tt := range []struct {
		lines      Lines
		text, want string
		fails      error
		left       string
	}{
		{CRLF, "a\r\nb: c\r\n\r\nrest", "a\r\nb: c\r\n", nil, "rest"},
		{CRLF, "a\r\n\nb\r\n\r\nrest", "a\r\n\nb\r\n", nil, "rest"}, // LF alone ends nothing
		{LF, "a\r\n\nb\r\n\r\nrest", "a\r\n", nil, "b\r\n\r\nrest"},
		{LF, "a\nb: c\n\r\nrest", "a\nb: c\n", nil, "rest"},
		{CRLF, "\r\nrest", "", nil, "rest"},
		{CRLF, "", "", io.EOF, ""},
		{CRLF, "a\r\n", "", io.ErrUnexpectedEOF, ""},
		{CRLF, strings.Repeat("a", 99) + "\r\n\r\n", "", ErrTooLong, ""},
	} {
		in := bufio.NewReaderSize(&Limited{In: strings.NewReader(tt.text), Left: 50}, 16)
		got, err := tt.lines.Read(in)
		if got != tt.want || err != tt.fails {
			t.Errorf("%q: %q, %v", tt.text, got, err)
		}
		if rest, _ := io.ReadAll(in); err == nil && string(rest) != tt.left {
			t.Errorf("%q: it leaves %q", tt.text, rest)
		}
	}
}

func TestFields(t *testing.T) {
	for _, tt := range []struct {
		lines Lines
		text  string
		says  string
	}{
		{CRLF, "a: 1\r\nA:2\r\n", ""},
		{LF, "a: 1\nA:2\r\n", ""},
		{CRLF, "a: 1\nA:2\r\n", "a header's value is malformed"},
		{CRLF, "a\r\n", "a header is malformed"},
		{LF, "a b: c\n", "a header's name is malformed"},
		{LF, "a: \x00\n", "a header's value is malformed"},
	} {
		header := http.Header{}
		err := tt.lines.Fields(header, tt.text, nil)
		if tt.says == "" {
			if err != nil || strings.Join(header["A"], ",") != "1,2" {
				t.Errorf("%q: %v, %v", tt.text, header, err)
			}
		} else if err == nil || err.Error() != tt.says {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

// A head whose thousands of fields have one name takes room for their values, but
// not for as many names.
func TestEqualNames(t *testing.T) {
	const fields = 16_000
	text := strings.Repeat("A:\r\n", fields)
	var before, after runtime.MemStats
	var room Room
	header := NewHeader()
	runtime.ReadMemStats(&before)
	values := room.For(&header, text)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 32*fields {
		t.Errorf("%d bytes for %d fields", taken, fields)
	}
	if err := CRLF.Fields(header, text, values); err != nil || len(header["A"]) != fields {
		t.Errorf("%d values, %v", len(header["A"]), err)
	}
}
