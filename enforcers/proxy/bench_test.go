package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
)

// plainUpstream answers each request of a known length with the same, and
// allocates nothing.
func plainUpstream(b *testing.B, length int) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	const body = `{"usage":{"input_tokens":10,"output_tokens":2}}`
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				in := bufio.NewReader(c)
				for skip(in, length) == nil {
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// skip reads over a head and a body.
func skip(in *bufio.Reader, length int) error {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			_, err := in.Discard(length)
			return err
		}
	}
}

// BenchmarkRequest is a small request by way of the proxy, with peers that
// cost next to nothing.
func BenchmarkRequest(b *testing.B) {
	upstream := plainUpstream(b, len(simple))
	r := newRig(b, func(o *Options) { o.Proxy.Upstream, o.Audit = upstream, nil })
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	request := fmt.Appendf(nil, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s", r.token, len(simple), simple)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if err := skip(in, len(`{"usage":{"input_tokens":10,"output_tokens":2}}`)); err != nil && err != io.EOF {
			b.Fatal(err)
		}
	}
}
