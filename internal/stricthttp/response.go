package stricthttp

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/aicodesit/cordon/internal/httphead"
)

// Response is the answer to a request. Its head goes out together with what is
// written before the first flush. Without a Content-Length the body is chunked.
type Response struct {
	c      *serving
	r      *Request
	body   *body
	header httphead.Header // without what frame says
	out    *bufio.Writer   // nil while nothing waits to be sent

	dated  bool   // the handler has a Date of its own, or wants none
	length single // Content-Length, as added

	status  int   // 0 before WriteHeader
	begun   bool  // the head was written
	chunked bool  // the body is
	left    int64 // of a body with a length, -1 for none
	close   bool  // the connection ends with the answer
	failed  bool
}

// Add adds a line to the header, unless that was written already. The name goes
// out as it is. Of those that frame the answer, which are known by their canonical
// names, only a length and the wish to close the connection are heeded.
func (w *Response) Add(name, value string) {
	switch {
	case w.begun:
		return
	case !valid(name, value):
		w.c.server.Log.Error("a header of an answer is left out: it is malformed", "name", name)
		return
	}
	switch name {
	case "Connection":
		w.close = w.close || httphead.Is(value, "close")
	case "Content-Length":
		w.length.add(value)
	case "Transfer-Encoding":
	case "Date":
		w.dated = true
		fallthrough
	default:
		w.header = append(w.header, httphead.Field{Name: name, Value: value})
	}
}

// valid tells whether a line is one field. Else it would be another header, or a
// body.
func valid(name, value string) bool {
	return httpguts.ValidHeaderFieldName(name) && strings.IndexByte(value, '\r') < 0 && strings.IndexByte(value, '\n') < 0
}

// WriteHeader takes the first final status.
func (w *Response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// bodyless tells whether the answer has no body (RFC 9110, section 6.4.1).
func (w *Response) bodyless() bool {
	return w.r.Method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// begin writes the head; ends says that no body will follow.
func (w *Response) begin(ends bool) {
	if w.begun {
		return
	}
	w.begun = true
	w.body.answered()
	w.WriteHeader(http.StatusOK)
	// A proxy in front may see a chunked body end elsewhere: nothing after it is read.
	w.close = w.r.close || w.close || w.r.Length < 0 || !w.body.skip() || w.c.server.ends()
	w.open()
	_, err := w.out.Write(w.head(w.out.AvailableBuffer(), ends))
	w.failed = err != nil
}

// head appends the head to line.
func (w *Response) head(line []byte, ends bool) []byte {
	line = append(line, "HTTP/1.1 "...)
	line = strconv.AppendInt(line, int64(w.status), 10)
	line = append(append(line, ' '), http.StatusText(w.status)...)
	line = append(line, "\r\n"...)
	if !w.dated {
		line = append(line, w.c.server.dateLine(time.Now())...)
	}
	line = w.frame(line, ends)
	for _, f := range w.header {
		line = f.Append(line)
	}
	return append(line, "\r\n"...)
}

// frame decides how the body's end is told, and appends what tells it, and
// whether the connection ends, to line.
func (w *Response) frame(line []byte, ends bool) []byte {
	if w.close {
		line = append(line, "Connection: close\r\n"...)
	}
	length, ok := w.length.number()
	switch {
	case w.status == http.StatusNoContent:
	case ok:
		if w.status != http.StatusNotModified {
			w.left = length
		}
		line = httphead.Field{Name: "Content-Length", Value: w.length.value}.Append(line)
	case w.bodyless():
	case ends:
		w.left = 0
		line = append(line, "Content-Length: 0\r\n"...)
	default:
		w.chunked = true
		line = append(line, "Transfer-Encoding: chunked\r\n"...)
	}
	return line
}

func (w *Response) open() {
	if w.out == nil {
		w.out = w.c.server.writer(w.c.conn)
	}
}

// Write writes a part of the body.
func (w *Response) Write(p []byte) (int, error) {
	w.begin(false)
	if w.bodyless() && w.r.Method != http.MethodHead {
		return 0, http.ErrBodyNotAllowed
	}
	if w.left >= 0 {
		if int64(len(p)) > w.left {
			return 0, http.ErrContentLength
		}
		w.left -= int64(len(p))
	}
	if len(p) == 0 || w.bodyless() { // of HEAD it is only counted
		return len(p), nil
	}
	w.open()
	if !w.chunked {
		n, err := w.out.Write(p)
		w.failed = w.failed || err != nil
		return n, err
	}
	size := append(strconv.AppendInt(w.out.AvailableBuffer(), int64(len(p)), 16), "\r\n"...)
	_, _ = w.out.Write(size) // its error stays
	n, _ := w.out.Write(p)
	_, err := w.out.WriteString("\r\n")
	w.failed = w.failed || err != nil
	return n, err
}

// Flush sends what was written, at least the head.
func (w *Response) Flush() error {
	w.begin(false)
	if w.out == nil {
		return nil
	}
	err := w.out.Flush()
	w.failed = w.failed || err != nil
	w.release()
	return err
}

// release gives the buffer back: an answer may take hours.
func (w *Response) release() {
	if w.out != nil {
		w.c.server.giveBack(w.out)
		w.out = nil
	}
}

// finish sends what is left. It returns false when the connection ends.
func (w *Response) finish() (keep bool) {
	w.begin(true)
	if w.chunked {
		w.open()
		_, _ = w.out.WriteString("0\r\n\r\n") // its error stays
	}
	err := w.Flush()
	return err == nil && !w.failed && !w.close && (w.left <= 0 || w.bodyless())
}

// SetReadDeadline bounds reads of the request's body. It may be called while that
// is read, or the answer written.
func (w *Response) SetReadDeadline(t time.Time) error { return w.deadline(w.c.conn.SetReadDeadline, t) }

// SetWriteDeadline bounds writes, in the same way.
func (w *Response) SetWriteDeadline(t time.Time) error {
	return w.deadline(w.c.conn.SetWriteDeadline, t)
}

func (w *Response) deadline(set func(time.Time) error, t time.Time) error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.answering != w { // whoever is late does not hit the next request
		return http.ErrHandlerTimeout
	}
	w.c.foreign = true
	return set(t)
}
