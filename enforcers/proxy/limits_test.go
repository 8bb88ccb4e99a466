package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/killtest"
	"github.com/aicodesit/cordon/internal/llmtest"
	"github.com/aicodesit/cordon/specs"
)

func TestBodyLimit(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Proxy.Limit = &specs.ProxyLimit{Body: int64(len(simple))} })
	if status, body := r.do(r.post(simple)); status != 200 {
		t.Fatalf("got %d %s for a body of just the size", status, body)
	}
	status, body := r.do(r.post(simple + " "))
	refused(t, status, body, 413, "request_too_large")
	// One that is announced is refused before it comes.
	status, body = r.raw(fmt.Sprintf("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 1000000\r\n\r\n", r.token))
	refused(t, status, body, 413, "request_too_large")
	// Without an announced length the limit is found while it comes.
	req := r.post("")
	req.Body, req.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(simple), strings.NewReader(" "))), -1
	status, body = r.do(req)
	refused(t, status, body, 413, "request_too_large")
	if n := len(r.up.Requests()); n != 1 {
		t.Errorf("%d came to the upstream", n)
	}
}

func TestBodyEndsEarly(t *testing.T) {
	r := newRig(t, nil)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 1000\r\n\r\n%s", r.token, simple)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(c)
	eventually(t, "its memory is given back", func() bool { return r.server.gates.memory.Load() == 0 })
	eventually(t, "it is refused", func() bool { return strings.Contains(r.audit.String(), `"status":400`) })
	if len(r.up.Requests()) != 0 {
		t.Error("a part came to the upstream")
	}
}

// A body that does not come ends its request, and gives its memory back.
func TestSlowBody(t *testing.T) {
	r := newRig(t, nil)
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\nContent-Length: 1000\r\n\r\n{", r.token)
	eventually(t, "it is being read", func() bool { return r.server.gates.memory.Load() > 0 })
	r.server.reads.end(time.Now().Add(-bodyPatience)) // it began later
	r.server.reads.end(time.Now())
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%v: %s", err, answer)
	}
	eventually(t, "its memory is given back", func() bool { return r.server.gates.memory.Load() == 0 })
}

// half sends a request that ends with rest, which lacks some of its body, and returns
// its connection once the body is being read.
func (r *rig) half(rest string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: %s\r\n%s", r.token, rest)
	eventually(r.t, "it is being read", func() bool { return r.server.gates.memory.Load() > 0 })
	return c
}

