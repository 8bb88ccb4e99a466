package leanhttp

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/rawsys"
)

var errRequest = errors.New("the request can't be sent")

// send writes the request, through a buffer that is given back before its answer is
// read: that may take hours. A body goes out with the head where there is room.
func (t *Transport) send(c *conn, req *Request) error {
	room, ok := t.buffers.Get().(*[]byte)
	if !ok {
		made := make([]byte, bufferSize)
		room = &made
	}
	defer t.buffers.Put(room)
	out, err := appendHead((*room)[:0], req)
	if err != nil {
		return err
	}
	whole := len(req.Body) <= cap(out)-len(out)
	if whole {
		out = append(out, req.Body...)
	}
	// TLS reads and writes the other's connection at its own discretion. And of two
	// parts the first may be answered already.
	if whole && c.Conn == net.Conn(c.tcp) {
		_, err := c.tcp.Ask(out)
		if !errors.Is(err, rawsys.ErrNotQuiet) || c.reused {
			return err
		}
	} else if c.reused && !c.tcp.Quiet() {
		return rawsys.ErrNotQuiet
	}
	if _, err := c.Write(out); err != nil || whole {
		return err
	}
	_, err = c.Write(req.Body)
	return err
}

// appendHead appends the head of a request. One that could be read as something
// else is an error.
func appendHead(head []byte, req *Request) ([]byte, error) {
	host := req.Origin.Host
	if !httpguts.ValidHostHeader(host) || !httpguts.ValidHeaderFieldName(req.Method) { // a method is a token, too
		return nil, fmt.Errorf("%w: no method or no host: %q %q", errRequest, req.Method, host)
	}
	if !strings.HasPrefix(req.Target, "/") || strings.ContainsFunc(req.Target, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return nil, fmt.Errorf("%w: no target: %q", errRequest, req.Target)
	}
	head = append(append(append(head, req.Method...), ' '), req.Target...)
	head = httphead.Field{Name: "Host", Value: host}.Append(append(head, " HTTP/1.1\r\n"...))
	for _, f := range req.Header {
		switch f.Name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // as the request's fields say
		}
		if !httpguts.ValidHeaderFieldName(f.Name) {
			return nil, fmt.Errorf("%w: no name of a header: %q", errRequest, f.Name)
		}
		if !httpguts.ValidHeaderFieldValue(f.Value) {
			return nil, fmt.Errorf("%w: no value of a header: %s", errRequest, f.Name)
		}
		head = f.Append(head)
	}
	if len(req.Body) > 0 || req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch {
		head = strconv.AppendInt(append(head, "Content-Length: "...), int64(len(req.Body)), 10)
		head = append(head, "\r\n"...)
	}
	return append(head, "\r\n"...), nil
}
