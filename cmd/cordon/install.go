package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
	"github.com/aicodesit/cordon/cmd/cordon/internal/unit"
	"github.com/aicodesit/cordon/internal/atomicfile"
	"github.com/aicodesit/cordon/internal/run"
)

// installing is how the unit is to be written.
type installing struct {
	dryRun, now, force bool
	credentials        []string
}

func installCommand(a *app) *cobra.Command {
	var i installing
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Write the unit by which systemd runs the daemon",
		Long: `Write ` + unit.Path + `, by which systemd runs the daemon.

It takes the daemon's own flags, and those that are given stand in the unit.
What else the daemon is to know belongs into the settings file. Nothing is
started unless --now is given. A unit that was changed by hand is not replaced:
such changes belong into a drop-in (systemctl edit cordon).

A credential is a file that systemd reads as root and shows the daemon alone:
--credential git=/etc/cordon/token, and then --git-credential systemd:git, or
systemd = "git" in a secret block.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.install(cmd, i) },
	}
	f := cmd.Flags()
	f.BoolVar(&i.dryRun, "dry-run", false, "print the unit, and write nothing")
	f.BoolVar(&i.now, "now", false, "start the daemon, now and at each boot; a running one is restarted")
	f.BoolVar(&i.force, "force", false, "replace a unit that was changed by hand")
	f.StringArrayVar(&i.credentials, "credential", nil, "file for the daemon alone, NAME=PATH")
	daemonFlags(f)
	return cmd
}

// own are the flags that are not the daemon's.
func own(name string) bool {
	return name == "dry-run" || name == "now" || name == "force" || name == "credential" || name == "help"
}

func (a *app) install(cmd *cobra.Command, i installing) error {
	s, err := a.unit(cmd.Flags(), i)
	if err != nil {
		return err
	}
	text, err := s.Text()
	if err != nil {
		return err
	}
	follows, err := a.startable(cmd, s)
	if err != nil {
		return err
	}
	if i.dryRun {
		_, err := fmt.Fprint(a.Stdout, text)
		return err
	}
	if err := cli.NeedRoot("install"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = trusted(s.Program)
	if self != s.Program {
		err = errors.Join(err, trusted(self))
	}
	if err != nil {
		return err
	}
	for _, c := range s.Credentials {
		if _, err := os.Stat(c.Path); err != nil {
			return fmt.Errorf("credential %s: %w", c.Name, err)
		}
	}
	if follows == "" {
		if err := hasFiles(a.Dir); err != nil {
			return err
		}
	}
	if err := a.writeUnit(text, i.force); err != nil {
		return err
	}
	return a.tellSystemd(cmd.Context(), i.now)
}

// unit is what the flags say.
func (a *app) unit(flags *pflag.FlagSet, i installing) (unit.Service, error) {
	s := unit.Service{Arguments: []string{"daemon"}, RunDir: a.RunDir, StateDir: a.StateDir}
	var err error
	if s.Program, err = program(); err != nil {
		return s, err
	}
	for _, c := range i.credentials {
		credential, err := unit.ParseCredential(c)
		if err != nil {
			return s, err
		}
		s.Credentials = append(s.Credentials, credential)
	}
	if u, err := url.Parse(flags.Lookup("git").Value.String()); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return s, errors.New("--git: a unit is for all to read: leave the password out, and say --git-credential systemd:NAME and --credential NAME=PATH")
		}
	}
	// These may come from the caller's variables, which the daemon won't have.
	here := map[string]string{"dir": a.Dir, "run-dir": a.RunDir, "state-dir": a.StateDir}
	if flags.Changed("git") {
		delete(here, "dir")
	}
	flags.VisitAll(func(f *pflag.Flag) {
		v, given := here[f.Name]
		given = given && v != f.DefValue || f.Name == "dir" && given
		if own(f.Name) || !f.Changed && !given {
			return
		}
		list, absErr := arguments(f, v)
		s.Arguments, err = append(s.Arguments, list...), errors.Join(err, absErr)
	})
	return s, err
}

// startable returns why a daemon of this unit would refuse to start, else the
// repository that it would follow, "" for none. It has the flags and the
// settings file, and not the caller's variables.
func (a *app) startable(cmd *cobra.Command, s unit.Service) (follows string, err error) {
	v := viper.New()
	if err := addFlagsAndFile(v, cmd); err != nil {
		return "", err
	}
	_, gitErr := a.gitOptions(v)
	_, hookErr := placed(v, "hook-secret")
	_, notifyErr := webhooks(v)
	_, statusErr := statuses(v)
	return v.GetString("git"), errors.Join(gitErr, hookErr, notifyErr, statusErr, credentialsGiven(cmd.Flags(), s.Credentials))
}

// credentialsGiven returns an error for a flag of the unit that is about a
// credential which the unit does not have.
func credentialsGiven(flags *pflag.FlagSet, have []unit.Credential) error {
	var missing error
	flags.Visit(func(f *pflag.Flag) {
		var places []string
		switch f.Name {
		case "git-credential", "git-key", "hook-secret", "notify-key", "commit-status-token":
			places = []string{f.Value.String()}
		case "notify":
			for _, n := range f.Value.(pflag.SliceValue).GetSlice() {
				_, place, _ := strings.Cut(n, "=")
				places = append(places, place)
			}
		}
		for _, p := range places {
			name, ok := strings.CutPrefix(p, "systemd:")
			if ok && !slices.ContainsFunc(have, func(c unit.Credential) bool { return c.Name == name }) {
				missing = errors.Join(missing, fmt.Errorf("--%s: the unit has no credential %q: add --credential %s=PATH", f.Name, name, name))
			}
		}
	})
	return missing
}

// hasFiles returns an error when a daemon would find nothing in dir.
func hasFiles(dir string) error {
	files, err := fs.Glob(os.DirFS(dir), "[^.]*.hcl")
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no *.hcl files for the daemon to follow: name their directory with -C, or a repository with --git", dir)
	}
	return err
}

// program is what users type: the front, where there is one.
func program() (string, error) {
	front, err := pair.Before()
	if err != nil || front != "" {
		return front, err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(self)
}

// arguments are a flag as it was given, but for paths, which are absolute: the
// daemon's working directory is another. here, unless it is "", is what it is.
func arguments(f *pflag.Flag, here string) ([]string, error) {
	values := []string{cmp.Or(here, f.Value.String())}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	var out []string
	for _, v := range values {
		switch f.Name {
		case "dir", "run-dir", "state-dir", "settings", "var-file", "allowed-signers", "keyring", "known-hosts", "git-ca":
			path, err := filepath.Abs(v)
			if err != nil {
				return nil, err
			}
			v = path
		}
		out = append(out, "--"+f.Name+"="+v)
	}
	return out, nil
}

// trusted returns an error when others than root could put another program in
// the place of this one.
func trusted(program string) error {
	for path := program; ; path = filepath.Dir(path) {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return &os.PathError{Op: "stat", Path: path, Err: err}
		}
		sticky := st.Mode&unix.S_ISVTX != 0 && st.Mode&unix.S_IFMT == unix.S_IFDIR
		if st.Uid != 0 || st.Mode&0o022 != 0 && !sticky {
			return fmt.Errorf("%s: others than root can change it, and would be root at the daemon's next start: put the program where only root can, as in /usr/local/bin, and run install from there", path)
		}
		if path == "/" {
			return nil
		}
	}
}

func (a *app) writeUnit(text string, force bool) error {
	old, err := os.ReadFile(unit.Path)
	switch {
	case err == nil && string(old) == text:
		fmt.Fprintf(a.Stdout, "%s is as it should be.\n", unit.Path)
		return nil
	case err == nil && !force:
		if err := unit.Pristine(string(old)); err != nil {
			return fmt.Errorf("%s: %w", unit.Path, err)
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(unit.Path), 0o755), atomicfile.Tidy(unit.Path)); err != nil {
		return err
	}
	if err := atomicfile.Write(unit.Path, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "Wrote %s.\n", unit.Path)
	return nil
}

// tellSystemd makes systemd, if it runs here, read the unit, and start it if
// that is wanted.
func (a *app) tellSystemd(ctx context.Context, now bool) error {
	name := filepath.Base(unit.Path)
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		if now {
			return errors.New("systemd does not run here: nothing is started")
		}
		fmt.Fprintf(a.Stdout, "systemd does not run here. Where it does: systemctl daemon-reload && systemctl enable --now %s\n", name)
		return nil
	}
	commands := [][]string{{"daemon-reload"}}
	if now {
		commands = append(commands, []string{"enable", name}, []string{"restart", name})
	}
	for _, c := range commands {
		if _, err := run.Output(ctx, append([]string{"systemctl"}, c...)...); err != nil {
			return err
		}
	}
	if !now {
		fmt.Fprintf(a.Stdout, "Nothing is started. To start it, now and at each boot: systemctl enable --now %s; a running daemon takes the unit with systemctl restart %s\n", name, name)
	}
	return nil
}