// A body that still comes when the session ends, or its token's time is over, is
// not waited for: the client is told why, and its connection ends.
func TestEndBeforeTheBody(t *testing.T) {
	for reason, cause := range map[string]error{"ended": errEnded, "expired": errExpired} {
		for _, rest := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"} {
			r := newRig(t, nil)
			alive, end := context.WithCancelCause(context.Background())
			defer end(nil)
			r.sessions.mu.Lock()
			for a, s := range r.sessions.m {
				s.Alive = alive
				r.sessions.m[a] = s
			}
			r.sessions.mu.Unlock()
			c := r.half(rest)
			end(cause)
			if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil { // far less than bodyPatience
				t.Fatal(err)
			}
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err == nil && resp.StatusCode == http.StatusContinue {
				resp, err = http.ReadResponse(in, nil)
			}
			if err != nil {
				t.Fatalf("%v, %q: %v", cause, rest, err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			refused(t, resp.StatusCode, string(body), 403, "permission_error")
			if more, err := io.ReadAll(in); len(more) > 0 || err != nil {
				t.Errorf("%v, %q: the connection goes on: %q %v", cause, rest, more, err)
			}
			eventually(t, "the audit says so", func() bool { return strings.Contains(r.audit.String(), `"reason":"`+reason+`"`) })
			if held := r.server.gates.memory.Load(); held != 0 {
				t.Errorf("%d bytes are still held", held)
			}
			if len(r.up.Requests()) != 0 {
				t.Error("a part came to the upstream")
			}
		}
	}
}

// An address has so many connections and no more.
func TestConnectionsOfAnAddress(t *testing.T) {
	r := newRig(t, nil)
	for range perAddress {
		c, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	one, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if err := one.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := one.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more stays open: %v", err)
	}
	r.session("127.0.0.2", "bbbbbbbb", "")
	if status, _ := r.doFrom("127.0.0.2", r.post(simple)); status != 403 {
		t.Errorf("another address has no room: %d", status)
	}
}

// Memory for bodies is bounded for each session and for all, and taken as
// bytes come: announcing much holds nothing.
func TestBodyMemory(t *testing.T) {
	g := newGates(nil)
	one := &gate{all: g}
	if !one.hold(bodyMemory/4) || one.hold(1) {
		t.Error("a session's share is not a quarter")
	}
	two, three, four, five := &gate{all: g}, &gate{all: g}, &gate{all: g}, &gate{all: g}
	for _, other := range []*gate{two, three, four} {
		if !other.hold(bodyMemory / 4) {
			t.Error("another session has no share")
		}
	}
	if five.hold(1) {
		t.Error("there is no bound for all")
	}
	two.release(bodyMemory / 4)
	if !five.hold(1) {
		t.Error("what is given back can't be taken")
	}

	r := newRig(t, nil)
	r.half(fmt.Sprintf("Content-Length: %d\r\n\r\n{", defaultBody))
	if held := r.server.gates.memory.Load(); held > 256<<10 {
		t.Errorf("%d bytes are held for one that came", held)
	}
}

func TestRate(t *testing.T) {
	g := newGates(&specs.ProxyLimit{RequestsPerMinute: 2})
	one := &gate{all: g}
	now := time.Now()
	for i, tt := range []struct {
		at   time.Duration
		wait time.Duration
	}{{0, 0}, {time.Second, 0}, {2 * time.Second, 58 * time.Second}, {59 * time.Second, time.Second}, {60 * time.Second, 0}, {60 * time.Second, time.Second}, {61 * time.Second, 0}} {
		request := new(ending.Context)
		bad := one.enter(request, now.Add(tt.at))
		if bad == nil {
			one.leave(request)
		}
		if (bad == nil) != (tt.wait == 0) || bad != nil && bad.retry != tt.wait {
			t.Errorf("%d: got %+v, want to wait %v", i, bad, tt.wait)
		}
	}

	r := newRig(t, func(o *Options) { o.Proxy.Limit = &specs.ProxyLimit{RequestsPerMinute: 1} })
	if status, _ := r.do(r.post(simple)); status != 200 {
		t.Fatal(status)
	}
	resp, err := r.from("127.0.0.1").Do(r.post(simple))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	refused(t, resp.StatusCode, string(b), 429, "rate_limit_error")
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || after < 50 || after > 60 {
		t.Errorf("retry after %q", resp.Header.Get("Retry-After"))
	}
	// Another session has a rate of its own.
	token, _ := r.session("127.0.0.2", "bbbbbbbb", "")
	req := r.post(simple)
	req.Header.Set("X-Api-Key", token)
	if status, body := r.doFrom("127.0.0.2", req); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
}

func TestConcurrent(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Proxy.Limit = &specs.ProxyLimit{Concurrent: 2} })
	hold := make(chan struct{})
	held(r, hold)
	_, first := r.open("127.0.0.1", r.post(streamed))
	_, _ = r.open("127.0.0.1", r.post(streamed))
	status, body := r.do(r.post(simple))
	refused(t, status, body, 429, "rate_limit_error")
	close(hold)
	until(t, first, "message_stop")
	eventually(t, "there is room again", func() bool { status, _ := r.do(r.post(simple)); return status == 200 })
}

// A session's gate goes with it.
func TestGatesGo(t *testing.T) {
	r := newRig(t, nil)
	r.do(r.post(simple))
	r.end()
	eventually(t, "the gate is gone", func() bool {
		r.server.gates.mu.Lock()
		defer r.server.gates.mu.Unlock()
		return len(r.server.gates.open) == 0
	})
}

