package stricthttp

import (
	"io"
	"net/http"
)

// Standard lets a handler of net/http answer. It costs what [Handler] is there to
// save: maps for the headers.
func Standard(h http.Handler) Handler {
	return func(w *Response, r *Request) {
		s := &standard{Response: w, header: http.Header{}}
		std := r.standard()
		std.RemoteAddr = w.c.conn.RemoteAddr().String()
		h.ServeHTTP(s, std)
		s.tell()
	}
}

// standard is the request as net/http has it, but for the client's address.
func (r *Request) standard() *http.Request {
	std := &http.Request{
		Method: r.Method, URL: r.URL, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.Header.Standard(), Body: io.NopCloser(r.Body),
		ContentLength: r.Length, Close: r.close, Host: r.host.value, RequestURI: r.Target,
	}
	if r.Length < 0 {
		std.TransferEncoding = []string{"chunked"}
	}
	return std.WithContext(r.ctx)
}

// standard is the http.ResponseWriter. What else [http.ResponseController] asks
// for is the Response's.
type standard struct {
	*Response
	header http.Header
	told   bool // to the Response
}

func (s *standard) Header() http.Header { return s.header }

// tell adds the header to the Response, once.
func (s *standard) tell() {
	if s.told {
		return
	}
	s.told = true
	for name, values := range s.header {
		for _, value := range values {
			s.Add(name, value)
		}
	}
	s.dated = s.dated || s.header["Date"] != nil // none is wanted where there is no value
}

func (s *standard) WriteHeader(status int) {
	if status >= 200 { // what comes before goes nowhere
		s.tell()
	}
	s.Response.WriteHeader(status)
}

func (s *standard) Write(p []byte) (int, error) {
	s.tell()
	return s.Response.Write(p)
}

func (s *standard) Flush() { _ = s.FlushError() }

func (s *standard) FlushError() error {
	s.tell()
	return s.Response.Flush()
}

// EnableFullDuplex does nothing: a body can always be read while the answer is written.
func (s *standard) EnableFullDuplex() error { return nil }
