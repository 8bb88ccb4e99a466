package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func options(state func() (loop.State, []loop.Event)) Options {
	return Options{
		State:   func() loop.State { s, _ := state(); return s },
		Events:  func(int) ([]loop.Event, error) { _, e := state(); return e, nil },
		Alive:   func() error { return nil },
		Metrics: prometheus.NewRegistry(),
		Hosts:   []string{"cordon.example.org"},
		Log:     slog.New(slog.DiscardHandler),
	}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, path, "127.0.0.1:9464")
}

func ask(h http.Handler, method, path, host string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWhatIsAnswered(t *testing.T) {
	h := New(options(calm))
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/", "127.0.0.1:9464", 200},
		{"HEAD", "/", "[::1]:9464", 200},
		{"GET", "/style.css", "localhost", 200},
		{"GET", "/icon.svg", "LOCALHOST:1", 200},
		{"GET", "/metrics", "10.1.2.3:9464", 200},
		{"GET", "/healthz", "[fe80::1]", 200},
		{"GET", "/readyz", cmp.Or(own, "localhost"), 200}, // there are machines without a name
		{"GET", "/", "Cordon.example.org:9464", 200},
		{"POST", "/", "127.0.0.1", 405},
		{"DELETE", "/metrics", "127.0.0.1", 405},
		{"GET", "/page.html", "127.0.0.1", 404},
		{"GET", "/../doc.go", "127.0.0.1", 307},
		{"GET", "/", "rebound.example.com", 421},
		{"GET", "/", "127.0.0.1.example.com:9464", 421},
		{"GET", "/metrics", "localhost.example.com", 421},
		{"GET", "/", "", 421},
	} {
		w := ask(h, c.method, c.path, c.host)
		if w.Code != c.want {
			t.Errorf("%s %s of %q: %d, want %d", c.method, c.path, c.host, w.Code, c.want)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s %s of %q: %s is %q, want %q", c.method, c.path, c.host, name, got, want)
			}
		}
	}
}

func TestPage(t *testing.T) {
	long := func() (loop.State, []loop.Event) {
		s, _ := calm()
		for range 500 {
			s.Sessions = append(s.Sessions, s.Sessions[0])
			s.Parts[0].Pending = append(s.Parts[0].Pending, loop.Pending{Addr: "cgroup.x"})
		}
		return s, nil
	}
	again := func() (loop.State, []loop.Event) {
		s, events := calm()
		s.Revision.Before = true
		return s, events
	}
	nothing := func() (loop.State, []loop.Event) { return loop.State{Time: time.Now()}, nil }
	for _, c := range []struct {
		name        string
		state       func() (loop.State, []loop.Event)
		want, wrong []string
	}{
		{
			"calm", calm,
			[]string{"<h1>Converged</h1>", "Close the shop&#39;s orders", "3f2a9c17d04b", "signed by ann@example.org", "repaired after 80 ms", `<span class="badge notable">stale</span>`, `content="5"`},
			[]string{"Refused", "Paused", "Plan"},
		},
		{
			"troubled", troubled,
			[]string{
				"<h1>Failing</h1>", "postgres.main fails.", "Refused: <code>9b1c", "all.hcl:12:3: error", "Paused by user:ann", "upgrading PostgreSQL", "12 failures in a row, next try in 32 s",
				"repaired 14 times", "iptables-restore: line 3 failed", "3 changes", "not repaired yet", "192.0.2.7:443: connect",
			},
			nil,
		},
		{"begun anew", again, []string{"all had converged before this daemon began"}, []string{"converged after"}},
		{"long", long, []string{"and 404 more", "and 400 more"}, nil},
		{"nothing", nothing, []string{"<h1>Starting</h1>", "No revision is enforced", "No session runs", "Nothing has happened yet"}, nil},
		{"hostile", hostile, []string{"&lt;script&gt;", "\ufffd"}, []string{"<script", "<img", "<svg", "<iframe", "<style", "<form", "<base", "\u202e", "\x00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := get(New(options(c.state)), "/")
			page := w.Body.String()
			for _, want := range c.want {
				if !strings.Contains(page, want) {
					t.Errorf("no %q", want)
				}
			}
			for _, wrong := range c.wrong {
				if strings.Contains(page, wrong) {
					t.Errorf("there is %q", wrong)
				}
			}
			if w.Code != 200 || t.Failed() {
				t.Errorf("%d\n%s", w.Code, page)
			}
		})
	}
	if page := get(New(options(calm)), "/?refresh=off").Body.String(); strings.Contains(page, "http-equiv") {
		t.Error("a page that is held asks again")
	}
	o := options(calm)
	o.Events = func(int) ([]loop.Event, error) { return nil, errors.New("no disk") }
	if page := get(New(o), "/").Body.String(); !strings.Contains(page, "no disk") {
		t.Error("that there is no log is not told")
	}
}

