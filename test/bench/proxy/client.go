package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bodies of requests: a small one, one of the size that agents send, the small
// one streamed, that after a thought, and a stream that goes on.
const small = `{"model":"claude-test-1","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`

var (
	typical   = strings.Replace(small, "hi", strings.Repeat("word ", 16_000), 1)
	streaming = strings.Replace(small, "{", `{"stream":true,`, 1)
	thinking  = strings.Replace(streaming, "{", `{"think":true,`, 1)
	idling    = strings.Replace(typical, "{", `{"stream":true,"idle":true,`, 1)
)

// client is one connection to a peer, from the session's address.
type client struct {
	conn  net.Conn
	in    *bufio.Reader
	token string
}

func dial(p *peer) (*client, error) { return dialFrom(p, 0) }

// dialFrom connects from the address of a slot.
func dialFrom(p *peer, slot int) (*client, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: slotAddr(slot)}, Timeout: 5 * time.Second}
	conn, err := d.Dial("tcp", p.addr)
	if err != nil {
		return nil, err
	}
	token := ""
	if len(p.tokens) > 0 {
		token = p.tokens[slot]
	}
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 4096), token: token}, nil
}

func (c *client) close() { _ = c.conn.Close() }

func (c *client) send(body string) (*http.Response, error) {
	head := fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: llm\r\nContent-Type: application/json\r\nAnthropic-Version: 2023-06-01\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n", c.token, len(body))
	if _, err := io.WriteString(c.conn, head+body); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err == nil && resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		err = fmt.Errorf("%s: %.200s", resp.Status, text)
	}
	return resp, err
}

// request does one and tells how long its whole answer took.
func (c *client) request(body string) (time.Duration, error) {
	begin := time.Now()
	resp, err := c.send(body)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return time.Since(begin), err
}

// first does one and tells how long its first event took.
func (c *client) first(body string) (time.Duration, error) {
	begin := time.Now()
	resp, err := c.send(body)
	if err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 16)); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	_, err = io.Copy(io.Discard, resp.Body)
	return took, err
}

// flood does requests from so many connections for a time and returns how
// long one took of it, and how much processor time of the peer.
func (p *peer) flood(connections int, d time.Duration) (per, cpu time.Duration, err error) {
	before, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	var wait sync.WaitGroup
	var count atomic.Int64
	errs := make(chan error, connections)
	begin := time.Now()
	for range connections {
		wait.Go(func() {
			c, err := dial(p)
			if err != nil {
				errs <- err
				return
			}
			defer c.close()
			for time.Since(begin) < d {
				if _, err := c.request(small); err != nil {
					errs <- err
					return
				}
				count.Add(1)
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	after, err := p.cpu()
	if err != nil {
		return 0, 0, err
	}
	select {
	case err := <-errs:
		return 0, 0, err
	default:
	}
	n := time.Duration(count.Load())
	if n == 0 {
		return 0, 0, errors.New("no request was answered")
	}
	return took / n, (after - before) / n, nil
}

// idle opens so many streams that say nothing more and returns by how much
// the peer's resident memory grew, and to what.
func (p *peer) idle(streams int) (grown, whole int64, err error) {
	before, err := p.resident()
	if err != nil {
		return 0, 0, err
	}
	for i := range streams {
		c, err := dialFrom(p, i%slots)
		if err != nil {
			return 0, 0, err
		}
		defer c.close()
		resp, err := c.send(idling)
		if err != nil {
			return 0, 0, err
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 16)); err != nil {
			return 0, 0, err
		}
	}
	after, err := p.resident()
	return after - before, after, err
}
