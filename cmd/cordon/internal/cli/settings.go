package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aicodesit/cordon/enforcers/cgroup"
)

// Settings are how cordon is used on a host, as opposed to what it enforces.
// Each comes from its flag, else from CORDON_NAME, else from the settings
// file, else is the flag's default.
type Settings struct {
	Dir          string
	RunDir       string
	StateDir     string
	CgroupParent string
	LogLevel     slog.LevelVar // a daemon's changes as it runs
	Vars         []string
	VarFiles     []string
}

// Values are settings by their flags' names.
type Values interface{ GetString(name string) string }

const defaultRunDir = "/run/cordon"

// defaultSettings is the settings file that is read when it exists and
// --settings names no other.
const defaultSettings = "/etc/cordon/settings.yaml"

// register gives all commands the flags of settings.
func register(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringP("dir", "C", ".", "directory of the *.hcl files")
	f.String("run-dir", defaultRunDir, "directory of what lasts until reboot")
	f.String("state-dir", "/var/lib/cordon", "directory of what is kept: homes, budgets, events")
	f.String("cgroup-parent", "", "cgroup that sessions' cgroups are made in (default \"cordon\", with a name of its own for each other run directory)")
	f.String("log-level", "warn", "debug, info, warn or error")
	f.StringArray("var", nil, "set a variable, NAME=VALUE")
	f.StringArray("var-file", nil, "file of variables' values")
	f.String("settings", "", "settings file (default "+defaultSettings+")")
}

// read takes over what a command's settings are.
func (a *App) read(cmd *cobra.Command) error {
	v, err := a.Values(cmd)
	if err != nil {
		return err
	}
	a.Dir, a.CgroupParent = v.GetString("dir"), v.GetString("cgroup-parent")
	if err := a.SetLogLevel(v); err != nil {
		return err
	}
	if a.RunDir, err = filepath.Abs(v.GetString("run-dir")); err != nil {
		return err
	}
	if a.StateDir, err = filepath.Abs(v.GetString("state-dir")); err != nil {
		return err
	}
	if a.CgroupParent == "" {
		a.CgroupParent = cgroupParent(a.RunDir)
	}
	// Values may hold commas and spaces: viper would split them.
	if a.Vars, err = cmd.Flags().GetStringArray("var"); err != nil {
		return err
	}
	a.VarFiles, err = cmd.Flags().GetStringArray("var-file")
	return err
}

// cgroupParent is the default parent of a run directory's cgroups: cgroups are
// of the whole machine, and what another run directory's sessions are in must
// not look like remains of this one's.
func cgroupParent(runDir string) string {
	if runDir == defaultRunDir {
		return cgroup.DefaultParent
	}
	sum := sha256.Sum256([]byte(runDir))
	return cgroup.DefaultParent + "-" + hex.EncodeToString(sum[:4])
}

// SetLogLevel takes over what the log level is now.
func (s *Settings) SetLogLevel(v Values) error {
	if err := s.LogLevel.UnmarshalText([]byte(v.GetString("log-level"))); err != nil {
		return fmt.Errorf("log-level: %w: say debug, info, warn or error", err)
	}
	return nil
}

// File is the settings file that is named, or the default.
func File(v Values) string { return cmp.Or(v.GetString("settings"), defaultSettings) }
