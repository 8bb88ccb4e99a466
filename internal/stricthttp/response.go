package stricthttp

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// response is the http.ResponseWriter. Its head goes out together with what is
// written before the first flush. Without a Content-Length the body is chunked.
type response struct {
	c      *serving
	r      *http.Request
	body   *body
	header http.Header
	out    *bufio.Writer // nil while nothing waits to be sent

	status  int   // 0 before WriteHeader
	begun   bool  // the head was written
	chunked bool  // the body is
	left    int64 // of a body with a length, -1 for none
	close   bool  // the connection ends with the answer
	failed  bool
}

func (w *response) Header() http.Header { return w.header }

// WriteHeader takes the first final status.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

// bodyless tells whether the answer has no body (RFC 9110, section 6.4.1).
func (w *response) bodyless() bool {
	return w.r.Method == http.MethodHead || w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// begin writes the head; ends says that no body will follow.
func (w *response) begin(ends bool) {
	if w.begun {
		return
	}
	w.begun = true
	w.WriteHeader(http.StatusOK)
	asked := strings.EqualFold(w.header.Get("Connection"), "close")
	w.close = w.r.Close || asked || !w.body.skip() || w.c.server.ends()
	w.open()
	_, err := w.out.Write(w.head(w.out.AvailableBuffer(), ends))
	w.failed = err != nil
}

// head appends the head to line.
func (w *response) head(line []byte, ends bool) []byte {
	line = append(line, "HTTP/1.1 "...)
	line = strconv.AppendInt(line, int64(w.status), 10)
	line = append(append(line, ' '), http.StatusText(w.status)...)
	line = append(line, "\r\n"...)
	if w.header["Date"] == nil {
		line = append(line, w.c.server.dateLine(time.Now())...)
	}
	line = w.frame(line, ends)
	for name, values := range w.header {
		switch name {
		case "Connection", "Content-Length", "Transfer-Encoding": // are frame's
		default:
			line = w.fields(line, name, values)
		}
	}
	return append(line, "\r\n"...)
}

// fields appends the fields of one name to line.
func (w *response) fields(line []byte, name string, values []string) []byte {
	valid := httpguts.ValidHeaderFieldName(name)
	for _, v := range values {
		if !valid || strings.IndexByte(v, '\r') >= 0 || strings.IndexByte(v, '\n') >= 0 { // would be another header, or a body
			w.c.server.Log.Error("a header of an answer is left out: it is malformed", "name", name)
			continue
		}
		line = append(append(line, name...), ": "...)
		line = append(append(line, v...), "\r\n"...)
	}
	return line
}

// frame decides how the body's end is told, and appends what tells it, and
// whether the connection ends, to line.
func (w *response) frame(line []byte, ends bool) []byte {
	if w.close {
		line = append(line, "Connection: close\r\n"...)
	}
	values := w.header["Content-Length"]
	length, ok := int64(0), false
	if len(values) == 1 {
		length, ok = number([]byte(values[0]))
	}
	switch {
	case w.status == http.StatusNoContent:
	case ok:
		if w.status != http.StatusNotModified {
			w.left = length
		}
		line = w.fields(line, "Content-Length", values)
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

func (w *response) open() {
	if w.out == nil {
		w.out = w.c.server.writer(w.c.conn)
	}
}

func (w *response) Write(p []byte) (int, error) {
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

// Flush is FlushError.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what was written.
func (w *response) FlushError() error {
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
func (w *response) release() {
	if w.out != nil {
		w.c.server.giveBack(w.out)
		w.out = nil
	}
}

// finish sends what is left. It returns false when the connection ends.
func (w *response) finish() (keep bool) {
	w.begin(true)
	if w.chunked {
		w.open()
		_, _ = w.out.WriteString("0\r\n\r\n") // its error stays
	}
	err := w.FlushError()
	return err == nil && !w.failed && !w.close && (w.left <= 0 || w.bodyless())
}

// SetReadDeadline is for http.ResponseController, as are the others. Any may be
// called while the answer is written.
func (w *response) SetReadDeadline(t time.Time) error { return w.deadline(w.c.conn.SetReadDeadline, t) }

// SetWriteDeadline bounds writes.
func (w *response) SetWriteDeadline(t time.Time) error {
	return w.deadline(w.c.conn.SetWriteDeadline, t)
}

func (w *response) deadline(set func(time.Time) error, t time.Time) error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.answering != w { // whoever is late does not hit the next request
		return http.ErrHandlerTimeout
	}
	w.c.foreign = true
	return set(t)
}

// EnableFullDuplex does nothing: a body can always be read while the answer is written.
func (w *response) EnableFullDuplex() error { return nil }
