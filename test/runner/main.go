// Command runner runs go test and says in one line how it ended.
//
// It prints what go test without -v prints: a line for each package and, of
// tests that fail, all they said; then the slowest tests, the end of what was said
// of failures once more, and "N passed, N failed". It exits with 1 when a test
// failed, a package did not build, or nothing was run at all. Arguments are go
// test's.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(stderr, "runner:", err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "runner:", err)
		return 1
	}
	t := newTally(stdout)
	readErr := t.read(out)
	waitErr := cmd.Wait()
	if readErr != nil {
		fmt.Fprintln(stderr, "runner: go test's report:", readErr)
	}
	t.summary()
	if readErr != nil || waitErr != nil || !t.ok() {
		return 1
	}
	return 0
}

// read takes in a stream of events until its end.
func (t *tally) read(in io.Reader) error {
	d := json.NewDecoder(in)
	for {
		var e event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			_, _ = io.Copy(io.Discard, in) // go test must not block on a full pipe
			return err
		}
		t.add(e)
	}
}
