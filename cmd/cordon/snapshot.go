package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
)

func snapshotCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot",
		Short: "Record the live state as JSON, for plan --live",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.NeedRoot("reading the live state"); err != nil {
				return err
			}
			set, err := a.Load()
			if err != nil {
				return err
			}
			h := a.host(set)
			defer h.close(cmd.Context())
			snap, err := h.Snapshot(cmd.Context(), set)
			if err != nil {
				return err
			}
			if err := cli.WriteJSON(a.Stdout, snap); err != nil {
				return err
			}
			if len(snap.Failed) > 0 {
				for name, why := range snap.Failed {
					fmt.Fprintf(a.Stderr, "Warning: %s could not be read: %s\n", name, why)
				}
				return errors.New("the snapshot is incomplete")
			}
			return nil
		},
	}
}
