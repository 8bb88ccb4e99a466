package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/enforcers/proxy/token"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/enforcers/transcript"
	"github.com/aicodesit/cordon/specs"
)

func tokensCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "tokens", Short: "The tokens with which sessions reach their proxy"}
	cmd.AddCommand(&cobra.Command{
		Use:   "revoke ID…",
		Short: "End sessions' tokens at once, and the streams that they hold; the sessions go on",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := cli.NeedRoot("revoking a token"); err != nil {
				return err
			}
			var failed error
			for _, id := range ids {
				failed = errors.Join(failed, a.revoke(id))
			}
			return failed
		},
	})
	return cmd
}

func (a *app) revoke(id string) error {
	if id != filepath.Base(id) || !fs.ValidPath(id) || id == "." {
		return fmt.Errorf("%q is not the id of a session", id)
	}
	dir := a.Rundir().Session(id)
	if _, err := token.Read(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %s has no token", id)
	}
	return token.Revoke(dir)
}

// scrubSlots is of how many slots of each network `cordon scrub` knows the
// addresses: sessions take the lowest that is free.
const scrubSlots = 64

func scrubCommand(a *app) *cobra.Command {
	var addresses []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "scrub DIR",
		Short: "Take sessions' addresses, tokens and injected credentials out of transcripts",
		Long: fmt.Sprintf(`Take sessions' addresses, tokens and injected credentials out of all files of
a directory of transcripts. It happens by itself when a session ends.

Addresses looked for are those of the first %d slots of each declared network,
and those given. Symbolic links are not followed, not in the path either.`, scrubSlots),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := a.Load()
			if err != nil {
				return err
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			o, unknown := a.ScrubOptions(set)
			if o.Addresses, err = scrubAddresses(set, addresses); err != nil {
				return err
			}
			r, err := transcript.Scrub(cmd.Context(), dir, o)
			if asJSON {
				return errors.Join(unknown, err, cli.WriteJSON(a.Stdout, map[string]any{"format_version": "1.0", "report": r}))
			}
			fmt.Fprintf(a.Stdout, "Scrubbed: %d of %d files changed, %d addresses and %d secrets taken out.\n", r.Changed, r.Files, r.Addresses, r.Secrets)
			return errors.Join(unknown, err)
		},
	}
	cmd.Flags().StringArrayVar(&addresses, "address", nil, "an address to take out as well")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func scrubAddresses(set specs.Set, given []string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, g := range given {
		addr, err := netip.ParseAddr(g)
		if err != nil {
			return nil, err
		}
		out = append(out, addr)
	}
	for _, n := range set.Networks {
		for i := range min(n.Slots(), scrubSlots) {
			host, own := n.SlotAddrs(i)
			out = append(out, host.Addr(), own.Addr())
		}
	}
	return out, nil
}
