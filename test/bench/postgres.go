package main

import (
	"os"
	"os/exec"
)

// postgres measures an apply from nothing of 50 projects with five tables each
// against psql sending the same statements ("x-of-psql"), three times in turn.
// The server is one of the tests' own. Plans are measured by projects.
func (b *bench) postgres() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "FromNothing", "-benchtime", "3x", "./enforcers/postgres")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
