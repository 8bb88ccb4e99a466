package main

import (
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/proxy"
	"github.com/aicodesit/cordon/specs"
)

// A proxy is started again for what it is made of, and for nothing else: it
// would end the streams that run through it.
func TestProxyStartsAgain(t *testing.T) {
	base := func() specs.Set {
		return specs.Set{
			Secrets:  []specs.Secret{{Name: "key", Env: "A"}},
			Proxies:  []specs.Proxy{{Name: "llm", Port: 3000}, {Name: "other", Port: 3001}},
			Networks: []specs.Network{{Name: "n", Pool: netip.MustParsePrefix("10.0.0.0/24"), Allow: []string{"llm"}}, {Name: "o"}},
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*specs.Set)
		again  bool
	}{
		{"nothing", func(*specs.Set) {}, false},
		{"another file or line", func(s *specs.Set) { s.Proxies[0].Range.Line = 7 }, false},
		{"another proxy", func(s *specs.Set) { s.Proxies[1].Port = 4000 }, false},
		{"where a secret is", func(s *specs.Set) { s.Secrets[0].Env = "B" }, false},
		{"a project with a repository", func(s *specs.Set) { s.Projects = []specs.Project{{Name: "p", Git: &specs.Git{}}} }, false},
		{"how many slots stand ready", func(s *specs.Set) { s.Networks[0].Warm = 4 }, false},
		{"a network that is not its own", func(s *specs.Set) { s.Networks[1].Pool = netip.MustParsePrefix("10.1.0.0/24") }, false},
		{"its port", func(s *specs.Set) { s.Proxies[0].Port = 4000 }, true},
		{"the pool of its network", func(s *specs.Set) { s.Networks[0].Pool = netip.MustParsePrefix("10.2.0.0/24") }, true},
		{"another network", func(s *specs.Set) { s.Networks[1].Allow = []string{"llm"} }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &proxies{app: &app{App: &cli.App{}}}
			before := p.service(base(), base().Proxies[0])
			now := base()
			tt.change(&now)
			if after := p.service(now, now.Proxies[0]); (after.Digest != before.Digest) != tt.again {
				t.Errorf("again: %t, want %t", !tt.again, tt.again)
			}
		})
	}
}

// Where a credential is may change while a proxy runs.
func TestProxyFindsMovedSecrets(t *testing.T) {
	dir := t.TempDir()
	place := func(name string) specs.Set {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return specs.Set{Secrets: []specs.Secret{{Name: "key", File: path}}}
	}
	p := &proxies{app: &app{App: &cli.App{}}}
	for _, name := range []string{"one", "two"} {
		p.use(place(name))
		if got, err := p.now.Load().secrets.Read("key"); got != name || err != nil {
			t.Errorf("read %q, %v, want %q", got, err, name)
		}
	}
}

// A proxy whose port another has leaves alone what that keeps, and may be writing.
func TestProxyWithoutPort(t *testing.T) {
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dir := t.TempDir()
	writing := filepath.Join(dir, "proxy", ".budget-llm.json."+rand.Text())
	if err := os.Mkdir(filepath.Dir(writing), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(writing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{App: &cli.App{Settings: cli.Settings{StateDir: dir, RunDir: filepath.Join(dir, "run")}}}
	spec := specs.Proxy{Name: "llm", Port: other.Addr().(*net.TCPAddr).Port, Upstreams: []specs.Upstream{{Name: "a", Kind: "anthropic", URL: "https://llm.example"}}}
	if _, err := a.proxy(t.Context(), nil, proxy.Options{Proxy: spec}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("it has begun: %v", err)
	}
	if _, err := os.Stat(writing); err != nil {
		t.Error(err)
	}
}

// What a proxy measured is gone with its declaration.
func TestProxyMetricsEnd(t *testing.T) {
	p := &proxies{app: &app{App: &cli.App{}}}
	count := func(name string) {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name})
		p.metrics.fresh(name).MustRegister(c)
	}
	count("one")
	count("two")
	p.use(specs.Set{Proxies: []specs.Proxy{{Name: "two"}}})
	got, err := p.metrics.Gather()
	if err != nil || len(got) != 1 || got[0].GetName() != "two" {
		t.Errorf("gathered %v, %v", got, err)
	}
}
