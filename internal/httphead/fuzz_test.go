package httphead

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/net/http/httpguts"
)

// plainly is Fields, one step after the other.
func plainly(l Lines, text string) (header Header, err error) {
	for text != "" {
		var line string
		line, text = l.Cut(text)
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch {
		case !ok:
			return nil, errors.New("a header is malformed")
		case !httpguts.ValidHeaderFieldName(name):
			return nil, errors.New("a header's name is malformed")
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, errors.New("a header's value is malformed")
		}
		header = append(header, Field{http.CanonicalHeaderKey(name), value})
	}
	return header, nil
}

// FuzzFields reads the same fields in one pass as step by step, or says the same.
func FuzzFields(f *testing.F) {
	for _, text := range []string{
		"Host: x\r\n", "a: 1\r\nA: 2\r\nb:\r\n", "x-api-key:  k \t\r\n", "A : b\r\n", "A\r\n", ": b\r\n", "A: \x01\r\n", "A:b:c\r\n", "A: \x80\r\n",
		"é: a\r\n", "A\r: b\r\n", "A: b\r\r\n", "a: b\nc: d\n", "\r\n", "\n", "A: \t\r\n", "A-b_C~|: d\r\n", "A\x7f: b\r\n", "a-BC--dE-: 1\r\n" + strings.Repeat("long-NAME: v\r\nhost: x\r\n-a: b\r\n", 40), "A: b\x7f\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range []Lines{CRLF, LF} {
			text := text + string(l)
			want, wrong := plainly(l, text)
			got, bad := l.Fields(nil, text)
			switch {
			case wrong != nil && bad != nil && wrong.Error() == bad.Error():
			case wrong != nil || bad != nil || !slices.Equal(got, want):
				t.Errorf("%q: %q %v, want %q %v", text, got, bad, want, wrong)
			}
		}
	})
}

// FuzzRead reads the same head from a buffer that holds it whole as from one
// that never does, and as one that comes byte by byte.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"a\r\nb: c\r\n\r\nrest", "a\r\n\nb\r\n\r\nrest", "a\nb: c\n\r\nrest", "\r\nrest", "\nrest", "", "a\r\n", "\r", "a\n\r", strings.Repeat("a", 40) + "\r\n\r\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range []Lines{CRLF, LF} {
			ins := []*bufio.Reader{
				bufio.NewReaderSize(strings.NewReader(text), len(text)+16),
				bufio.NewReaderSize(strings.NewReader(text), 16),
				bufio.NewReader(iotest.OneByteReader(strings.NewReader(text))),
			}
			for i, in := range ins {
				got, err := l.Read(in, nil)
				rest, _ := io.ReadAll(in)
				plain := bufio.NewReader(strings.NewReader(text))
				want, wrong := l.gather(plain, nil)
				left, _ := io.ReadAll(plain)
				if got != want || err != wrong || err == nil && string(rest) != string(left) {
					t.Errorf("%q, reader %d: %q %v leaves %q, want %q %v and %q", text, i, got, err, rest, want, wrong, left)
				}
			}
		}
	})
}

// The fields of two clients, of which one sends names that are canonical.
func BenchmarkFields(b *testing.B) {
	for name, text := range map[string]string{
		"canonical": "Host: 10.11.12.13:8080\r\nContent-Type: application/json\r\n" +
			"X-Api-Key: cordon-0123456789abcdef0123456789abcdef0123456789abcdef\r\nAnthropic-Version: 2023-06-01\r\nContent-Length: 2\r\n",
		"small": "connection: keep-alive\r\naccept: application/json\r\nx-stainless-retry-count: 0\r\nx-stainless-timeout: 600\r\n" +
			"x-stainless-lang: js\r\nx-stainless-package-version: 0.60.0\r\nx-stainless-os: Linux\r\nx-stainless-arch: x64\r\n" +
			"x-stainless-runtime: node\r\nx-stainless-runtime-version: v22.1.0\r\nanthropic-version: 2023-06-01\r\n" +
			"x-api-key: cordon-0123456789abcdef0123456789abcdef0123456789abcdef\r\nx-app: cli\r\nuser-agent: a/1.0\r\n" +
			"content-type: application/json\r\naccept-language: *\r\naccept-encoding: br, gzip\r\ncontent-length: 1234\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			var room Room
			b.ReportAllocs()
			for b.Loop() {
				if _, err := CRLF.Fields(room[:0], text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	const text = "POST /v1/messages HTTP/1.1\r\nHost: 10.11.12.13:8080\r\nContent-Type: application/json\r\n" +
		"X-Api-Key: cordon-0123456789abcdef0123456789abcdef0123456789abcdef\r\nAnthropic-Version: 2023-06-01\r\nContent-Length: 2\r\n\r\n"
	from := strings.NewReader(text)
	in := bufio.NewReader(from)
	b.ReportAllocs()
	for b.Loop() {
		from.Reset(text)
		if _, err := CRLF.Read(in, nil); err != nil {
			b.Fatal(err)
		}
	}
}
