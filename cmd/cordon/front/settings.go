package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
)

// find finds the settings where there is no settings file. To read one is for
// the complete program, which has the library for it.
func find(cmd *cobra.Command) (cli.Values, error) {
	v := given{cmd.Flags()}
	if v.GetString("settings") == "" {
		if _, err := os.Lstat(cli.File(v)); errors.Is(err, fs.ErrNotExist) {
			return v, nil
		}
	}
	return nil, pair.HandOver(version)
}

// given is what flags and variables say.
type given struct{ flags *pflag.FlagSet }

// GetString implements [cli.Values]. An empty variable is none.
func (g given) GetString(name string) string {
	f := g.flags.Lookup(name)
	variable := os.Getenv("CORDON_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	if f.Changed || variable == "" {
		return f.Value.String()
	}
	return variable
}
