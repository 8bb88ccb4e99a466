// Command bench measures cordon against its peers and against itself at other
// sizes, all in one run on one machine, so that what it prints are ratios.
//
//	go run ./test/bench [-cordon PATH] [-n RUNS] [-sizes 10,100,1000] [start] [projects] [sessions] [postgres] [daemon] [repair]
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
	"time"
)

type bench struct {
	cordon  string // path of the program
	n       int    // runs of each
	sizes   []int
	running []int         // numbers of sessions that run beside a daemon
	watched time.Duration // how long the daemon is watched
	damaged int           // damages that a daemon repairs
	work    string        // folder for what is made
}

func main() {
	program := flag.String("cordon", "bin/cordon", "path of the program")
	n := flag.Int("n", 40, "runs of each command")
	sizes := flag.String("sizes", "10,100,1000", "numbers of sessions and of projects")
	running := flag.String("running", "100,500", "numbers of sessions that run beside a daemon")
	watched := flag.Duration("watched", 2*time.Minute, "how long a daemon is watched")
	damaged := flag.Int("damages", 300, "damages that a daemon repairs, without sessions and beside some")
	flag.Parse()
	if os.Getenv("CORDON_THROWAWAY") == "" {
		os.Exit(onThrowawayHost())
	}
	if err := run(&bench{n: *n, watched: *watched, damaged: *damaged, work: "/run/bench"}, *program, *sizes, *running, flag.Args()); err != nil {
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

func run(b *bench, program, sizes, running string, parts []string) error {
	var err error
	if b.cordon, err = filepath.Abs(program); err != nil {
		return err
	}
	if b.sizes, err = numbers(sizes); err != nil {
		return fmt.Errorf("-sizes: %w", err)
	}
	if b.running, err = numbers(running); err != nil {
		return fmt.Errorf("-running: %w", err)
	}
	all := []struct {
		name string
		run  func() error
	}{{"start", b.start}, {"projects", b.projects}, {"sessions", b.sessions}, {"postgres", b.postgres}, {"daemon", b.daemon}, {"repair", b.repair}}
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

func numbers(text string) ([]int, error) {
	var out []int
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
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
