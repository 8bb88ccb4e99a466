package leanhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

var errRequest = errors.New("the request can't be sent")

// write writes a request. One that could be read as something else is an error.
func write(out *bufio.Writer, req *http.Request) error {
	length := req.ContentLength
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		length = 0
	case length <= 0:
		return fmt.Errorf("%w: the length of its body is not known", errRequest)
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	if !httpguts.ValidHostHeader(host) || !httpguts.ValidHeaderFieldName(req.Method) { // a method is a token, too
		return fmt.Errorf("%w: no method or no host: %q %q", errRequest, req.Method, host)
	}
	target := req.URL.RequestURI()
	if strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return fmt.Errorf("%w: no target: %q", errRequest, target)
	}
	line(out, req.Method, " ", target, " HTTP/1.1\r\nHost: ", host, "\r\n")
	for name, values := range req.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // as the request's fields say
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%w: no name of a header: %q", errRequest, name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("%w: no value of a header: %s", errRequest, name)
			}
			line(out, name, ": ", v, "\r\n")
		}
	}
	if length > 0 || req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch {
		line(out, "Content-Length: ", strconv.FormatInt(length, 10), "\r\n")
	}
	line(out, "\r\n")
	if length == 0 {
		return nil
	}
	n, err := io.Copy(out, req.Body) // one that can write itself does so in as few writes as it can
	if err == nil && n != length {
		err = fmt.Errorf("%w: its body has %d bytes, not %d", errRequest, n, length)
	}
	return err
}

func line(out *bufio.Writer, parts ...string) {
	for _, p := range parts {
		_, _ = out.WriteString(p) // its error stays
	}
}