// However many ask at once, no more is spent than declared: each reserves the
// most it may take before it is sent.
func TestBudgetIsNotOverrunByMany(t *testing.T) {
	const each = 100 // output tokens, as max_tokens of simple
	r := newRig(t, func(o *Options) {
		o.Proxy.Budgets = []specs.Budget{{Scope: specs.BudgetProject, Every: time.Hour * 1000, OutputTokens: 5 * each}}
	})
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	r.up.Reply = func(llmtest.Request) llmtest.Reply {
		<-hold
		return llmtest.Reply{Text: "ok", Output: each}
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 20 {
		wait.Go(func() {
			resp, err := r.from("127.0.0.1").Do(r.post(simple))
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			statuses[resp.StatusCode]++
			if statuses[402] == 15 { // the others are all in flight
				release()
			}
		})
	}
	wait.Wait()
	if statuses[200] != 5 || statuses[402] != 15 || len(r.up.Requests()) != 5 {
		t.Errorf("answers by status: %v; %d came to the upstream", statuses, len(r.up.Requests()))
	}
	status, body := r.do(r.post(simple))
	refused(t, status, body, 402, "billing_error")
}

// What was reserved and not used is given back; what is dropped is charged.
func TestBudgetSettles(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Proxy.Budgets = []specs.Budget{{Scope: specs.BudgetSession, OutputTokens: 150, Requests: 100}}
		o.Proxy.Prices = []specs.Price{{Model: "claude-*", Input: 3_000_000, Output: 15_000_000}}
	})
	r.up.Reply = func(llmtest.Request) llmtest.Reply {
		return llmtest.Reply{Text: "ok", Output: 10, InputUsed: 7, CacheRead: 20}
	}
	spent := func() amount {
		r.server.ledger.mu.Lock()
		defer r.server.ledger.mu.Unlock()
		for _, a := range r.server.ledger.accounts {
			if a.reserved == (amount{}) {
				return a.spent
			}
		}
		return amount{Requests: -1}
	}
	for i := int64(1); i <= 3; i++ {
		if status, body := r.do(r.post(streamed)); status != 200 {
			t.Fatal(status, body)
		}
		// 7 at 3, 20 from the cache at 0.3, 10 at 15, in millionths
		want := amount{Requests: i, Input: 27 * i, Output: 10 * i, Money: (21 + 6 + 150) * i}
		eventually(t, fmt.Sprintf("%+v is spent", want), func() bool { return spent() == want })
	}
	// An upstream that refuses costs a request and no tokens.
	r.up.Reply = func(llmtest.Request) llmtest.Reply { return llmtest.Reply{Status: 500} }
	r.do(r.post(simple))
	eventually(t, "a failure is free", func() bool { s := spent(); return s.Output == 30 && s.Requests == 4 })
	// One who hangs up before the count is charged what went by, and not nothing.
	held(r, make(chan struct{}))
	resp, _ := r.open("127.0.0.1", r.post(streamed))
	_ = resp.Body.Close()
	eventually(t, "a dropped stream is charged", func() bool {
		s := spent()
		return s.Requests == 5 && s.Output > 30 && s.Output <= 130 && s.Input == 81+10
	})
}

func TestBudgetOfMoney(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Proxy.Budgets = []specs.Budget{{Scope: specs.BudgetProxy, Money: 4000}} // 0.004
		o.Proxy.Prices = []specs.Price{{Model: "claude-test-1", Input: 3_000_000, Output: 15_000_000}}
	})
	r.up.Reply = func(llmtest.Request) llmtest.Reply { return llmtest.Reply{Text: "ok", Output: 100} }
	if status, body := r.do(r.post(simple)); status != 200 { // at most 100 × 15 + 86 × 6, takes 1530
		t.Fatal(status, body)
	}
	eventually(t, "settled", func() bool { status, _ := r.do(r.post(simple)); return status == 200 })
	status, body := r.do(r.post(simple))
	refused(t, status, body, 402, "billing_error")
	status, body = r.do(r.post(strings.Replace(simple, "claude-test-1", "unpriced", 1)))
	refused(t, status, body, 403, "permission_error")
	req, err := http.NewRequest(http.MethodGet, "http://"+r.addr+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", r.token)
	if status, body := r.do(req); status != 200 {
		t.Errorf("a list of models costs: %d %s", status, body)
	}
}

