package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/proxy"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/internal/slotnet"
	"github.com/aicodesit/cordon/specs"
)

func proxyCommand(a *app) *cobra.Command {
	var metrics string
	cmd := &cobra.Command{
		Use:   "proxy [NAME…]",
		Short: "Run the declared proxies, or those named, in the foreground",
		Long: `Run the declared proxies, or those named, in the foreground.

Only sessions reach them, each from its own slot and with its own token. The
port is open on all addresses of the host, for slots come and go; whoever is
not at the other end of a slot is hung up on before a byte is read.
Standard output gets a line of JSON for each request: who asked for what, what
came of it and what it used, never what was said and never a key.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := cli.NeedRoot("running a proxy"); err != nil {
				return err
			}
			set, err := a.Load()
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), set, names, metrics)
		},
	}
	cmd.Flags().StringVar(&metrics, "metrics", "", "address to serve Prometheus metrics on, 127.0.0.1:9464")
	return cmd
}

// serve runs the proxies until ctx ends. When one fails, all end.
func (a *app) serve(ctx context.Context, set specs.Set, names []string, metrics string) error {
	list := set.Proxies
	for _, name := range names {
		if specs.Find(set.Proxies, name) == nil {
			return specs.Undeclared("proxy", name, set.Proxies)
		}
	}
	if len(names) > 0 {
		list = slices.DeleteFunc(slices.Clone(list), func(p specs.Proxy) bool { return !slices.Contains(names, p.Name) })
	}
	if len(list) == 0 {
		return errors.New("no proxy is declared")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	registry := prometheus.NewRegistry()
	var jobs []func() error
	secrets := secret.NewCache(a.Secrets(set.Secrets))
	git, err := a.gitGate(set, secrets)
	if err != nil {
		return err
	}
	for _, p := range list {
		run, err := a.proxy(ctx, proxied(set, p.Name), proxy.Options{Proxy: p, Secret: secrets.Read, Forget: secrets.Forget, Git: git, Metrics: registry})
		if err != nil {
			return err
		}
		jobs = append(jobs, run)
	}
	if metrics != "" {
		jobs = append(jobs, func() error { return serveMetrics(ctx, metrics, registry) })
	}
	var wait sync.WaitGroup
	failed := make([]error, len(jobs))
	for i, run := range jobs {
		wait.Go(func() { failed[i] = run(); cancel() })
	}
	wait.Wait()
	return errors.Join(failed...)
}

// proxied is the networks that a proxy is allowed to.
func proxied(set specs.Set, proxy string) []specs.Network {
	return slices.DeleteFunc(slices.Clone(set.Networks), func(n specs.Network) bool { return !slices.Contains(n.Allow, proxy) })
}

// proxy makes one proxy ready for the sessions of networks, and fills in what
// all have in common: its port is open when it returns.
func (a *app) proxy(ctx context.Context, networks []specs.Network, o proxy.Options) (run func() error, err error) {
	p := o.Proxy
	o.State = filepath.Join(a.StateDir, "proxy")
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return nil, err
	}
	live, err := proxy.NewLive(a.Rundir(), networks, a.Log())
	if err != nil {
		return nil, err
	}
	// Who has the port has what is kept in the directory, too.
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(p.Port)))
	if err != nil {
		return nil, fmt.Errorf("proxy.%s: %w", p.Name, err)
	}
	o.Sessions, o.Log, o.Audit = live, a.Log(), a.Stdout
	server, err := proxy.New(o)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	a.Log().Info("proxy listens", "proxy", p.Name, "port", p.Port)
	return func() error {
		following, stop := context.WithCancel(context.WithoutCancel(ctx))
		followed := make(chan error, 1)
		go func() { followed <- live.Run(following) }()
		err := server.Serve(ctx, slotnet.Listener{Listener: l, Networks: networks})
		stop()
		return errors.Join(err, <-followed)
	}, nil
}

func serveMetrics(ctx context.Context, addr string, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
