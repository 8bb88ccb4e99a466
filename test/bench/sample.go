package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// contender is a command line to time, from its start to its exit.
type contender struct {
	name   string
	argv   []string
	verify []string // must print another network namespace than this process has; nil: nothing to verify
	why    string   // not empty: it could not run, because
	took   []time.Duration
}

// race runs each contender n times, one after the other in turn, every other
// round backwards, so that what the machine does meanwhile hits all alike. One
// run of each before it warms the caches and shows whether it works at all.
func race(n int, field []*contender) {
	for _, c := range field {
		if _, err := once(c.argv); err != nil {
			c.why = err.Error()
			continue
		}
		c.why = c.isolates()
	}
	for range n {
		for _, c := range field {
			if c.why != "" {
				continue
			}
			d, err := once(c.argv)
			if err != nil {
				c.why = err.Error()
				continue
			}
			c.took = append(c.took, d)
		}
		slices.Reverse(field)
	}
	if n%2 == 1 {
		slices.Reverse(field)
	}
}

// isolates returns why c's sandbox is none, or "".
func (c *contender) isolates() string {
	if c.verify == nil {
		return ""
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err.Error()
	}
	out, err := exec.Command(c.verify[0], c.verify[1:]...).Output()
	switch got := strings.TrimSpace(string(out)); {
	case err != nil:
		return err.Error()
	case got == own:
		return "it ends well here, but isolates nothing (the network namespace is the caller's)"
	case !strings.HasPrefix(got, "net:["):
		return "its namespace is unknown: " + got
	}
	return ""
}

// once runs argv without input and returns how long it took.
func once(argv []string) (time.Duration, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Dir = "/"
	begin := time.Now()
	err := cmd.Run()
	d := time.Since(begin)
	if err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return d, fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-3):], " / "))
	}
	return d, nil
}

// quantile of took, 0 to 1, by the nearest rank.
func quantile(took []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(took))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

// table prints each contender's times and how they compare with those of the first.
func table(title string, field []*contender) {
	fmt.Printf("\n%s\n\n", title)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  \tp50 ms\tp95 ms\tratio\tdifference ms")
	for _, c := range field {
		if c.why != "" {
			continue
		}
		p50 := quantile(c.took, 0.5)
		fmt.Fprintf(w, "  %s\t%s\t%s", c.name, ms(p50), ms(quantile(c.took, 0.95)))
		if first := field[0]; c != first && first.why == "" {
			base := quantile(first.took, 0.5)
			fmt.Fprintf(w, "\t%.2f\t%+.1f", float64(p50)/float64(base), float64(p50-base)/1e6)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // to standard output
	apologize(field)
}

func apologize(field []*contender) {
	for _, c := range field {
		if c.why != "" {
			fmt.Printf("  %s: could not run: %s\n", c.name, c.why)
		}
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }
