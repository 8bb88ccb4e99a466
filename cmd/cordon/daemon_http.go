package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/aicodesit/cordon/internal/source"
)

// registerHTTP is what the daemon answers.
func (d *daemonProcess) registerHTTP(mux *http.ServeMux) error {
	mux.Handle("/", d.web())
	secret, err := placed(d.values, "hook-secret")
	if err != nil {
		return err
	}
	if secret != nil {
		mux.Handle("/hook", source.NewHook(secret, d.source.Ring, d.Log()))
	}
	return nil
}

// maxConnections is how many may be open: whoever reaches the port must not
// take the descriptors and the memory that repairs need.
const maxConnections = 128

// listen opens the port, so that one that is taken is known at the start; nil
// when there is to be none.
func (d *daemonProcess) listen(ctx context.Context) (serve func(context.Context) error, err error) {
	addr := d.values.GetString("listen")
	if addr == "" {
		return nil, nil
	}
	mux := http.NewServeMux()
	if err := d.registerHTTP(mux); err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	fmt.Fprintf(d.Stderr, "The page is at http://%s/.\n", l.Addr())
	l = netutil.LimitListener(l, maxConnections)
	server := &http.Server{
		Handler: mux, ErrorLog: slog.NewLogLogger(d.Log().Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 30 * time.Second,
	}
	return func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("http: %w", err)
		}
		return nil
	}, nil
}
