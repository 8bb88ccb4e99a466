package stricthttp

import (
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

// stepwise is blank.read, one thing after the other. It returns whether there is
// an Expect.
func stepwise(r *http.Request, text string) (expect bool, err error) {
	line, rest := httphead.CRLF.Cut(text)
	r.Method, line, _ = strings.Cut(line, " ")
	r.RequestURI, r.Proto, _ = strings.Cut(line, " ")
	if err := httphead.CRLF.Fields(r.Header, rest, nil); err != nil {
		return false, bad(err.Error())
	}
	if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
		return false, bad("the target of the request is no path")
	}
	hosts := r.Header["Host"]
	if len(hosts) != 1 || strings.ContainsAny(hosts[0], " \t\"<>\\^`{|}/?#@") {
		return false, bad("there must be one host")
	}
	r.Host = hosts[0]
	lengths, encodings := r.Header["Content-Length"], r.Header["Transfer-Encoding"]
	switch {
	case len(encodings) > 0:
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	case len(lengths) == 1:
		r.ContentLength, _ = number([]byte(lengths[0]))
	}
	if trailer, ok := r.Header["Trailer"]; ok {
		r.Trailer = http.Header{}
		for _, name := range trailer {
			r.Trailer[http.CanonicalHeaderKey(name)] = nil
		}
	}
	for _, name := range []string{"Host", "Transfer-Encoding", "Trailer"} {
		delete(r.Header, name)
	}
	for _, v := range r.Header["Connection"] {
		for option := range strings.SplitSeq(v, ",") {
			r.Close = r.Close || strings.EqualFold(strings.TrimSpace(option), "close")
		}
	}
	e, expect := r.Header["Expect"]
	if expect && (len(e) != 1 || !strings.EqualFold(e[0], "100-continue")) {
		return true, &malformed{http.StatusExpectationFailed, "the only expectation is 100-continue"}
	}
	return expect, nil
}

// FuzzRequest reads a request in one pass as step by step, or says the same.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		get, post("", "A: 1", "a: 2", "b:"), "GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a? HTTP/1.1\r\nHost: x\r\n\r\n", "GET /%61%2f HTTP/1.1\r\nhost: x\r\n\r\n",
		"GET /a HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "GET /% HTTP/1.1\r\nHost: x y\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x@y\r\nExpect: a\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\nTrailer: a, b\r\ntrailer: c\r\nConnection: keep-alive, Close\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 03\r\nConnection: a\r\n\r\n", "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nexpect: 100-continue\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\nC: \r\n", 10) + "\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var check head
		text, _, ok := strings.Cut(text, "\r\n\r\n")
		if !ok || check.feed([]byte(text+"\r\n\r\n")) != nil {
			return // never comes so far
		}
		c := newServing(nil, &conn{}, nil)
		b, want := c.blank(), c.blank().request
		err := b.read(text + "\r\n")
		expect, wrong := stepwise(want, text+"\r\n")
		if !reflect.DeepEqual(err, wrong) {
			t.Errorf("%q: %v, want %v", text, err, wrong)
		}
		if err != nil {
			return
		}
		r := b.request
		if fmt.Sprintf("%q", []any{r.Method, r.URL, r.RequestURI, r.Proto, r.Host, r.ContentLength, r.TransferEncoding, r.Trailer, r.Close, b.body.expect}) !=
			fmt.Sprintf("%q", []any{want.Method, want.URL, want.RequestURI, want.Proto, want.Host, want.ContentLength, want.TransferEncoding, want.Trailer, want.Close, expect}) ||
			(r.Trailer == nil) != (want.Trailer == nil) || (r.TransferEncoding == nil) != (want.TransferEncoding == nil) || !maps.EqualFunc(r.Header, want.Header, slices.Equal) {
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
		b := &blank{request: &http.Request{RequestURI: target}}
		got, bad := b.target()
		want, wrong := url.ParseRequestURI(target)
		if (bad == nil) != (wrong == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v %v, want %+v %v", target, got, bad, want, wrong)
		}
	})
}

// What is read of a request is a part of its head's text, and goes where room
// was made for it before it came.
func TestAllocations(t *testing.T) {
	c := newServing(nil, &conn{}, nil)
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
