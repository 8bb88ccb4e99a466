package proxy

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/enforcers/proxy/token"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aicodesit/cordon/internal/llmtest"
	"github.com/aicodesit/cordon/specs"
)

func TestForwardsAMessage(t *testing.T) {
	r := newRig(t, nil)
	status, body := r.do(r.post(simple, "Anthropic-Beta", "a-1,b-2", "Anthropic-Beta", "c-3", "Anthropic-Version", "2023-06-01", "User-Agent", "client/1"))
	if status != http.StatusOK || !strings.Contains(body, `"text":"ok"`) {
		t.Fatalf("got %d %s", status, body)
	}
	seen := r.up.Requests()
	if len(seen) != 1 {
		t.Fatalf("%d requests came", len(seen))
	}
	got := seen[0]
	if got.URI != "/v1/messages?beta=true" || string(got.Body) != simple {
		t.Errorf("got %s %s", got.URI, got.Body)
	}
	want := http.Header{
		"Accept-Encoding": {"identity"}, "Anthropic-Beta": {"a-1,b-2", "c-3"}, "Anthropic-Version": {"2023-06-01"}, "Content-Length": {fmt.Sprint(len(simple))},
		"Content-Type": {"application/json"}, "User-Agent": {"client/1"}, "X-Api-Key": {realKey},
	}
	if fmt.Sprint(got.Header) != fmt.Sprint(want) {
		t.Errorf("header %v\nwant   %v", got.Header, want)
	}
}

func TestStreamsToolUse(t *testing.T) {
	r := newRig(t, nil)
	body := `{"stream":true,"model":"claude-test-1","max_tokens":100,"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"source":{"type":"url"}}}}],"messages":[{"role":"user","content":"run: id"}]}`
	status, direct := r.do(r.post(body))
	if status != http.StatusOK {
		t.Fatal(status, direct)
	}
	for _, want := range []string{"event: message_start\n", `"type":"tool_use"`, `"type":"input_json_delta"`, `"stop_reason":"tool_use"`, "event: message_stop\n"} {
		if !strings.Contains(direct, want) {
			t.Errorf("lacks %q", want)
		}
	}
	eventually(t, "the audit has the usage", func() bool { return strings.Contains(r.audit.String(), `"output_tokens":3`) })
	line := r.audit.String()
	for _, want := range []string{`"session":"aaaaaaaa"`, `"project":"shop"`, `"model":"claude-test-1"`, `"status":200`, `"input_tokens":10`, `"upstream":"default"`} {
		if !strings.Contains(line, want) {
			t.Errorf("the audit lacks %s: %s", want, line)
		}
	}
	for _, not := range []string{realKey, r.token, "run: id"} {
		if strings.Contains(line, not) {
			t.Errorf("the audit tells %s", not)
		}
	}
}

// Whatever a client calls a credential, it does not get through; the
// connection's own headers don't either.
func TestStripsHeaders(t *testing.T) {
	r := newRig(t, nil)
	strip := []string{
		"Cookie", "X-Goog-Api-Key", "Api-Key", "X-Auth-Token", "X-Amz-Security-Token", "X-Amz-Date", "X_Api_Key", "Anthropic-Auth-Token", "Anthropic-Api-Key", "X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via", "Keep-Alive", "X-Http-Method-Override",
		"X-Original-Url", "X-Rewrite-Url", "Openai-Organization", "Private-Token", "X-Stainless-Secret", "Host2", "Range", "Expect2", "Content-Encoding", "Accept-Charset",
	}
	var header []string
	for _, name := range strip {
		header = append(header, name, "stolen")
	}
	keep := []string{"X-Stainless-Lang", "X-App", "X-Claude-Code-Session-Id", "Anthropic-Dangerous-Direct-Browser-Access"}
	for _, name := range keep {
		header = append(header, name, "kept")
	}
	req := r.post(simple, header...)
	req.Header["authorization"] = nil
	if status, body := r.do(req); status != http.StatusOK {
		t.Fatal(status, body)
	}
	got := r.up.Requests()[0].Header
	for name, values := range got {
		if slices.Contains(values, "stolen") {
			t.Errorf("%s came through", name)
		}
	}
	for _, name := range keep {
		if got.Get(name) != "kept" {
			t.Errorf("%s did not come through", name)
		}
	}
}

