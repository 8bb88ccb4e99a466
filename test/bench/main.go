// Command bench measures cordon against its peers and against itself at other
// sizes, all in one run on one machine, so that what it prints are ratios.
//
//	go run ./test/bench [-cordon PATH] [-n RUNS] [-sizes 10,100,1000] [start] [projects] [sessions] [postgres]
//
// It needs root and bin/cordon, and runs on a throwaway host of its own.
// Nothing here passes or fails by a time.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

type bench struct {
	cordon string // path of the program
	n      int    // runs of each
	sizes  []int
	work   string // folder for what is made
}

func main() {
	program := flag.String("cordon", "bin/cordon", "path of the program")
	n := flag.Int("n", 40, "runs of each command")
	sizes := flag.String("sizes", "10,100,1000", "numbers of sessions and of projects")
	flag.Parse()
	if os.Getenv("CORDON_THROWAWAY") == "" {
		os.Exit(onThrowawayHost())
	}
	if err := run(*program, *n, *sizes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func onThrowawayHost() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	cmd := exec.Command("test/throwaway.sh", append([]string{self}, os.Args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench: from the repository's root:", err)
		return 1
	}
	return 0
}

func run(program string, n int, sizes string, parts []string) error {
	cordon, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	b := &bench{cordon: cordon, n: n, work: "/run/bench"}
	for s := range strings.SplitSeq(sizes, ",") {
		size, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("-sizes: %w", err)
		}
		b.sizes = append(b.sizes, size)
	}
	all := []struct {
		name string
		run  func() error
	}{{"start", b.start}, {"projects", b.projects}, {"sessions", b.sessions}, {"postgres", b.postgres}}
	for _, part := range all {
		if len(parts) > 0 && !contains(parts, part.name) {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// write makes the folder of a file and the file.
func write(path, content string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), mode)
}
