package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/aicodesit/cordon/enforcers/seccomp"
	"github.com/aicodesit/cordon/hcl"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/internal/secret"
	"github.com/aicodesit/cordon/specs"
)

// App is one invocation.
type App struct {
	Stdin, Stdout, Stderr *os.File
	Environ               []string
	Version               string

	// Values finds a command's settings.
	Values func(*cobra.Command) (Values, error)
	// Vault is the Vault of [secret.Reader].
	Vault func(v specs.VaultSecret, token string) (string, error)
	// Compiler and Recorded are those of [seccomp.Options].
	Compiler seccomp.Compiler
	Recorded bool

	Settings
}

// New is the invocation that this process is.
func New(version string) *App {
	// What cordon makes has the modes that it says, whatever its caller's are;
	// sessions begin with the usual ones too.
	unix.Umask(0o022)
	return &App{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version}
}

// Light are the commands that need little.
func (a *App) Light() []*cobra.Command {
	return []*cobra.Command{
		validateCommand(a), versionCommand(a),
		runCommand(a), runnerCommand(a), psCommand(a), stopCommand(a),
	}
}

// Root is a table of commands.
func (a *App) Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "cordon",
		Short:         "Keep agents, terminals and dev servers inside what HCL files declare",
		Version:       a.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	register(root)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.read(cmd); err != nil {
			return err
		}
		interruptible(cmd)
		return nil
	}
	root.AddCommand(commands...)
	explainArguments(root)
	return root
}

// Execute returns the exit code: 0, or 1 for an error that it has shown on
// stderr, or what the command documents.
func (a *App) Execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.Execute()
	var exit ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	}
	fmt.Fprintf(a.Stderr, "Error: %v\n", err)
	return 1
}

// ExitError ends with a code of its own; its message was shown already.
type ExitError struct{ Code int }

// Exit returns an [ExitError].
func Exit(code int) error { return ExitError{code} }

func (e ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

// interruptible gives a command a context that a signal ends, as an
// [interruptedError]. A closed terminal or pipe ends an apply as an interrupt
// does: after the change in hand.
func interruptible(cmd *cobra.Command) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	go func() {
		if sig, ok := (<-c).(unix.Signal); ok {
			cancel(interruptedError{sig})
		}
	}()
	cmd.SetContext(ctx)
}

// interruptedError is the signal that ended a command.
type interruptedError struct{ signal unix.Signal }

func (e interruptedError) Error() string { return "ended by " + unix.SignalName(e.signal) }

// Log writes to stderr, from the level that is set on.
func (a *App) Log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: &a.LogLevel}))
}

// Rundir is the run directory.
func (a *App) Rundir() rundir.Dir { return rundir.Dir(a.RunDir) }

// Secrets reads what is declared.
func (a *App) Secrets(declared []specs.Secret) secret.Reader {
	return secret.Reader{Secrets: declared, Vault: a.Vault}
}

// LoadOptions is how files are read.
func (a *App) LoadOptions() hcl.Options {
	return hcl.Options{Vars: a.Vars, VarFiles: a.VarFiles, Environ: a.Environ}
}

// Load reads the files; what is wrong with them is shown on stderr.
func (a *App) Load() (specs.Set, error) {
	set, diags := hcl.Load(a.Dir, a.LoadOptions())
	return set, a.ShowErrors(diags)
}

// ShowErrors shows all diagnostics, and returns an error if one of them is.
func (a *App) ShowErrors(diags hcl.Diagnostics) error {
	if err := diags.WriteText(a.Stderr, a.Color(a.Stderr)); err != nil {
		return err
	}
	if diags.HasErrors() {
		return Exit(1)
	}
	return nil
}

// Color tells whether f is a terminal that may get colours.
func (a *App) Color(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// NeedRoot explains what would otherwise fail in many ways.
func NeedRoot(what string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return errors.New(what + " needs root")
}

// WriteJSON writes a value as all commands do.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
