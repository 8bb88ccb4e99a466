// Command cordon keeps untrusted work inside what HCL files declare: it plans
// and applies sandbox profiles, networks and database access, and starts
// sessions in them.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
	"github.com/aicodesit/cordon/enforcers/seccomp/libseccomp"
	"github.com/aicodesit/cordon/internal/secret/vault"
)

// version is set at build time.
var version = "devel"

func main() {
	if err := pair.Taken(version); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
	a := &app{App: cli.New(version)}
	a.App.Values, a.Vault, a.Compiler = a.find, vault.Read, libseccomp.Compiler{}
	os.Exit(a.Execute(a.root(), os.Args[1:]))
}

// app is one invocation.
type app struct {
	*cli.App

	values *viper.Viper // of the command that runs
	reread func() (*viper.Viper, error)
}

// root is the command table.
func (a *app) root() *cobra.Command {
	return a.Root(append(
		a.Light(),
		fmtCommand(a),
		planCommand(a), accessCommand(a), importCommand(a), applyCommand(a), destroyCommand(a), snapshotCommand(a),
		statusCommand(a), eventsCommand(a), pauseCommand(a), resumeCommand(a),
		gitCommand(a), proxyCommand(a), tokensCommand(a), scrubCommand(a),
		daemonCommand(a), installCommand(a),
		doctorCommand(a), vaultCommand(a), filterCommand(a),
	)...)
}