// Budgets hold over restarts, those of what was in flight too; a file that
// can't be read lets nothing begin anew.
func TestBudgetIsKept(t *testing.T) {
	dir := t.TempDir()
	declare := func(o *Options) {
		o.State = dir
		o.Proxy.Budgets = []specs.Budget{{Scope: specs.BudgetProject, Requests: 2}}
	}
	r := newRig(t, declare)
	if status, _ := r.do(r.post(simple)); status != 200 {
		t.Fatal(status)
	}
	held(r, make(chan struct{}))
	_, _ = r.open("127.0.0.1", r.post(streamed))
	path := filepath.Join(dir, "budget-llm.json")
	eventually(t, "it is written while the request runs", func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(b), `"requests": 2`)
	})
	r.end()
	r.stop()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	r = newRig(t, declare)
	status, body := r.do(r.post(simple))
	refused(t, status, body, 402, "billing_error")
	r.stop()
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Proxy: specs.Proxy{Name: "llm", Upstream: "https://a.example"}, State: dir}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestBudgetPeriods(t *testing.T) {
	day := specs.Budget{Scope: specs.BudgetProject, Every: 24 * time.Hour, Requests: 1}
	l := newLedger([]specs.Budget{day, {Scope: specs.BudgetSession, Requests: 3}})
	now := time.Date(2026, 3, 1, 23, 59, 59, 0, time.UTC)
	l.now = func() time.Time { return now }
	shop := Session{Lease: specs.Lease{ID: "aaaaaaaa", Project: "shop"}}
	again := Session{Lease: specs.Lease{ID: "bbbbbbbb", Project: "shop"}}
	other := Session{Lease: specs.Lease{ID: "cccccccc", Project: "blog"}}
	take := func(s Session, want bool) {
		t.Helper()
		_, bad := l.reserve(nil, &s, amount{Requests: 1})
		if (bad == nil) != want {
			t.Errorf("%s at %s: %v", s.Lease.ID, now, bad)
		}
	}
	take(shop, true)
	take(again, false) // the project has had its one
	take(other, true)
	now = now.Add(time.Second)
	take(again, true)
	take(shop, false)
	now = now.Add(24 * time.Hour)
	take(shop, true)
	now = now.Add(24 * time.Hour)
	take(shop, true)
	now = now.Add(24 * time.Hour)
	take(shop, false) // the session has had its three

	path := filepath.Join(t.TempDir(), "b")
	for _, a := range l.accounts {
		a.reserved = amount{}
	}
	if err := l.save(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f ledgerFile
	if err := json.Unmarshal(b, &f); err != nil || len(f.Accounts) != 3 { // the sessions; all days are over
		t.Errorf("%v: %s", err, b)
	}
}

func TestPriceOfAModel(t *testing.T) {
	p := prices{{Model: "claude-*", Input: 1}, {Model: "claude-opus-*", Input: 2}, {Model: "claude-opus-9", Input: 3}, {Model: "c*", Input: 4}}
	for model, want := range map[string]int64{"claude-haiku-1": 1, "claude-opus-4": 2, "claude-opus-9": 3, "cx": 4} {
		if got, ok := p.find(model); !ok || got.Input != want {
			t.Errorf("%s: %d %v, want %d", model, got.Input, ok, want)
		}
	}
	if _, ok := p.find("gpt"); ok {
		t.Error("a price for a model without one")
	}
}

func TestCost(t *testing.T) {
	p := specs.Price{Input: 3_000_000, Output: 15_000_000}.Complete()
	for _, tt := range []struct {
		u    usage
		want int64
	}{
		{usage{Input: 1_000_000}, 3_000_000},
		{usage{CacheRead: 1_000_000}, 300_000},
		{usage{CacheWrite: 1_000_000}, 3_750_000},
		{usage{CacheWriteLong: 1_000_000}, 6_000_000},
		{usage{Output: 1}, 15},
		{usage{CacheRead: 1}, 1}, // rounded up
		{usage{}, 0},
	} {
		if got := cost(p, tt.u); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.u, got, tt.want)
		}
	}
	if d := dearest(p, 10, 5); d != (usage{CacheWriteLong: 10, Output: 5}) {
		t.Errorf("%+v", d)
	}
}

func TestLedgerTidies(t *testing.T) {
	dir := killtest.Writing(t, "budget-llm.json", func(dir string) error {
		l := newLedger(nil)
		l.accounts[strings.Repeat("a", killtest.Large)], l.changed = &account{}, true
		return l.save(ledgerPath(dir, "llm"))
	})
	if err := newLedger(nil).load(ledgerPath(dir, "llm")); err != nil {
		t.Error(err)
	}
	killtest.Left(t, dir)
}
