package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
)

// find finds the settings of the command that runs, and keeps how.
func (a *app) find(cmd *cobra.Command) (cli.Values, error) {
	a.reread = func() (*viper.Viper, error) { return readSettings(cmd) }
	var err error
	a.values, err = a.reread()
	return a.values, err
}

// readSettings finds what the settings are now.
func readSettings(cmd *cobra.Command) (*viper.Viper, error) {
	v := viper.New()
	v.SetEnvPrefix("CORDON")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	return v, addFlagsAndFile(v, cmd)
}

func addFlagsAndFile(v *viper.Viper, cmd *cobra.Command) error {
	if err := v.BindPFlags(cmd.Flags()); err != nil {
		return err
	}
	v.SetConfigFile(cli.File(v))
	err := v.ReadInConfig()
	// Users who are not root need none: the daemon has its own.
	hidden := errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0
	if err != nil && (v.GetString("settings") != "" || !missing(err) && !hidden) {
		return fmt.Errorf("settings: %w", err)
	}
	return nil
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
