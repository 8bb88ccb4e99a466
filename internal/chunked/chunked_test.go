package chunked

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

// What is a body is told in one way, or it is none.
func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		text, data, rest string
		fails            error
	}{
		"chunks":                        {text: "1\r\na\r\n0000000000000002\r\nbc\r\n0\r\nrest", data: "abc", rest: "rest"},
		"none":                          {text: "000\r\n\r\n", rest: "\r\n"},
		"digits of each kind":           {text: "aA\r\n" + strings.Repeat("x", 0xaa) + "\r\n0\r\n", data: strings.Repeat("x", 0xaa)},
		"spaces":                        {text: "1 \t\r\na\r\n0\t\r\n", data: "a"},
		"extensions":                    {text: "1;b=\"0 1\";c\r\na\r\n0; \r\n", data: "a"},
		"a line as long as it may be":   {text: "1;" + strings.Repeat("x", longest-4) + "\r\na\r\n0\r\n", data: "a"},
		"a longer one":                  {text: "1;" + strings.Repeat("x", longest-3) + "\r\na\r\n0\r\n", fails: errMalformed},
		"an endless one":                {text: "1;" + strings.Repeat("x", 1<<20), fails: errMalformed},
		"endless spaces":                {text: "1" + strings.Repeat(" ", 1<<20), fails: errMalformed},
		"17 digits":                     {text: "00000000000000001\r\na\r\n0\r\n", fails: errMalformed},
		"the largest size":              {text: "1000000000000000\r\na", data: "a", fails: io.ErrUnexpectedEOF},
		"a larger one":                  {text: "1000000000000001\r\na", fails: errMalformed},
		"one of 64 bits":                {text: "ffffffffffffffff\r\na", fails: errMalformed},
		"no size":                       {text: "\r\na", fails: errMalformed},
		"an extension alone":            {text: ";b\r\na", fails: errMalformed},
		"a space alone":                 {text: " \r\na", fails: errMalformed},
		"a space before a size":         {text: " 1\r\na\r\n0\r\n", fails: errMalformed},
		"a space within one":            {text: "1 1\r\na\r\n0\r\n", fails: errMalformed},
		"a space before an extension":   {text: "1 ;b\r\na\r\n0\r\n", fails: errMalformed},
		"a sign":                        {text: "+1\r\na\r\n0\r\n", fails: errMalformed},
		"a negative size":               {text: "-1\r\na\r\n0\r\n", fails: errMalformed},
		"a prefix":                      {text: "0x1\r\na\r\n0\r\n", fails: errMalformed},
		"an underscore":                 {text: "1_0\r\na\r\n0\r\n", fails: errMalformed},
		"no digit":                      {text: "g\r\na\r\n0\r\n", fails: errMalformed},
		"LF alone after a size":         {text: "1\na\r\n0\r\n", fails: errMalformed},
		"LF alone after an extension":   {text: "1;b\na\r\n0\r\n", fails: errMalformed},
		"LF alone after the last size":  {text: "0\n", fails: errMalformed},
		"CR within an extension":        {text: "1;\rb\r\na\r\n0\r\n", fails: errMalformed},
		"CR twice":                      {text: "1\r\r\na\r\n0\r\n", fails: errMalformed},
		"LF alone after data":           {text: "1\r\na\n0\r\n", data: "a", fails: errMalformed},
		"CR alone after data":           {text: "1\r\na\r0\r\n", data: "a", fails: errMalformed},
		"another byte for CR":           {text: "1\r\nab\n0\r\n", data: "a", fails: errMalformed},
		"another byte for LF":           {text: "1\r\na\rb0\r\n", data: "a", fails: errMalformed},
		"nothing after data":            {text: "1\r\na0\r\n", data: "a", fails: errMalformed},
		"more data than its size":       {text: "1\r\nab\r\n0\r\n", data: "a", fails: errMalformed},
		"nothing":                       {text: "", fails: io.ErrUnexpectedEOF},
		"cut off in a size":             {text: "1", fails: io.ErrUnexpectedEOF},
		"cut off in a size's end":       {text: "1\r", fails: io.ErrUnexpectedEOF},
		"cut off before data":           {text: "1\r\n", fails: io.ErrUnexpectedEOF},
		"cut off in data":               {text: "2\r\na", data: "a", fails: io.ErrUnexpectedEOF},
		"cut off after data":            {text: "1\r\na", data: "a", fails: io.ErrUnexpectedEOF},
		"cut off in the end of data":    {text: "1\r\na\r", data: "a", fails: io.ErrUnexpectedEOF},
		"cut off before the last chunk": {text: "1\r\na\r\n", data: "a", fails: io.ErrUnexpectedEOF},
		"cut off in the last chunk":     {text: "1\r\na\r\n0\r", data: "a", fails: io.ErrUnexpectedEOF},
		"single bytes":                  {text: strings.Repeat("1\r\na\r\n", 1<<16) + "0\r\n", data: strings.Repeat("a", 1<<16)},
		"single bytes, with extensions": {text: strings.Repeat("1;"+strings.Repeat("b", 99)+"\r\na\r\n", 1<<10) + "0\r\n", data: strings.Repeat("a", 192), fails: errSurplus},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			in := bufio.NewReader(strings.NewReader(tt.text))
			got, err := all(&Reader{In: in}, size)
			if string(got) != tt.data || err != tt.fails {
				t.Errorf("%s: %.50q (%d) %v", name, got, len(got), err)
			}
			if rest, _ := io.ReadAll(in); err == nil && string(rest) != tt.rest {
				t.Errorf("%s: leaves %q", name, rest)
			}
		}
	}
}

