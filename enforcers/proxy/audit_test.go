package proxy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// Each request has a line of JSON, whatever stands in it.
func TestAuditLine(t *testing.T) {
	var got lockedBuffer
	s := &Server{audit: newAuditor(&got), spec: specs.Proxy{Name: "llm"}}
	odd := "/v1/\"\\\x00\x7f\n\u2028é\xff<&>"
	x := exchange{
		start: time.Now().Add(-1500 * time.Microsecond), session: Session{Lease: specs.Lease{ID: "00000001", Project: "shop"}}, addr: netip.MustParseAddr("10.202.0.2"),
		method: "POST", path: odd, model: "claude-\"1", upstream: "a", status: 200, used: usage{Input: 3, CacheRead: 4, Output: 5}, spent: 6, sent: 7, first: time.Millisecond,
	}
	x.log(s)
	(&exchange{start: time.Now(), status: 403, reason: "token"}).log(s)
	s.audit.write()
	first, second, _ := strings.Cut(strings.TrimSuffix(got.String(), "\n"), "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(first), &fields); err != nil {
		t.Fatalf("%v: %s", err, first)
	}
	when, err := time.Parse(time.RFC3339Nano, fmt.Sprint(fields["time"]))
	if ms := fields["ms"].(float64); err != nil || time.Since(when) > time.Hour || ms < 1.5 {
		t.Errorf("time %v (%v), ms %v", when, err, ms)
	}
	delete(fields, "time")
	delete(fields, "ms")
	want := map[string]any{
		"level": "INFO", "msg": "request", "proxy": "llm", "session": "00000001", "project": "shop", "address": "10.202.0.2", "method": "POST",
		"path": strings.ToValidUTF8(odd, "\ufffd"), "status": 200.0, "upstream": "a", "model": "claude-\"1", "input_tokens": 7.0, "cache_read_tokens": 4.0,
		"output_tokens": 5.0, "bytes": 7.0, "first_ms": 1.0, "money": 6.0,
	}
	if !reflect.DeepEqual(fields, want) {
		t.Errorf("%v,\nwant %v", fields, want)
	}
	if !json.Valid([]byte(second)) || !strings.Contains(second, `"reason":"token"`) || strings.Contains(second, "upstream") {
		t.Error(second)
	}
}

// All lines are written, each whole; without an audit none is.
func TestAuditWhole(t *testing.T) {
	var got lockedBuffer
	s := &Server{audit: newAuditor(&got)}
	const lines = 2000
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range lines / 4 {
				(&exchange{start: time.Now(), path: "/v1/messages"}).log(s)
			}
		})
	}
	wait.Wait()
	eventually(t, "all lines come", func() bool { return strings.Count(got.String(), "\n") == lines })
	for line := range strings.Lines(got.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatal(line)
		}
	}
	(&exchange{}).log(&Server{})
	(&Server{}).audit.write()
}
