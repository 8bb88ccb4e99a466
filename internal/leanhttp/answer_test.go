package leanhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/httphead"
)

// reading is a connection over which text comes.
func reading(text string) *conn {
	near, far := net.Pipe()
	_, _ = near.Close(), far.Close()
	c := &conn{Conn: near, limit: &httphead.Limited{In: strings.NewReader(text), Left: headerBytes}}
	c.in = bufio.NewReaderSize(c.limit, bufferSize)
	return c
}

// answer reads one answer as Do does.
func answer(c *conn, method string) (a *Answer, text []byte, err error) {
	a, err = c.readAnswer(method)
	c.limit.Left = -1
	if err != nil {
		return nil, nil, err
	}
	for one := make([]byte, 3); err == nil; {
		var n int
		n, err = a.read(one)
		text = append(text, one[:n]...)
	}
	if err == io.EOF {
		err = nil
	}
	return a, text, err
}

// Where an answer ends is told in one way, or it is none.
func TestAnswers(t *testing.T) {
	const long = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
	for name, tt := range map[string]struct {
		text, method string
		body         string
		length       int64
		keep, fails  bool
	}{
		"with a length":                {text: long + "\r\nokHTTP", body: "ok", length: 2, keep: true},
		"of LF alone":                  {text: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", body: "ok", length: 2, keep: true},
		"without a reason":             {text: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", keep: true},
		"the length twice, the same":   {text: long + "Content-Length: 2\r\n\r\nok", body: "ok", length: 2, keep: true},
		"two lengths":                  {text: long + "Content-Length: 3\r\n\r\nokk", fails: true},
		"a list of lengths":            {text: "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", fails: true},
		"a length with a sign":         {text: "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", fails: true},
		"a length below nothing":       {text: "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", fails: true},
		"a length beyond 63 bits":      {text: "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nok", fails: true},
		"an empty length":              {text: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok", fails: true},
		"chunked":                      {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\no\r\n1;x\r\nk\r\n0\r\nA: b\r\n\r\nHTTP", body: "ok", length: -1, keep: true},
		"chunked, without its end":     {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n", fails: true},
		"chunked, within its trailer":  {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n", fails: true},
		"chunked, of HTTP/1.0":         {text: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", fails: true},
		"both":                         {text: long + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", fails: true},
		"another encoding":             {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok", fails: true},
		"two encodings":                {text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", fails: true},
		"until the end":                {text: "HTTP/1.1 200 OK\r\n\r\nok", body: "ok", length: -1},
		"HTTP/1.0":                     {text: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", body: "ok", length: 2},
		"HTTP/1.0 that is kept":        {text: "HTTP/1.0 200 OK\r\nConnection: a, Keep-Alive\r\nContent-Length: 2\r\n\r\nok", body: "ok", length: 2, keep: true},
		"one that closes":              {text: long + "Connection: x, Close\r\n\r\nok", body: "ok", length: 2},
		"no content":                   {text: "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", keep: true},
		"not modified":                 {text: "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", keep: true},
		"no content of a bad length":   {text: "HTTP/1.1 204 No Content\r\nContent-Length:\r\n\r\n", fails: true},
		"to HEAD":                      {text: long + "\r\n", method: http.MethodHead, keep: true},
		"cut off":                      {text: long + "\r\no", fails: true},
		"cut off in its head":          {text: long, fails: true},
		"another version":              {text: "HTTP/2.0 200 OK\r\n\r\n", fails: true},
		"a status of two digits":       {text: "HTTP/1.1 20 OK\r\n\r\n", fails: true},
		"a status below 100":           {text: "HTTP/1.1 099 OK\r\n\r\n", fails: true},
		"a status with a sign":         {text: "HTTP/1.1 +20 OK\r\n\r\n", fails: true},
		"a folded header":              {text: long + "A: b\r\n c\r\n\r\nok", fails: true},
		"a folded header, first":       {text: "HTTP/1.1 200 OK\r\n A: b\r\n\r\n", fails: true},
		"a header without a colon":     {text: long + "A\r\n\r\nok", fails: true},
		"a name with a space":          {text: long + "A : b\r\n\r\nok", fails: true},
		"no name":                      {text: long + ": b\r\n\r\nok", fails: true},
		"a carriage return in a value": {text: long + "A: b\rSet-Cookie: c\r\n\r\nok", fails: true},
		"a NUL in a value":             {text: long + "A: \x00\r\n\r\nok", fails: true},
		"a line longer than a buffer":  {text: long + "A: " + strings.Repeat("b", 3*bufferSize) + "\r\n\r\nok", body: "ok", length: 2, keep: true},
		"an endless head":              {text: long + strings.Repeat("A: b\r\n", headerBytes/6) + "\r\nok", fails: true},
	} {
		a, text, err := answer(reading(tt.text), tt.method)
		if (err != nil) != tt.fails {
			t.Errorf("%s: %q %v", name, text, err)
			continue
		}
		if err == nil && (string(text) != tt.body || a.Length != tt.length || a.keep != tt.keep) {
			t.Errorf("%s: %q of %d, keep %v", name, text, a.Length, a.keep)
		}
	}
}

// FuzzAnswer takes an answer apart as net/http does, or refuses it.
func FuzzAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 2\r\na: 1\r\nA: 2\r\n\r\nok")
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
	f.Add("HTTP/1.0 404 \r\nConnection: keep-alive\r\n\r\nno")
	f.Add("HTTP/1.1 304 Not Modified\nContent-Length: 2\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, said, err := answer(reading(text), http.MethodPost)
		if err != nil || got.Status < 200 {
			return
		}
		want, err := http.ReadResponse(bufio.NewReader(strings.NewReader(text)), &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("%q: net/http refuses it: %v", text, err)
		}
		whole, err := io.ReadAll(want.Body)
		if err != nil && got.Header.Get("Transfer-Encoding") == "" { // a trailer is passed over here
			t.Fatalf("%q: net/http refuses its body: %v", text, err)
		}
		header := got.Header.Standard()
		for _, name := range []string{"Trailer", "Cache-Control", "Transfer-Encoding"} { // what net/http takes out, or puts in
			delete(want.Header, name)
			delete(header, name)
		}
		same := got.Status == want.StatusCode && got.Length == want.ContentLength && bytes.Equal(said, whole) && maps.EqualFunc(header, want.Header, slices.Equal)
		if !same || want.Close && got.keep {
			t.Errorf("%q: %d %q %q, net/http has %d %q %q, close %v", text, got.Status, header, said, want.StatusCode, want.Header, whole, want.Close)
		}
	})
}

// Nothing is sent once the context has ended, not even on a kept connection.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	var came atomic.Int32
	s, _ := counted(t, func(w http.ResponseWriter, r *http.Request) { came.Add(1); echo(w, r) })
	tr := &Transport{}
	defer tr.CloseIdleConnections()
	send(t, tr, post(s.URL, "x"))
	cause := errors.New("told so")
	own := new(ending.Context)
	own.End(cause)
	std, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, ctx := range []context.Context{own, std} {
		if _, err := tr.Do(ctx, post(s.URL, "x")); !errors.Is(err, cause) {
			t.Error(err)
		}
	}
	if send(t, tr, post(s.URL, "x")); came.Load() != 2 {
		t.Errorf("%d requests came", came.Load())
	}
}
