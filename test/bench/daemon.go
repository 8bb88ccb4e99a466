package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// atOnce is how many sessions the bench starts at the same time.
const atOnce = 8

// daemon measures what a daemon that has nothing to do needs while sessions
// run, by their number: real ones, each with its slot.
func (b *bench) daemon() (err error) {
	conf := filepath.Join(b.work, "daemon")
	if err := write(filepath.Join(conf, "all.hcl"), fmt.Sprintf(sandboxHCL, 2, `"/bin/sleep"`), 0o644); err != nil {
		return err
	}
	server := exec.Command(b.cordon, "-C", conf, "daemon", "--listen=", "--log-level=error")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		return err
	}
	var sessions []*exec.Cmd
	defer func() {
		for _, s := range sessions {
			_ = s.Process.Signal(unix.SIGTERM)
		}
		for _, s := range sessions {
			_ = s.Wait()
		}
		_ = server.Process.Signal(unix.SIGTERM)
		err = errors.Join(err, server.Wait())
	}()
	fmt.Printf("\nA daemon with nothing to do, over %s, by the number of sessions that run\n\n  sessions  %% of a core  MB\n", b.watched)
	for _, size := range append([]int{0}, b.running...) {
		more, err := b.startSessions(conf, size-len(sessions))
		sessions = append(sessions, more...)
		if err != nil {
			return err
		}
		if err := b.settled(conf, size); err != nil {
			return err
		}
		before, err := processorTime(server.Process.Pid)
		if err != nil {
			return err
		}
		time.Sleep(b.watched)
		after, err := processorTime(server.Process.Pid)
		if err != nil {
			return err
		}
		memory, err := resident(server.Process.Pid)
		if err != nil {
			return err
		}
		fmt.Printf("  %8d  %11.2f  %.0f\n", size, 100*float64(after-before)/float64(b.watched), float64(memory)/1e6)
	}
	return nil
}

// startSessions starts n sessions that run until they are told to end.
func (b *bench) startSessions(conf string, n int) ([]*exec.Cmd, error) {
	started := make([]*exec.Cmd, n)
	failed := make([]error, n)
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			started[i], failed[i] = b.startSession(conf)
		})
	}
	all.Wait()
	var running []*exec.Cmd
	for _, s := range started {
		if s != nil {
			running = append(running, s)
		}
	}
	return running, errors.Join(failed...)
}

// startSession returns once the session's command runs.
func (b *bench) startSession(conf string) (*exec.Cmd, error) {
	cmd := exec.Command(b.cordon, "-C", conf, "run", "--project", "shop", "claude-code", "--", "bash", "-c", "echo runs; exec sleep infinity")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return cmd, fmt.Errorf("the session said nothing: %w", err)
	}
	return cmd, nil
}

// settled waits until the daemon has converged with this number of sessions.
func (b *bench) settled(conf string, sessions int) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		out, err := exec.Command(b.cordon, "-C", conf, "status", "--json").Output()
		var state struct {
			Sessions []json.RawMessage `json:"sessions"`
		}
		if err == nil {
			if err := json.Unmarshal(out, &state); err != nil {
				return fmt.Errorf("status: %w", err)
			}
			if len(state.Sessions) == sessions {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the daemon has not converged: %d of %d sessions: %s", len(state.Sessions), sessions, out)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// processorTime is what a process has used, in user and kernel mode, see
// proc_pid_stat(5). A tick is 10 ms.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// resident is the memory of a process that is its own or shared, in bytes, see
// proc_pid_statm(5).
func resident(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.Atoi(fields[1])
	return pages * os.Getpagesize(), err
}