// all reads by so many bytes at a time.
func all(r io.Reader, size int) ([]byte, error) {
	var text []byte
	for p := make([]byte, size); ; {
		n, err := r.Read(p)
		text = append(text, p[:n]...)
		if err == io.EOF {
			return text, nil
		} else if err != nil {
			if n, again := r.Read(p); n != 0 || again != err {
				err = fmt.Errorf("%w, then %d bytes, %w", err, n, again)
			}
			return text, err
		}
	}
}

// errBroken is an error that a connection may have.
var errBroken = errors.New("broken")

// What is there is returned at once, as much as is, and the error of the
// connection as it is.
func TestReadDoesNotWait(t *testing.T) {
	for text, want := range map[string]string{
		"1\r\na":                        "a",
		"1\r\na\r":                      "a",
		"1\r\na\r\n":                    "a",
		"1\r\na\r\n2":                   "a",
		"1\r\na\r\n2\r":                 "a",
		"1\r\na\r\n2\r\n":               "a",
		"1\r\na\r\n2\r\nb":              "ab",
		"1\r\na\r\n2\r\nbc\r\n3;x":      "abc",
		"9\r\nabcdefghi\r\n9\r\nabcdef": "abcdefghiabcdef",
	} {
		r := &Reader{In: bufio.NewReader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(errBroken)))}
		p := make([]byte, 100)
		n, err := r.Read(p)
		if string(p[:n]) != want || err != nil {
			t.Errorf("%q: %q %v", text, p[:n], err)
		}
		if n, err := r.Read(p); n != 0 || err != errBroken {
			t.Errorf("%q: then %q %v", text, p[:n], err)
		}
	}
	r := &Reader{In: bufio.NewReader(strings.NewReader("1\r\na\r\n1\r\nb\r\n0\r\n\r\n"))}
	p := make([]byte, 2)
	if n, err := r.Read(p); string(p[:n]) != "ab" || err != io.EOF {
		t.Errorf("the whole body: %q %v", p[:n], err)
	}
}

// FuzzRead reads what net/http's reader does, and leaves the same.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"1\r\na\r\n0\r\n\r\n", "A;x=y\r\n0123456789\r\n00 \r\nrest", "1\na\n0\n", "1\r\na\r\n2 ;\r\n", "ffffffffffffffff\r\n", "00000000000000001\r\n",
		strings.Repeat("1;"+strings.Repeat("x", 4000)+"\r\na\r\n", 5), "1\r\nax\n0\r\n", "1;a b\r\na\rx0\r\n", "1;" + strings.Repeat("x", longest-4) + "\r\na\r\n0\r\n", ";\r\n", "\r\n", "1;\r\r\n", "1\r\nab",
	} {
		f.Add([]byte(text), uint16(3), true)
		f.Add([]byte(text), uint16(9000), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint16, slow bool) {
		source := func() *bufio.Reader {
			if slow {
				return bufio.NewReader(iotest.OneByteReader(bytes.NewReader(text)))
			}
			return bufio.NewReader(bytes.NewReader(text))
		}
		ours, theirs := source(), source()
		r := &Reader{In: ours}
		got, err := all(r, int(size)+1)
		want, wrong := all(httputil.NewChunkedReader(theirs), int(size)+1)
		if r.left > largest && wrong != nil { // refused here, and endless there
			want = want[:len(got)]
		}
		if !bytes.Equal(got, want) || (err == nil) != (wrong == nil) || err == io.ErrUnexpectedEOF && wrong != err {
			t.Errorf("%q: %q %v, want %q %v", text, got, err, want, wrong)
		}
		rest, _ := io.ReadAll(ours)
		left, _ := io.ReadAll(theirs)
		if err == nil && !bytes.Equal(rest, left) {
			t.Errorf("%q: leaves %q, want %q", text, rest, left)
		}
	})
}

// A stream's event.
func BenchmarkRead(b *testing.B) {
	event := fmt.Sprintf("%x\r\n%s\r\n", 165, strings.Repeat("x", 165))
	from := strings.NewReader(event)
	in := bufio.NewReader(from)
	p := make([]byte, 64<<10)
	for name, r := range map[string]io.Reader{"ours": &Reader{In: in}, "httputil": httputil.NewChunkedReader(in)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				from.Reset(event)
				if _, err := r.Read(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
