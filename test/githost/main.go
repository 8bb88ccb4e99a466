// Command githost is a host of repositories for scripts: githost NAME DIR CA
// serves the bare ones below DIR at https://NAME/ on the loopback address, to
// who knows the password in the environment variable GITHOST_PASSWORD, and
// writes the certificate to trust to the file CA when it listens.
package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aicodesit/cordon/internal/gittest"
)

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "githost:", err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: githost NAME DIR CA")
	}
	certificate, ca, err := gittest.Certificate(args[0])
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:443", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[2], ca, 0o644); err != nil {
		return err
	}
	server := &http.Server{Handler: &gittest.Host{Dir: args[1], Password: os.Getenv("GITHOST_PASSWORD")}, ReadHeaderTimeout: 10 * time.Second}
	return server.Serve(l)
}
