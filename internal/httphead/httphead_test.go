package httphead

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
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
		{CRLF, "a\r\n\nb\r\n\r\nrest", "", ErrLineEnd, ""},
		{CRLF, "a\nb: c\n\n", "", ErrLineEnd, ""}, // it does not wait for more
		{CRLF, "\n", "", ErrLineEnd, ""},
		{CRLF, strings.Repeat("a", 15) + "\r\n\r\nrest", strings.Repeat("a", 15) + "\r\n", nil, "rest"}, // CR is the last that the buffer holds
		{CRLF, strings.Repeat("a", 16) + "\r\n\r\nrest", strings.Repeat("a", 16) + "\r\n", nil, "rest"}, // LF is the next
		{LF, "a\r\n\nb\r\n\r\nrest", "a\r\n", nil, "b\r\n\r\nrest"},
		{LF, "a\nb: c\n\r\nrest", "a\nb: c\n", nil, "rest"},
		{CRLF, "\r\nrest", "", nil, "rest"},
		{CRLF, "", "", io.EOF, ""},
		{CRLF, "a\r\n", "", io.ErrUnexpectedEOF, ""},
		{CRLF, strings.Repeat("a", 99) + "\r\n\r\n", "", ErrTooLong, ""},
	} {
		in := bufio.NewReaderSize(&Limited{In: strings.NewReader(tt.text), Left: 50}, 16)
		got, err := tt.lines.Read(in, nil)
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
		header, err := tt.lines.Fields(nil, tt.text)
		if tt.says == "" {
			if err != nil || !slices.Equal(header, Header{{"A", "1"}, {"A", "2"}}) {
				t.Errorf("%q: %v, %v", tt.text, header, err)
			}
		} else if err == nil || err.Error() != tt.says {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
}

// What is known of a header is known of each of its lines, and of no other.
func TestHeader(t *testing.T) {
	var room Room
	text := "a: 1\r\nb-c:2\r\nA:3\r\nD:\r\n"
	h, err := CRLF.Fields(room[:0], text)
	if err != nil || &h[0] != &room[0] {
		t.Fatalf("%q %v", h, err)
	}
	for _, tt := range []struct {
		name string
		all  []string
	}{{"A", []string{"1", "3"}}, {"B-C", []string{"2"}}, {"D", []string{""}}, {"B", nil}, {"a", nil}, {"", nil}} {
		if got := slices.Collect(h.All(tt.name)); !slices.Equal(got, tt.all) {
			t.Errorf("%q: %q", tt.name, got)
		}
		if first := append(tt.all, "")[0]; h.Get(tt.name) != first {
			t.Errorf("%q: %q, want %q", tt.name, h.Get(tt.name), first)
		}
	}
	if got := h.Standard(); !maps.EqualFunc(got, http.Header{"A": {"1", "3"}, "B-C": {"2"}, "D": {""}}, slices.Equal) {
		t.Errorf("%q", got)
	}
}

// A head of thousands of fields takes room for them once.
func TestManyFields(t *testing.T) {
	const fields = 16_000
	text := strings.Repeat("A:\r\n", fields)
	var room Room
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	header, err := CRLF.Fields(room[:0], text)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 40*fields {
		t.Errorf("%d bytes for %d fields", taken, fields)
	}
	if err != nil || len(header) != fields {
		t.Errorf("%d fields, %v", len(header), err)
	}
}
