package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/reconciler"
)

func validateCommand(a *app) *cobra.Command {
	var format reconciler.Format
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the files, all of them, without looking at the host",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tree := a.workingTree()
			if err := a.showDiagnostics(tree, format); err != nil {
				return err
			}
			if tree.diags.HasErrors() {
				return exitError{1}
			}
			return nil
		},
	}
	formatFlags(cmd, &format, "print the findings")
	return cmd
}

func (a *app) showDiagnostics(s side, format reconciler.Format) error {
	if format == reconciler.JSON {
		return writeJSON(a.stdout, s.diags)
	}
	doc, err := a.document(s)
	switch {
	case err != nil:
		return err
	case format != reconciler.Text:
		return doc.Write(a.stdout, format, reconciler.Style{})
	case !doc.Broken():
		_, err = fmt.Fprintf(a.stdout, "Valid: %d sandboxes, %d networks, %d projects, %d databases.\n",
			len(s.set.Sandboxes), len(s.set.Networks), len(s.set.Projects), len(s.set.Databases))
	}
	return err
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run:   func(*cobra.Command, []string) { fmt.Fprintln(a.stdout, "cordon", version) },
	}
}
