package stricthttp

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/httphead"
)

// FuzzRequest reads a request as net/http does, or refuses it.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		get, post("", "A: 1", "a: 2", "b:"), "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a? HTTP/1.1\r\nHost: x\r\n\r\n", "GET /%61%2f HTTP/1.1\r\nhost: x\r\n\r\n",
		"GET /a HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET /% HTTP/1.1\r\nHost: x y\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x@y\r\nExpect: a\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\nConnection: Close, keep-alive\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 03\r\nConnection: a\r\n\r\n", "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nexpect: 100-continue\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\nC: \r\n", 10) + "\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text, _, ok := strings.Cut(text, "\r\n\r\n")
		if !ok {
			return // it never ends
		}
		b := newServing(nil, &conn{}, nil).blank()
		if b.read(text+"\r\n") != nil || b.request.Header.Standard()["Trailer"] != nil { // which the proxy refuses
			return
		}
		r := b.request.standard()
		want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text + "\r\n\r\n")))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if fmt.Sprintf("%q", []any{r.Method, r.URL, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, r.Close}) !=
			fmt.Sprintf("%q", []any{want.Method, want.URL, want.RequestURI, want.Proto, want.Host, want.ContentLength, want.TransferEncoding, want.Close}) ||
			!maps.EqualFunc(r.Header, want.Header, slices.Equal) || b.body.expect != (r.Header["Expect"] != nil) {
			t.Errorf("%q: %+v, want %+v", text, r, want)
		}
	})
}

// FuzzTarget finds the same URL in a target as net/url does.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{"/", "/a/b-c_d.e:f", "//a/b", "/a?b=c&d", "/a?", "/a??", "/a?b?c", "/%61", "/a%2fb", "/a=b&c", "/a b", "/a#b", "/\x7f", "a:b", "", "*", "?a", "/a?\x01", "/ä", "http://x/", "A://@"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		b := &blank{request: Request{Target: target}}
		got, bad := b.target()
		want, wrong := url.ParseRequestURI(target)
		if (bad == nil) != (wrong == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v %v, want %+v %v", target, got, bad, want, wrong)
		}
	})
}

// What is read of a request is a part of its head's text, and goes where that of
// the one before was.
func TestAllocations(t *testing.T) {
	c := newServing(nil, &conn{}, nil)
	c.fields = make(httphead.Header, 0, 8)
	var made []*blank
	for range 102 {
		made = append(made, c.blank())
	}
	text := strings.TrimSuffix(asked, "\r\n")
	if n := testing.AllocsPerRun(100, func() {
		if err := made[0].read(text); err != nil {
			t.Error(err)
		}
		made = made[1:]
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// So does what an answer begins with.
func TestAnswerAllocations(t *testing.T) {
	c := newServing(&Server{}, &conn{}, nil)
	c.added = make(httphead.Header, 0, 8)
	var made []*blank
	for range 102 {
		made = append(made, c.blank())
	}
	line := make([]byte, 0, bufferSize)
	if n := testing.AllocsPerRun(100, func() {
		w := &made[0].answer
		w.Add("Content-Type", "text/event-stream")
		w.Add("Request-Id", "a")
		line = w.head(line[:0], false)
		made = made[1:]
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The date is that of the second, whoever asks at the same time.
func TestDate(t *testing.T) {
	var s Server
	start := time.Now()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 1000 {
				now := start.Add(time.Duration(n*(i+1)) * 100 * time.Millisecond)
				if got, want := s.dateLine(now), "Date: "+now.UTC().Format(http.TimeFormat)+"\r\n"; got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
		})
	}
	all.Wait()
}
