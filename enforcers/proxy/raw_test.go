package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What two servers could take apart differently is answered by 400 and the
// end of the connection, and nothing of it comes to the upstream.
func TestRefusesSmuggling(t *testing.T) {
	r := newRig(t, nil)
	head := func(lines ...string) string {
		return "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	inner := "GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\n\r\n"
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(simple), simple)
	for _, tt := range []struct {
		name, text string
		status     int
	}{
		{"TE and CL", head("Transfer-Encoding: chunked", "Content-Length: 4") + chunk + inner, 400},
		{"CL and TE", head("Content-Length: "+fmt.Sprint(len(chunk)), "Transfer-Encoding: chunked") + chunk, 400},
		{"CL twice, the same", head(fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d", len(simple), len(simple))) + simple, 400},
		{"CL twice, different", head("Content-Length: 0\r\nContent-Length: "+fmt.Sprint(len(simple))) + simple, 400},
		{"CL list", head(fmt.Sprintf("Content-Length: %d, %d", len(simple), len(simple))) + simple, 400},
		{"CL hexadecimal", head("Content-Length: 0x10") + simple, 400},
		{"CL negative", head("Content-Length: -1") + simple, 400},
		{"TE twice", head("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + chunk, 400},
		{"TE list", head("Transfer-Encoding: gzip, chunked") + chunk, 400},
		{"TE with a space before the colon", head("Transfer-Encoding : chunked") + chunk, 400},
		{"CL with a space before the colon", head("Content-Length : 3") + "abc", 400},
		{"obs-fold", head("Anthropic-Beta: a,", " Content-Length: 5") + "hello", 400},
		{"bare LF", strings.ReplaceAll(head("Content-Length: 0"), "\r\n", "\n"), 400},
		{"a header without a colon", head("Nonsense"), 400},
		{"a name with a control character", head("X-\x01: 1"), 400},
		{"two hosts", head("Host: y"), 400},
		{"absolute form", strings.Replace(head("Content-Length: 0"), "/v1/messages", "http://x/v1/messages", 1), 400},
		{"absolute form of the upstream", strings.Replace(head("Content-Length: 0"), "/v1/messages", r.upURL+"/v1/messages", 1), 400},
		{"CONNECT", "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n", 400},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"HTTP/2 by heart", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		{"HTTP/1.0", strings.Replace(head("Content-Length: 0"), "HTTP/1.1", "HTTP/1.0", 1), 400},
		{"upgrade to h2c", head("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Content-Length: 0"), 400},
		{"upgrade to a websocket", head("Connection: Upgrade", "Upgrade: websocket", "Content-Length: 0"), 400},
		{"upgrade without connection", head("Upgrade: h2c", "Content-Length: 0"), 400},
		{"a connection that names the key", head("Connection: close, X-Api-Key", "Content-Length: 0"), 400},
		{"TE: trailers", head("TE: trailers", "Content-Length: 0"), 400},
		{"a trailer", head("Trailer: X-Api-Key", "Transfer-Encoding: chunked") + chunk, 400},
		{"an expectation", head("Expect: other", "Content-Length: 0"), 417},
		{"a chunk size that is none", head("Transfer-Encoding: chunked") + "zz\r\n", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(r.up.Requests())
			status, body := r.raw(tt.text)
			if status != tt.status {
				t.Errorf("got %d %s", status, body)
			}
			if seen := r.up.Requests()[before:]; len(seen) != 0 {
				t.Errorf("it came to the upstream: %s %s", seen[0].Method, seen[0].URI)
			}
		})
	}
}

// After a chunked request the connection ends: nothing can hide behind it.
func TestChunkedRequestIsTheLast(t *testing.T) {
	r := newRig(t, nil)
	text := "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nTransfer-Encoding: chunked\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(simple), simple)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text+text); err != nil {
		t.Fatal(err)
	}
	answers, err := io.ReadAll(c) // until the proxy closes
	if strings.Count(string(answers), "HTTP/1.1 200 OK") != 1 || strings.Count(string(answers), `"text":"ok"`) != 1 {
		t.Fatalf("%v: %s", err, answers)
	}
	seen := r.up.Requests()
	if len(seen) != 1 || string(seen[0].Body) != simple || seen[0].Header.Get("Transfer-Encoding") != "" || seen[0].Header.Get("Content-Length") == "" {
		t.Errorf("%d came, the first %+v", len(seen), seen[0])
	}
}

// A chunked body that breaks off is none, even where what came could be a whole.
func TestChunkedRequestIsWhole(t *testing.T) {
	r := newRig(t, nil)
	body := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(simple), simple)
	for cut := 1; cut <= len("\r\n0\r\n\r\n"); cut++ {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = io.WriteString(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: "+r.token+"\r\nTransfer-Encoding: chunked\r\n\r\n"+body[:len(body)-cut])
		if err := errors.Join(err, c.(*net.TCPConn).CloseWrite()); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("without the last %d bytes: %q %v", cut, answer, err)
		}
	}
	if n := len(r.up.Requests()); n != 0 {
		t.Errorf("%d came to the upstream", n)
	}
}

// The method and the escaped path must be those declared, byte for byte.
func TestPaths(t *testing.T) {
	r := newRig(t, nil)
	for _, target := range []string{
		"POST /", "POST /v1", "POST /v1/messages/", "POST //v1/messages", "POST /v1//messages", "POST /V1/messages", "POST /v1/messages;x",
		"POST /v1/./messages", "POST /v1/x/../messages", "POST /../v1/messages", "POST /v1/messages/..", "POST /v1/messages/../files",
		"POST /v1/%6dessages", "POST /v1%2fmessages", "POST /v1/messages%2f..%2ffiles", "POST /v1/messages/..%2ffiles", "POST /v1/messages/%2e%2e/files",
		"POST /v1/messages%00", "POST /v1/messages%20", "POST /v1/messages%3fa", "POST /v1/messages\\x", "POST /v1/messages%", "POST /v1/messages#a",
		"POST /v1/messages/batches", "POST /v1/files", "POST /v1/organizations", "POST /v1/models", "GET /v1/messages", "PUT /v1/messages", "DELETE /v1/messages",
		"HEAD /v1/messages", "OPTIONS /v1/messages", "TRACE /v1/messages", "PATCH /v1/messages", "GET /v1/models/claude", "GET /api/hello", "HEAD /",
	} {
		status, body := r.raw(target + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if status != 404 && status != 400 {
			t.Errorf("%s: got %d %s", target, status, body)
		}
	}
	for _, target := range []string{"POST /v1/messages?x-api-key=1", "POST /v1/messages?access_token=1", "POST /v1/messages?a=1;api_key=2", "POST /v1/messages?%6bey=1", "POST /v1/messages?X-Amz-Date=1"} {
		head := fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", target, r.token, len(simple))
		if status, body := r.raw(head + simple); status != 400 {
			t.Errorf("%s: got %d %s", target, status, body)
		}
	}
	if n := len(r.up.Requests()); n != 0 {
		t.Errorf("%d came to the upstream, %s", n, r.up.Requests()[0].URI)
	}
	if status, _ := r.raw("GET /v1/models?limit=20 HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nConnection: close\r\n\r\n"); status != 200 {
		t.Errorf("got %d for what is declared", status)
	}
}

// Two requests on one connection are two requests.
func TestKeepsConnections(t *testing.T) {
	r := newRig(t, nil)
	client := r.from("127.0.0.1")
	for range 3 {
		resp, err := client.Do(r.post(simple))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK || resp.Close {
			t.Errorf("got %d, close %v", resp.StatusCode, resp.Close)
		}
		_ = resp.Body.Close()
	}
}

func TestMatchPath(t *testing.T) {
	for _, tt := range []struct{ pattern, path, model string }{
		{"/model/{model}/invoke", "/model/anthropic.claude-v2%3A0/invoke", "anthropic.claude-v2:0"},
		{"/model/{model}/invoke", "/model/eu.anthropic.claude:1/invoke", "eu.anthropic.claude:1"},
		{"/v1/{project}/models/{model:rawPredict}", "/v1/p-1/models/claude@20250101:rawPredict", "claude@20250101"},
		{"/model/{model}/invoke", "/model/../invoke", ""},
		{"/model/{model}/invoke", "/model/./invoke", ""},
		{"/model/{model}/invoke", "/model//invoke", ""},
		{"/model/{model}/invoke", "/model/a%2fb/invoke", ""},
		{"/model/{model}/invoke", "/model/%2e%2e/invoke", ""},
		{"/model/{model}/invoke", "/model/a/b/invoke", ""},
		{"/model/{model}/invoke", "/model/a/invoke/", ""},
		{"/model/{model}/invoke", "/model/a", ""},
		{"/v1/models/{model:rawPredict}", "/v1/models/claude:streamRawPredict", ""},
		{"/v1/models/{model:rawPredict}", "/v1/models/:rawPredict", ""},
	} {
		model, ok := matchPath(strings.Split(tt.pattern, "/"), tt.path)
		if ok != (tt.model != "") || ok && model != tt.model {
			t.Errorf("%s %s: %q %v", tt.pattern, tt.path, model, ok)
		}
	}
}

// What matches has as many segments as the pattern, none of which leads up.
func FuzzMatchPath(f *testing.F) {
	f.Add("/model/x/invoke")
	f.Add("/model/%2e%2e/invoke")
	f.Fuzz(func(t *testing.T, path string) {
		segments := strings.Split("/model/{model}/invoke", "/")
		model, ok := matchPath(segments, path)
		if !ok {
			return
		}
		if strings.Count(path, "/") != 3 || model == "" || strings.Contains(path, "..") && strings.Trim(model, ".") == "" || strings.ContainsAny(model, "/%\\?# \x00") {
			t.Errorf("%q matches as %q", path, model)
		}
	})
}
