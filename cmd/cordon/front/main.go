// Command front is what users know as cordon: it starts sessions, and tells
// what runs, in a fraction of the time that the complete program takes to
// begin. For all else it becomes the complete program, which lies beside it.
//
// How many processors a start may use is not worth reading all mounts of the
// host for.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/pair"
)

// version is set at build time.
var version = "devel"

func main() {
	a := cli.New(version)
	a.Values, a.Vault = find, askVault
	a.Compiler, a.Recorded = complete{}, true
	args := os.Args[1:]
	root := a.Root(a.Light()...)
	if cmd, _, err := root.Find(args); err != nil || cmd == root {
		fmt.Fprintf(os.Stderr, "Error: %v\n", pair.HandOver(version))
		os.Exit(1)
	}
	os.Exit(a.Execute(root, args))
}
