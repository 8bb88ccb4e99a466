package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
	"github.com/aicodesit/cordon/cmd/cordon/internal/view"
	"github.com/aicodesit/cordon/reconciler"
)

func validateCommand(a *App) *cobra.Command {
	var format reconciler.Format
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the files, all of them, without looking at the host",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tree := a.WorkingTree()
			if err := a.showDiagnostics(tree, format); err != nil {
				return err
			}
			if tree.Diags.HasErrors() {
				return Exit(1)
			}
			return nil
		},
	}
	FormatFlags(cmd, &format, "print the findings")
	return cmd
}

func (a *App) showDiagnostics(s Side, format reconciler.Format) error {
	if format == reconciler.JSON {
		return WriteJSON(a.Stdout, s.Diags)
	}
	doc, err := a.Document(s)
	switch {
	case err != nil:
		return err
	case format != reconciler.Text:
		return doc.Write(a.Stdout, format, reconciler.Style{})
	case !doc.Broken():
		_, err = fmt.Fprintf(a.Stdout, "Valid: %s, %s, %s, %s.\n",
			view.Count(len(s.Set.Sandboxes), "sandbox"), view.Count(len(s.Set.Networks), "network"),
			view.Count(len(s.Set.Projects), "project"), view.Count(len(s.Set.Databases), "database"))
	}
	return err
}

func versionCommand(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		// It is asked for when settings are wrong, too.
		PersistentPreRun: func(*cobra.Command, []string) {},
		Run:              func(*cobra.Command, []string) { fmt.Fprintln(a.Stdout, pair.Says(a.Version)) },
	}
}
