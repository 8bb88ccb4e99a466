package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/aicodesit/cordon/enforcers/proxy/token"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/aicodesit/cordon/enforcers/proxy"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/specs"
)

// slots is how many sessions there are.
const slots = 5

func roles() map[string]func([]string) error {
	return map[string]func([]string) error{"upstream": serveUpstream, "cordon": serveOurs}
}

// pool is a network whose slots have loopback addresses.
func pool() specs.Network {
	return specs.Network{Name: "llm-only", Pool: netip.MustParsePrefix("127.0.0.0/16"), Allow: []string{"llm"}}
}

func slotAddr(slot int) net.IP {
	_, inside := pool().SlotAddrs(slot)
	return inside.Addr().AsSlice()
}

// declared is a proxy with everything that costs time.
func declared(upstream string) specs.Proxy {
	return specs.Proxy{
		Name: "llm", Upstream: "http://" + upstream, Inject: map[string]string{"x-api-key": "anthropic"},
		Limit:   &specs.ProxyLimit{RequestsPerMinute: 10_000_000, Concurrent: 2000},
		Policy:  &specs.BodyPolicy{Models: []string{"claude-*"}, MaxTokens: 32_000},
		Budgets: []specs.Budget{{Scope: specs.BudgetProject, Every: 24 * time.Hour, Money: 1 << 60}},
		Prices:  []specs.Price{{Model: "claude-*", Input: 3_000_000, Output: 15_000_000}},
	}
}

// serveOurs serves the sessions of the slots, and says its address and their tokens.
func serveOurs(args []string) error {
	dir, upstream := args[0], args[1]
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	spec := declared(upstream)
	run := rundir.Dir(filepath.Join(dir, "run"))
	tokens, err := begin(run, spec)
	if err != nil {
		return err
	}
	live, err := proxy.NewLive(run, []specs.Network{pool()}, log)
	if err != nil {
		return err
	}
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("real-key\n"), 0o600); err != nil {
		return err
	}
	old := time.Now().Add(-time.Hour) // one that changed a moment ago is read for each request
	if err := os.Chtimes(key, old, old); err != nil {
		return err
	}
	audit, err := os.Create(filepath.Join(dir, "audit.log"))
	if err != nil {
		return err
	}
	defer audit.Close()
	server, err := proxy.New(proxy.Options{
		Proxy: spec, Sessions: live, Secret: secret.NewCache(secret.Reader{Secrets: []specs.Secret{{Name: "anthropic", File: key}}}).Read,
		Log: log, Audit: audit, State: dir, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr(), strings.Join(tokens, " "))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	followed := make(chan error, 1)
	go func() { followed <- live.Run(ctx) }()
	return errors.Join(server.Serve(ctx, l), <-followed)
}

// begin makes the sessions, and returns their tokens.
func begin(run rundir.Dir, spec specs.Proxy) (tokens []string, err error) {
	for slot := range slots {
		id := fmt.Sprintf("%08x", slot)
		dir, err := run.Make("sessions", id)
		if err != nil {
			return nil, err
		}
		lease, err := json.Marshal(specs.Lease{ID: id, PID: os.Getpid(), Project: "bench", Network: pool().Name, Slot: slot, Started: time.Now()})
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, "lease.json"), lease, 0o600); err != nil {
			return nil, err
		}
		fd, err := syscall.Open(filepath.Join(dir, "lock"), syscall.O_RDWR|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600) // open as long as the process is
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return nil, err
		}
		token, err := token.Mint(dir, spec)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
