package broker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/aicodesit/cordon/internal/strictjson"
)

// The largest frames that are read, in bytes.
const (
	maxRequest = 16 << 10 // by the daemon, of anyone
	maxBegin   = 16 << 20 // by a runner: what execve(2) takes at most, in base64, and more
	maxSignal  = 1 << 10  // by a runner later
	maxAnswer  = 64 << 20 // by who trusts the sender
)

const headerLen = 4

// frame is v as it is sent.
func frame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("a message of %d bytes is too long", len(body))
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

func writeFrame(w io.Writer, v any) error {
	b, err := frame(v)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// readFrame reads exactly one frame, and nothing behind it, into v. It returns
// io.EOF only where no frame begins.
func readFrame(r io.Reader, limit int, v any) error {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	return readBody(r, header, limit, v)
}

func readBody(r io.Reader, header [headerLen]byte, limit int, v any) error {
	n := binary.BigEndian.Uint32(header[:])
	if int64(n) > int64(limit) {
		return fmt.Errorf("a message of %d bytes, more than %d", n, limit)
	}
	// It grows as it comes: to announce much costs nothing.
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(body) < int(n) {
		return io.ErrUnexpectedEOF
	}
	return decode(body, v)
}

// decode reads one JSON value in which everything is known and nothing stands
// twice.
func decode(body []byte, v any) error {
	if len(body) == 0 {
		return errors.New("JSON: nothing there")
	}
	if err := strictjson.Walk(body, func(strictjson.Path, strictjson.Value) error { return nil }); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
