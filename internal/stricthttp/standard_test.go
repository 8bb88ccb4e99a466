package stricthttp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The header of a handler of net/http is what it was at the first of what sends
// it, or when the handler returns.
func TestStandardTells(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("A", "1")
		switch r.RequestURI {
		case "/header":
			w.WriteHeader(http.StatusTeapot)
		case "/write":
			_, _ = w.Write(nil)
		case "/flush":
			w.(http.Flusher).Flush()
		case "/control":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "/early": // is no answer
			w.WriteHeader(http.StatusEarlyHints)
		}
		h["A"] = []string{"2", "3"}
		w.WriteHeader(http.StatusTeapot)
	}, nil)
	for target, want := range map[string]string{"/header": "418 [1]", "/write": "200 [1]", "/flush": "200 [1]", "/control": "200 [1]", "/early": "418 [2 3]", "/return": "418 [2 3]"} {
		v.send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, _ := v.answer("GET")
		if got := fmt.Sprint(resp.StatusCode, " ", resp.Header["A"]); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

// A request of net/http says all that came, and its controller does what the
// server can.
func TestStandardRequest(t *testing.T) {
	v := serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		for name, err := range map[string]error{
			"read":  control.SetReadDeadline(time.Now().Add(time.Minute)),
			"write": control.SetWriteDeadline(time.Now().Add(time.Minute)),
			"full":  control.EnableFullDuplex(),
		} {
			if err != nil {
				t.Error(name, err)
			}
		}
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, r.Proto, " ", r.ProtoMajor, r.ProtoMinor, " ", r.Header, " ", r.ContentLength, " ", r.TransferEncoding, " ", r.Close, " ", r.RemoteAddr, " ", r.Context().Err())
	}, nil)
	peer := v.conn.LocalAddr().String()
	v.send("POST /a HTTP/1.1\r\nHost: x\r\na: 1\r\nA: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	want := "HTTP/1.1 1 1 map[A:[1 2]] -1 [chunked] false " + peer + " <nil>"
	if _, body := v.answer("POST"); body != want {
		t.Errorf("%q, want %q", body, want)
	}
	v.dial()
	v.send("GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if _, body := v.answer("GET"); !strings.Contains(body, "map[Connection:[close]] 0 [] true ") {
		t.Errorf("%q", body)
	}
}

// Standard answers within a handler that added lines of its own.
func TestStandardWithin(t *testing.T) {
	v := serveNatively(t, func(w *Response, r *Request) {
		w.Add("Connection", "close")
		w.Add("A", "1")
		Standard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("A", "2")
		}))(w, r)
	}, nil)
	v.send(get)
	if resp, _ := v.answer("GET"); !resp.Close || strings.Join(resp.Header["A"], " ") != "1 2" {
		t.Error(resp)
	}
	v.over()
}
