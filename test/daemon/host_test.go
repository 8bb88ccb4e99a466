package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/cordontest"
	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// Variables from a test to itself inside a throwaway host.
const (
	inHost = "CORDON_THROWAWAY"       // set there by throwaway.sh
	binVar = "CORDON_TEST_DAEMON_BIN" // the built program
)

// onHost runs f inside a throwaway host of its own: the test runs this test
// again there.
func onHost(t *testing.T, f func(t *testing.T)) {
	if os.Getenv(inHost) != "" {
		f(t)
		return
	}
	if os.Geteuid() != 0 {
		kerneltest.Missing(t, "root, to make a host")
	}
	kerneltest.Program(t, "bwrap", "iptables", "ipset", "ip", "unshare", "psql")
	t.Parallel() // they wait more than they work
	bin := cordontest.Build(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../throwaway.sh", self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=2h")
	cmd.Env = append(os.Environ(), binVar+"="+bin)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// host is a throwaway host with a directory of files that a daemon follows.
type host struct {
	t   *testing.T
	bin string
	dir string
}

func newHost(t *testing.T) *host {
	h := &host{t: t, bin: os.Getenv(binVar), dir: filepath.Join(t.TempDir(), "files")}
	if err := os.CopyFS(h.dir, os.DirFS("../../examples/aicodesit")); err != nil {
		t.Fatal(err)
	}
	return h
}

// patience is how long anything may take; it is a guard against hanging.
const patience = 60 * time.Second

// command is cordon's, for this host.
func (h *host) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.bin, append([]string{"-C", h.dir}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// daemon starts one; end kills it by a signal and waits for its end.
func (h *host) daemon(args ...string) (end func(os.Signal)) {
	h.t.Helper()
	var said strings.Builder
	cmd := h.command(context.Background(), append([]string{"daemon", "--listen="}, args...)...)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	end = func(s os.Signal) {
		_ = cmd.Process.Signal(s)
		_ = cmd.Wait()
	}
	h.t.Cleanup(func() {
		end(syscall.SIGKILL)
		if h.t.Failed() {
			h.t.Logf("the daemon said:\n%s", said.String())
		}
	})
	return end
}

// sh runs a script, which must succeed, and returns what it said.
func (h *host) sh(script string) string {
	h.t.Helper()
	out, err := exec.Command("bash", "-euc", script).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// converged waits until a plan has nothing to do.
func (h *host) converged() {
	h.t.Helper()
	end := time.Now().Add(patience)
	for {
		out, err := h.command(h.t.Context(), "plan", "--detailed-exitcode").CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("not converged: %v\n%s", err, out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// session starts one that runs until the test ends, and returns its id.
func (h *host) session(project, sandbox string) string {
	h.t.Helper()
	in, hold, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := h.command(context.Background(), "run", "--project", project, sandbox, "--", "bash", "-c", "echo up; read")
	cmd.Stdin, cmd.Stderr = in, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = hold.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		h.t.Fatalf("the session said %q, %v", line, err)
	}
	return h.sh(fmt.Sprintf("grep -l '\"pid\":%d[,}]' /run/cordon/sessions/*/lease.json | cut -d/ -f5", cmd.Process.Pid))
}

// log is the events as they come.
type log struct {
	t    *testing.T
	mu   sync.Mutex
	list []loop.Event
	more chan struct{}
}

func (h *host) events() *log {
	h.t.Helper()
	l := &log{t: h.t, more: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.command(ctx, "events", "--follow", "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { l.read(out) })
	h.t.Cleanup(func() { cancel(); reading.Wait(); _ = cmd.Wait() })
	return l
}

func (l *log) read(in io.Reader) {
	d := json.NewDecoder(in)
	for {
		var e loop.Event
		if err := d.Decode(&e); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				l.t.Logf("events: %v", err)
			}
			return
		}
		l.mu.Lock()
		l.list = append(l.list, e)
		l.mu.Unlock()
		select {
		case l.more <- struct{}{}:
		default:
		}
	}
}

// mark is how many events there were.
func (l *log) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// await waits for an event after a mark, and fails with all there were.
func (l *log) await(after int, what string, is func(loop.Event) bool) loop.Event {
	l.t.Helper()
	timeout := time.After(patience)
	for {
		l.mu.Lock()
		list := l.list[after:]
		l.mu.Unlock()
		for _, e := range list {
			if is(e) {
				return e
			}
		}
		select {
		case <-l.more:
		case <-timeout:
			l.t.Fatalf("no event of %s; there were %+v", what, list)
		}
	}
}
