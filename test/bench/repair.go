package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// beside is how many sessions run in the second half of the repair bench.
	beside = 8
	// perDaemon is how often one daemon sees the same damage: what drifts more
	// often than that is a fight to it, which it repairs ever more rarely.
	perDaemon = 2
	// longest is how long a repair may take before the bench gives up.
	longest = time.Minute
)

// repair measures how long a daemon takes to repair what is damaged at random,
// one after the other, without sessions and beside some. Its interval is so long
// that what nothing tells of would not be repaired.
func (b *bench) repair() error {
	conf := filepath.Join(b.work, "repair")
	if err := write(filepath.Join(conf, "all.hcl"), fmt.Sprintf(sandboxHCL, 2, `"/bin/sleep"`)+tenantHCL, 0o644); err != nil {
		return err
	}
	if err := b.do("-C", conf, "apply", "--auto-approve"); err != nil {
		return err
	}
	if err := makeTables([]string{"alpha"}); err != nil {
		return err
	}
	seed := uint64(time.Now().UnixNano())
	r := repairs{bench: b, conf: conf, random: rand.New(rand.NewPCG(seed, 0))}
	if err := r.listen(); err != nil {
		return err
	}
	defer r.end()
	fmt.Printf("\nDamaged at random, one after the other, %d times each, interval 10 minutes (seed %d):\nfrom when the damaging command had ended to the last repair of it\n", b.damaged, seed)
	for _, sessions := range []int{0, beside} {
		if err := r.measure(sessions); err != nil {
			return fmt.Errorf("%d sessions: %w", sessions, err)
		}
	}
	return b.do("-C", conf, "destroy", "--auto-approve")
}

// repairs is one run of the bench.
type repairs struct {
	*bench
	conf   string
	random *rand.Rand
	end    func()

	plans []time.Duration // what a plan with nothing to do took meanwhile

	mu      sync.Mutex
	made    int // changes that the event log tells of
	last    time.Time
	changed chan struct{}
}

// listen follows the event log.
func (r *repairs) listen() error {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, r.cordon, "-C", r.conf, "events", "--follow", "--json")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return err
	}
	r.changed = make(chan struct{}, 1)
	r.end = func() { cancel(); _ = cmd.Wait() }
	go r.read(out)
	return nil
}

func (r *repairs) read(out io.Reader) {
	for d := json.NewDecoder(bufio.NewReader(out)); ; {
		var e struct {
			Time time.Time
			Kind string
		}
		if d.Decode(&e) != nil {
			return
		}
		if e.Kind != "change" {
			continue
		}
		r.mu.Lock()
		r.made++
		r.last = e.Time
		r.mu.Unlock()
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// count is how many changes were made, and when the last was.
func (r *repairs) count() (int, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made, r.last
}

// measure does the damages beside a number of sessions, and prints how long
// their repairs took.
func (r *repairs) measure(sessions int) error {
	took := map[string][]time.Duration{}
	for done := 0; done < r.damaged; {
		n, err := r.round(sessions, r.damaged-done, took)
		if err != nil {
			return err
		}
		done += n
	}
	var all []time.Duration
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\n  %d sessions\tn\tp50 ms\tp99\tmax\n", sessions)
	for _, d := range damages() {
		list := took[d.name]
		if len(list) == 0 {
			continue
		}
		all = append(all, list...)
		fmt.Fprintf(w, "  %s\t%d\t%s\t%s\t%s\n", d.name, len(list), ms(quantile(list, 0.5)), ms(quantile(list, 0.99)), ms(slices.Max(list)))
	}
	fmt.Fprintf(w, "  all\t%d\t%s\t%s\t%s\n", len(all), ms(quantile(all, 0.5)), ms(quantile(all, 0.99)), ms(slices.Max(all)))
	fmt.Fprintf(w, "  for scale: cordon plan\t%d\t%s\t%s\t%s\n", len(r.plans), ms(quantile(r.plans, 0.5)), ms(quantile(r.plans, 0.99)), ms(slices.Max(r.plans)))
	r.plans = nil
	return w.Flush()
}

// round does up to n damages under a daemon of their own, and returns how many.
func (r *repairs) round(sessions, n int, took map[string][]time.Duration) (done int, err error) {
	stop, fill, err := r.begin(sessions)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return 0, err
	}
	var list []damage
	for _, d := range damages() {
		if sessions > 0 || !d.sessions {
			list = append(list, slices.Repeat([]damage{d}, perDaemon)...)
		}
	}
	r.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, d := range list[:min(n, len(list))] {
		t, err := r.one(fill.Replace(d.script))
		if err != nil {
			return done, fmt.Errorf("%s: %w", d.name, err)
		}
		took[d.name] = append(took[d.name], t)
		done++
	}
	return done, nil
}

// begin starts a daemon and sessions beside it; stop ends them.
func (r *repairs) begin(sessions int) (stop func() error, fill *strings.Replacer, err error) {
	server := exec.Command(r.cordon, "-C", r.conf, "daemon", "--listen=", "--log-level=error", "--interval=10m")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return func() error { return nil }, nil, err
	}
	var running []*exec.Cmd
	stop = func() error {
		for _, s := range running {
			_ = s.Process.Signal(unix.SIGTERM)
		}
		for _, s := range running {
			_ = s.Wait()
		}
		_ = server.Process.Signal(unix.SIGTERM)
		return server.Wait()
	}
	if running, err = r.startSessions(r.conf, sessions); err != nil {
		return stop, nil, err
	}
	if err := r.settled(r.conf, sessions); err != nil {
		return stop, nil, err
	}
	if err := r.converged(); err != nil {
		return stop, nil, err
	}
	out, err := exec.Command("bash", "-c", `id=$(ls /run/cordon/sessions | grep -E '^[0-9a-f]{8}$' | head -n 1)
echo "$id" "$(find $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts) -path "*/$CORDON_CGROUP_PARENT/$id/pids.max" | head -n 1 | xargs -r dirname)"`).Output()
	if err != nil {
		return stop, nil, err
	}
	id, group, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return stop, strings.NewReplacer("SESSION", id, "CGROUP", group), nil
}

// one does a damage and waits until nothing differs any more.
func (r *repairs) one(script string) (time.Duration, error) {
	before, _ := r.count()
	if out, err := exec.Command("bash", "-euc", script).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", script, err, out)
	}
	done := time.Now()
	giveUp := time.After(longest)
	for {
		if n, _ := r.count(); n > before {
			break
		}
		select {
		case <-r.changed:
		case <-giveUp:
			return 0, fmt.Errorf("not repaired within %s", longest)
		}
	}
	if err := r.converged(); err != nil {
		return 0, err
	}
	_, last := r.count()
	return max(0, last.Sub(done)), nil
}

// converged waits until a plan has nothing to do.
func (r *repairs) converged() error {
	deadline := time.Now().Add(longest)
	for {
		begun := time.Now()
		out, err := exec.Command(r.cordon, "-C", r.conf, "plan", "--detailed-exitcode").CombinedOutput()
		if err == nil {
			r.plans = append(r.plans, time.Since(begun))
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not converged: %w\n%s", err, out)
		}
	}
}