func TestCredentials(t *testing.T) {
	r := newRig(t, nil)
	foreign, _ := r.session("127.0.0.2", "bbbbbbbb", "")
	for _, tt := range []struct {
		name   string
		header http.Header
		status int
		kind   string
	}{
		{"key", http.Header{"X-Api-Key": {r.token}}, 200, ""},
		{"bearer", http.Header{"Authorization": {"Bearer " + r.token}}, 200, ""},
		{"bearer in small letters", http.Header{"Authorization": {"bearer " + r.token}}, 200, ""},
		{"both, the same", http.Header{"X-Api-Key": {r.token}, "Authorization": {"Bearer " + r.token}}, 200, ""},
		{"both, different", http.Header{"X-Api-Key": {r.token}, "Authorization": {"Bearer other"}}, 400, "invalid_request_error"},
		{"both, one empty", http.Header{"X-Api-Key": {r.token}, "Authorization": {"Bearer "}}, 400, "invalid_request_error"},
		{"key twice", http.Header{"X-Api-Key": {r.token, r.token}}, 400, "invalid_request_error"},
		{"bearer twice", http.Header{"Authorization": {"Bearer " + r.token, "Bearer " + r.token}}, 400, "invalid_request_error"},
		{"basic", http.Header{"Authorization": {"Basic " + r.token}}, 400, "invalid_request_error"},
		{"none", http.Header{}, 401, "authentication_error"},
		{"empty", http.Header{"X-Api-Key": {""}}, 401, "authentication_error"},
		{"another session's", http.Header{"X-Api-Key": {foreign}}, 403, "permission_error"},
		{"the real one", http.Header{"X-Api-Key": {realKey}}, 403, "permission_error"},
		{"the hash", http.Header{"X-Api-Key": {hash(r.token)}}, 403, "permission_error"},
		{"a part", http.Header{"X-Api-Key": {r.token[:len(r.token)-1]}}, 403, "permission_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := r.post(simple)
			req.Header = tt.header
			before := len(r.up.Requests())
			status, body := r.do(req)
			if tt.status == 200 {
				if status != 200 {
					t.Errorf("got %d %s", status, body)
				}
				return
			}
			refused(t, status, body, tt.status, tt.kind)
			if len(r.up.Requests()) != before {
				t.Error("it came to the upstream")
			}
		})
	}
}

// A token is worth nothing outside of its session's slot, after its time, at
// another proxy, and once the session is over.
func TestTokenIsBound(t *testing.T) {
	r := newRig(t, nil)
	r.session("127.0.0.2", "bbbbbbbb", "")
	check := func(what, from string) {
		t.Helper()
		status, body := r.doFrom(from, r.post(simple))
		if t.Run(what, func(t *testing.T) { refused(t, status, body, 403, "permission_error") }); len(r.up.Requests()) != 0 {
			t.Fatal("it came to the upstream")
		}
	}
	check("from another session", "127.0.0.2")
	check("from an address without a session", "127.0.0.3")
	alter := func(change func(*Session)) {
		r.sessions.mu.Lock()
		defer r.sessions.mu.Unlock()
		for a, s := range r.sessions.m {
			change(&s)
			r.sessions.m[a] = s
		}
	}
	alter(func(s *Session) { s.Token.Proxy = "other" })
	check("for another proxy", "127.0.0.1")
	alter(func(s *Session) { s.Token.Proxy, s.Token.Expires = "llm", time.Now() })
	check("expired", "127.0.0.1")
	alter(func(s *Session) { s.Token.Expires = time.Now().Add(time.Hour) })
	r.end()
	check("after the end", "127.0.0.1")
	alter(func(s *Session) { s.Token = token.Token{} })
	check("revoked", "127.0.0.1")
}

