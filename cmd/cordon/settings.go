package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/enforcers/cgroup"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/rundir"
)

// settings are how cordon is used on a host, as opposed to what it enforces.
// Each comes from its flag, else from CORDON_NAME, else from the settings
// file, else is the flag's default.
type settings struct {
	Dir          string
	RunDir       string
	StateDir     string
	CgroupParent string
	LogLevel     slog.LevelVar // a daemon's changes as it runs
	Vars         []string
	VarFiles     []string

	values *viper.Viper // of the command that runs
	reread func() (*viper.Viper, error)
}

const defaultRunDir = "/run/cordon"

// defaultSettings is the settings file that is read when it exists and
// --settings names no other.
const defaultSettings = "/etc/cordon/settings.yaml"

func (s *settings) register(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringP("dir", "C", ".", "directory of the *.hcl files")
	f.String("run-dir", defaultRunDir, "directory of what lasts until reboot")
	f.String("state-dir", "/var/lib/cordon", "directory of what is kept: homes, budgets, events")
	f.String("cgroup-parent", "", "cgroup that sessions' cgroups are made in (default \"cordon\", with a name of its own for each other run directory)")
	f.String("log-level", "warn", "debug, info, warn or error")
	f.StringArray("var", nil, "set a variable, NAME=VALUE")
	f.StringArray("var-file", nil, "file of variables' values")
	f.String("settings", "", "settings file (default "+defaultSettings+")")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return s.load(cmd) }
}

func (s *settings) load(cmd *cobra.Command) error {
	s.reread = func() (*viper.Viper, error) { return readSettings(cmd) }
	v, err := s.reread()
	if err != nil {
		return err
	}
	s.values = v
	s.Dir, s.CgroupParent = v.GetString("dir"), v.GetString("cgroup-parent")
	if err := s.setLogLevel(v); err != nil {
		return err
	}
	if s.RunDir, err = filepath.Abs(v.GetString("run-dir")); err != nil {
		return err
	}
	if s.StateDir, err = filepath.Abs(v.GetString("state-dir")); err != nil {
		return err
	}
	if s.CgroupParent == "" {
		s.CgroupParent = cgroupParent(s.RunDir)
	}
	// Values may hold commas and spaces: viper would split them.
	if s.Vars, err = cmd.Flags().GetStringArray("var"); err != nil {
		return err
	}
	s.VarFiles, err = cmd.Flags().GetStringArray("var-file")
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

func (s *settings) setLogLevel(v *viper.Viper) error {
	if err := s.LogLevel.UnmarshalText([]byte(v.GetString("log-level"))); err != nil {
		return fmt.Errorf("log-level: %w: say debug, info, warn or error", err)
	}
	return nil
}

// readSettings finds what the settings are now.
func readSettings(cmd *cobra.Command) (*viper.Viper, error) {
	v := viper.New()
	if err := v.BindPFlags(cmd.Flags()); err != nil {
		return nil, err
	}
	v.SetEnvPrefix("CORDON")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	v.SetConfigFile(settingsFile(v))
	err := v.ReadInConfig()
	// Users who are not root need none: the daemon has its own.
	hidden := errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0
	if err != nil && (v.GetString("settings") != "" || !missing(err) && !hidden) {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return v, nil
}

// settingsFile is the one that is named, or the default.
func settingsFile(v *viper.Viper) string { return cmp.Or(v.GetString("settings"), defaultSettings) }

func (a *app) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: &a.LogLevel}))
}

func (a *app) run() rundir.Dir { return rundir.Dir(a.RunDir) }

func (a *app) options() hcl.Options {
	return hcl.Options{Vars: a.Vars, VarFiles: a.VarFiles, Environ: a.environ}
}
