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
	head, err := appendHead(out.AvailableBuffer(), req, length)
	if err != nil {
		return err
	}
	_, _ = out.Write(head) // its error stays
	if length == 0 {
		return nil
	}
	n, err := io.Copy(out, req.Body) // one that can write itself does so in as few writes as it can
	if err == nil && n != length {
		err = fmt.Errorf("%w: its body has %d bytes, not %d", errRequest, n, length)
	}
	return err
}

// appendHead appends the head of a request with a body of the length.
func appendHead(head []byte, req *http.Request, length int64) ([]byte, error) {
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	if !httpguts.ValidHostHeader(host) || !httpguts.ValidHeaderFieldName(req.Method) { // a method is a token, too
		return nil, fmt.Errorf("%w: no method or no host: %q %q", errRequest, req.Method, host)
	}
	target := req.URL.RequestURI()
	if strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return nil, fmt.Errorf("%w: no target: %q", errRequest, target)
	}
	head = append(append(append(head, req.Method...), ' '), target...)
	head = appendField(append(head, " HTTP/1.1\r\n"...), "Host", host)
	for name, values := range req.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // as the request's fields say
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("%w: no name of a header: %q", errRequest, name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return nil, fmt.Errorf("%w: no value of a header: %s", errRequest, name)
			}
			head = appendField(head, name, v)
		}
	}
	if length > 0 || req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch {
		head = strconv.AppendInt(append(head, "Content-Length: "...), length, 10)
		head = append(head, "\r\n"...)
	}
	return append(head, "\r\n"...), nil
}

func appendField(head []byte, name, value string) []byte {
	head = append(append(head, name...), ": "...)
	return append(append(head, value...), "\r\n"...)
}
