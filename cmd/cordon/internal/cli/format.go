package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/reconciler"
)

// FormatFlags are --format and --json.
func FormatFlags(cmd *cobra.Command, f *reconciler.Format, what string) {
	*f = reconciler.Text
	cmd.Flags().Var((*formatValue)(f), "format", what+" as text, json, markdown, junit or sarif")
	cmd.Flags().BoolFunc("json", what+" as JSON", func(string) error {
		*f = reconciler.JSON
		return nil
	})
}

// formatValue is a flag's value that must be a format.
type formatValue reconciler.Format

func (v *formatValue) String() string { return string(*v) }
func (v *formatValue) Type() string   { return "format" }

func (v *formatValue) Set(s string) error {
	if !slices.Contains(reconciler.Formats(), reconciler.Format(s)) {
		return fmt.Errorf("say one of %q", reconciler.Formats())
	}
	*v = formatValue(s)
	return nil
}
