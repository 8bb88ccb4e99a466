package main

import (
	"os"
	"os/exec"
)

// postgres measures plans of many projects in a database, and an apply from
// nothing against psql sending the same statements ("x-of-psql"). The server
// is one of the tests' own.
func (b *bench) postgres() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "Plan|FromNothing", "-benchtime", "3x", "./enforcers/postgres")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