func TestHealth(t *testing.T) {
	var s loop.State
	var stuck error
	o := options(func() (loop.State, []loop.Event) { return s, nil })
	o.Alive = func() error { return stuck }
	h := New(o)
	check := func(path string, code int, body string) {
		t.Helper()
		if w := get(h, path); w.Code != code || !strings.Contains(w.Body.String(), body) {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, code, body)
		}
	}
	check("/healthz", 200, "ok\n")
	check("/readyz", 503, "Nothing is enforced yet")
	s.Revision = &loop.Revision{ID: "1"}
	check("/readyz", 503, "Nothing was looked at yet")
	s.Parts = []loop.Part{{Name: "root", Condition: loop.Converged}, {Name: "network", Condition: loop.Waiting}}
	check("/readyz", 503, "network was not looked at yet")
	s.Parts[1].Condition = loop.Failing // it was looked at, which is what this is about
	check("/readyz", 200, "ok\n")
	stuck = errors.New("kernel has been at one step for 5m0s")
	check("/healthz", 503, "kernel has been")
}

// In a real browser nothing of what others wrote is markup: no script runs,
// nothing is fetched but the page's own, and the page is seen.
func TestBrowser(t *testing.T) {
	kerneltest.Program(t, "chromium")
	for name, state := range map[string]func() (loop.State, []loop.Event){"calm": calm, "troubled": troubled, "hostile": hostile} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			h := New(options(state))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.URL.Path)
				mu.Unlock()
				h.ServeHTTP(w, r)
			}))
			defer server.Close()
			shot := filepath.Join(t.ArtifactDir(), name+".png")
			dom := browse(t, server.URL+"/?refresh=off", "--dump-dom", "--screenshot="+shot)
			if info, err := os.Stat(shot); err != nil || info.Size() < 20_000 {
				t.Errorf("nothing is seen on the screenshot: %v", err)
			}
			if title := regexp.MustCompile(`(?s)<title>(.*?)</title>`).FindStringSubmatch(dom); title == nil || !strings.HasSuffix(title[1], " · cordon") {
				t.Errorf("the title is %q", title)
			}
			if found := regexp.MustCompile(`(?i)<(script|img|svg|iframe|style|form|base|button)\b`).FindString(dom); found != "" {
				t.Errorf("the page has %q", found)
			}
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(asked)
			for _, path := range slices.Compact(asked) {
				if !slices.Contains([]string{"/", "/style.css", "/icon.svg", "/favicon.ico"}, path) {
					t.Errorf("the page asked for %s", path)
				}
			}
			if !slices.Contains(asked, "/style.css") {
				t.Error("the page has no style")
			}
		})
	}
}

func browse(t *testing.T, url string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	size := os.Getenv("WEB_WINDOW") // for who looks at it
	if size == "" {
		size = "1280,1700"
	}
	args = append(args, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--window-size="+size, "--virtual-time-budget=3000")
	if os.Getenv("WEB_DARK") != "" {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	cmd := exec.CommandContext(ctx, "chromium", append(args, url)...)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	return string(out)
}
