package bwrap

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inPlace is a sandbox with a script in bubblewrap's place, and what the
// script writes.
func inPlace(t *testing.T, script string) (Spec, *os.File) {
	t.Helper()
	s := spec(t, "the", "command")
	must(t, unix.Mount("tmpfs", "/opt", "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { must(t, unix.Unmount("/opt", unix.MNT_DETACH)) })
	s.Program = "/opt/bubblewrap"
	if script != "" {
		must(t, os.WriteFile(s.Program, []byte("#!/bin/sh -p\n"+script), 0o755))
	}
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	s.Files[1], s.Files[2] = w, w
	return s, r
}

func output(t *testing.T, s Spec, r *os.File) (*Process, string) {
	t.Helper()
	p, err := Start(s)
	must(t, err)
	must(t, s.Files[1].Close())
	out, err := readAll(r)
	must(t, err)
	return p, string(out)
}

// bubblewrap is number 1 in the /proc that it sees, the only one it can reach,
// and has the session's ids; to be root it needs an effective id alone.
func TestStarter(t *testing.T) {
	ours, err := syscall.Getgroups()
	must(t, err)
	must(t, syscall.Setgroups([]int{4}))
	t.Cleanup(func() { must(t, syscall.Setgroups(ours)) })
	modes(t, func(t *testing.T, userns bool) {
		s, r := inPlace(t, `echo "$$ $0 $*"; cat /proc/1/comm; grep -E '^(Uid|Gid|Groups)' /proc/1/status | tr '\t' ' '; grep -c ' /proc' /proc/self/mounts; env`)
		s.Userns = userns
		ids := "Uid: 54321 0 0 0\n"
		if userns {
			ids = "Uid: 54321 54321 54321 54321\n"
		}
		p, out := output(t, s, r)
		want := "1 /opt/bubblewrap --args 4 -- the command\nbubblewrap\n" + ids + "Gid: 54322 54322 54322 54322\nGroups:  \n1\nPWD=/\n"
		if out != want {
			t.Errorf("%q, want %q", out, want)
		}
		must(t, p.Kill())
	})
}

// Nothing runs when bubblewrap can't be started.
func TestStarterFails(t *testing.T) {
	modes(t, func(t *testing.T, userns bool) {
		s, r := inPlace(t, "")
		s.Userns = userns
		p, out := output(t, s, r)
		if err := p.Verify(context.Background()); err == nil {
			t.Error("verified")
		}
		_, err := p.Wait()
		var failed *SetupError
		if !errors.As(err, &failed) || failed.Code != 125 || !strings.HasPrefix(out, "cordon: bubblewrap could not be started") {
			t.Errorf("%v, %q", err, out)
		}
	})
}

// From its very beginning bubblewrap dies with the thread that started it.
func TestStarterDies(t *testing.T) {
	s, r := inPlace(t, "echo ready; exec sleep 1000")
	p, err := Start(s)
	must(t, err)
	buf := make([]byte, 6)
	if _, err := r.Read(buf); err != nil || string(buf) != "ready\n" {
		t.Fatal(string(buf), err)
	}
	stuck := time.AfterFunc(10*time.Second, func() { _ = p.outer.Kill(); t.Error("it lives") })
	defer stuck.Stop()
	close(p.release)
	state, err := p.outer.Wait()
	must(t, err)
	if ws := (&exec.ExitError{ProcessState: state}).Error(); ws != "signal: killed" {
		t.Error(ws)
	}
	must(t, p.closeGate())
}
