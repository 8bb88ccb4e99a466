package watch

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Firewall watches the rules of nf_tables, in which the newer iptables puts
// its own.
type Firewall struct{}

// Name implements [Watcher].
func (Firewall) Name() string { return "firewall" }

// Parts implements [Watcher].
func (Firewall) Parts() []string { return []string{network} }

// Run implements [Watcher].
func (f Firewall) Run(ctx context.Context, wake Wake) error {
	return named(ctx, f.Name(), func() error {
		if legacy() {
			return errLegacy
		}
		l, err := listen(unix.NETLINK_NETFILTER, enough, false, unix.NFNLGRP_NFTABLES)
		if err != nil {
			return err
		}
		defer l.close()
		return hear(ctx, l, f.Parts(), wake, func(message) []string { return f.Parts() })
	})
}

var errLegacy = errors.New("iptables is of the legacy kind, which tells nobody when rules change: switch to iptables-nft (update-alternatives --config iptables)")

// legacy tells whether the rules are where nf_tables does not see them.
func legacy() bool {
	path, err := exec.LookPath("iptables-save")
	if err != nil {
		return false // whoever reads the rules says so
	}
	path, err = filepath.EvalSymlinks(path)
	return err == nil && filepath.Base(path) == "xtables-legacy-multi"
}
