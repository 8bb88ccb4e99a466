package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/specs"
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
	return checkSettings(v, cmd)
}

// checkSettings returns an error for what stands in the file and is no setting,
// and for a value that its flag would not take: the setting would be as if it
// were not there, and a revision that nobody signed enforced where "verify" was
// misspelled.
func checkSettings(v *viper.Viper, cmd *cobra.Command) error {
	names := settingNames(cmd.Root())
	var errs []error
	told := map[string]bool{}
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		name := key
		if top, _, _ := strings.Cut(key, "."); v.InConfig(top) {
			name = top // of a map
		}
		stands := v.InConfig(name) || cmd.Flags().Lookup(name) == nil // with no value, it may be
		if stands && !slices.Contains(names, name) && !told[name] {
			told[name] = true
			errs = append(errs, specs.Unknown(fmt.Sprintf("settings: %s: there is no setting %q", cli.File(v), name), name, names))
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			return
		}
		var err error
		switch s := v.GetString(f.Name); f.Value.Type() {
		case "duration":
			err = isSpan(f, s)
		case "bool":
			if _, err = strconv.ParseBool(s); err != nil {
				err = fmt.Errorf("settings: %s: %q is neither true nor false", f.Name, s)
			}
		case "string":
			err = isText(f.Name, v.Get(f.Name))
		default:
			err = areTexts(f.Name, v.Get(f.Name))
		}
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// isSpan returns an error for what is no duration, and for one that does not last:
// the default would be taken for it.
func isSpan(f *pflag.Flag, s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("settings: %s: %q is no duration: say 30s, 10m or the like", f.Name, s)
	}
	if usual, _ := time.ParseDuration(f.DefValue); d <= 0 && d != usual {
		return fmt.Errorf("settings: %s: %s is too short: say 30s, 10m or the like", f.Name, s)
	}
	return nil
}

// isText returns an error for what a file's format takes for something else: a
// list is no text, and the number 1.10 not the one that was written.
func isText(name string, value any) error {
	switch value.(type) {
	case string:
		return nil
	case []any, map[string]any:
		return fmt.Errorf("settings: %s: there is one value, and neither a list nor a map", name)
	}
	return fmt.Errorf("settings: %s: %v is no text: write it in quotation marks", name, value)
}

// areTexts is isText of each in a list.
func areTexts(name string, value any) error {
	switch list := value.(type) {
	case map[string]any:
		return fmt.Errorf("settings: %s: these are texts, and no map", name)
	case []any:
		for _, e := range list {
			if err := isText(name, e); err != nil {
				return err
			}
		}
		return nil
	case []string:
		return nil
	}
	return isText(name, value)
}

// settingNames are the flags that can be set elsewhere: those of all commands
// and the daemon's, but for the ones that are about a single command.
func settingNames(root *cobra.Command) []string {
	var out []string
	add := func(f *pflag.Flag) {
		switch f.Name {
		case "help", "settings", "var", "var-file":
		default:
			out = append(out, f.Name)
		}
	}
	root.PersistentFlags().VisitAll(add)
	var daemon pflag.FlagSet
	daemonFlags(&daemon)
	daemon.VisitAll(add)
	return out
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
