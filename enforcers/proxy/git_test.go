package proxy

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/enforcers/proxy/token"
)

// Git is let in by slot and a token that lives, and shows none.
func TestGitNeedsALivingToken(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Git = func(w http.ResponseWriter, _ *http.Request, s Session, report func(int, string)) {
			report(http.StatusOK, "")
			fmt.Fprint(w, "for "+s.Lease.Project)
		}
	})
	get := func(addr string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, "http://"+r.addr+"/git/example.com/a.git/info/refs?service=git-upload-pack", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.doFrom(addr, req)
	}
	if status, body := get("127.0.0.1"); status != http.StatusOK || body != "for shop" {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get("127.0.0.9"); status != http.StatusForbidden || !strings.HasPrefix(body, "cordon: no session has this address") {
		t.Errorf("a stranger: %d %s", status, body)
	}
	for _, tt := range []struct {
		want   string
		change func(*Session)
	}{
		{"revoked", func(s *Session) { s.Token = token.Token{} }},
		{"has expired", func(s *Session) { s.Token.Expires = time.Now() }},
		{"not a token of this session\n", func(s *Session) { s.Token.Proxy = "another" }},
		{"has ended", func(*Session) { r.end() }},
	} {
		addr := netip.MustParseAddr("127.0.0.1")
		r.sessions.mu.Lock()
		before := r.sessions.m[addr]
		changed := before
		tt.change(&changed)
		r.sessions.m[addr] = changed
		r.sessions.mu.Unlock()
		status, body := get("127.0.0.1")
		if status != http.StatusForbidden || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %s", tt.want, status, body)
		}
		r.sessions.mu.Lock()
		r.sessions.m[addr] = before
		r.sessions.mu.Unlock()
	}
	eventually(t, "it is in the audit", func() bool { return strings.Contains(r.audit.String(), `"status":200`) })
}