func TestUpstreamsAnswers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect was followed with %v", r.Header)
	}))
	defer elsewhere.Close()
	answer := func(w http.ResponseWriter, r *http.Request) {}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer up.Close()
	r := newRig(t, func(o *Options) { o.Proxy.Upstream = up.URL })
	for _, status := range []int{301, 302, 303, 304, 307, 308} {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(status)
		}
		got, body := r.do(r.post(simple))
		refused(t, got, body, 502, "api_error")
	}
	answer = func(w http.ResponseWriter, _ *http.Request) {
		llmtest.Error(w, 401, "authentication_error", "invalid "+realKey)
	}
	got, body := r.do(r.post(simple))
	refused(t, got, body, 403, "permission_error")
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Debug", "key="+realKey)
		llmtest.Error(w, 400, "invalid_request_error", "with "+realKey)
	}
	if got, body = r.do(r.post(simple)); got != 400 || !strings.Contains(body, "with [redacted]") {
		t.Errorf("got %d %s", got, body)
	}
	answer = func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Set-Cookie", "Www-Authenticate", "Alt-Svc", "X-Debug", "X-Hop", "Proxy-Authenticate"} {
			w.Header().Set(name, "v")
		}
		w.Header().Set("X-Debug", "key="+realKey)
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("Anthropic-Ratelimit-Tokens-Remaining", "7")
		w.Header().Set("Retry-After", "9")
		llmtest.Error(w, 429, "rate_limit_error", "slow down")
	}
	resp, err := r.from("127.0.0.1").Do(r.post(simple))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "9" || resp.Header.Get("Anthropic-Ratelimit-Tokens-Remaining") != "7" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
	for _, name := range []string{"Set-Cookie", "Www-Authenticate", "Alt-Svc", "X-Debug", "X-Hop", "Proxy-Authenticate"} {
		if resp.Header[name] != nil {
			t.Errorf("%s came through", name)
		}
	}
}

// An answer that breaks off reaches the client as one that breaks off.
func TestBrokenAnswerIsNotWhole(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: ping\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer up.Close()
	r := newRig(t, func(o *Options) { o.Proxy.Upstream = up.URL })
	resp, err := r.from("127.0.0.1").Do(r.post(streamed))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
	}
	if lines.Err() == nil {
		t.Error("the end looks like an end")
	}
	eventually(t, "the audit says so", func() bool { return strings.Contains(r.audit.String(), `"reason":"broken"`) })
}

// A token in a place where none belongs is not told on.
func TestAuditRedacts(t *testing.T) {
	r := newRig(t, nil)
	for _, secret := range []string{r.token, "sk-ant-another"} {
		r.raw("GET /v1/" + secret + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		status, body := r.do(r.post(strings.Replace(simple, "claude-test-1", secret, 1)))
		if status != http.StatusOK {
			t.Errorf("%d %s", status, body)
		}
		eventually(t, "both are in the audit", func() bool { return strings.Count(r.audit.String(), "[redacted]") >= 2 })
		if strings.Contains(r.audit.String(), secret) {
			t.Errorf("the audit tells: %s", r.audit)
		}
	}
	if got := shown("/disk-1/"+strings.Repeat("x", 300), ""); len(got) > 210 || !strings.HasPrefix(got, "/disk-1/") {
		t.Error(got)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	r := newRig(t, func(o *Options) { o.Metrics = registry })
	r.do(r.post(simple))
	r.do(r.post(simple, "X-Api-Key", "twice"))
	got := ""
	eventually(t, "both are counted", func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got = fmt.Sprint(families)
		return strings.Contains(got, `value:"200"`) && strings.Contains(got, `value:"400"`) && strings.Contains(got, `value:"malformed"`)
	})
	if !strings.Contains(got, "cordon_proxy_tokens_total") || strings.Contains(got, "aaaaaaaa") {
		t.Error(got)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, p := range map[string]specs.Proxy{
		"no upstream":        {},
		"plain http":         {Upstream: "http://api.example"},
		"a user in the URL":  {Upstream: "https://u:p@api.example"},
		"a query in the URL": {Upstream: "https://api.example/?x"},
		"files undeclared":   {Upstream: "https://api.example", Paths: []string{"/v1/files"}},
		"batches undeclared": {Upstream: "https://api.example", Paths: []string{"POST /v1/messages/batches"}},
		"a relative path":    {Upstream: "https://api.example", Paths: []string{"v1"}},
		"a prefix":           {Upstream: "https://api.example", Paths: []string{"/v1/*"}},
		"kind":               {Upstreams: []specs.Upstream{{Name: "x", Kind: "y", URL: "https://api.example"}}},
		"two kinds, one path": {Upstream: "https://api.example", Upstreams: []specs.Upstream{
			{Name: "x", Kind: specs.UpstreamOpenAI, URL: "https://api.example", Paths: []string{"/v1/messages"}},
		}},
		"bedrock without a region": {Upstreams: []specs.Upstream{{Name: "x", Kind: specs.UpstreamBedrock, URL: "https://b.example", Credential: "aws"}}},
	} {
		if _, err := New(Options{Proxy: p}); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), ":p@") {
			t.Errorf("%s: tells the password: %v", name, err)
		}
	}
}
