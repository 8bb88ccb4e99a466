package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/enforcers/session"
	"github.com/aicodesit/cordon/internal/rundir"
	"github.com/aicodesit/cordon/reconciler/loop"
	"github.com/aicodesit/cordon/specs"
)

// asClient is set for a test binary that is to be a client.
const asClient = "CORDON_TEST_CLIENT"

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "runner":
		os.Exit(beRunner())
	case os.Getenv(asClient) != "":
		c := Client{Socket: os.Getenv(asClient), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()}
		code, err := c.Run(context.Background(), session.Request{Sandbox: "s", Command: os.Args[1:]})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// beRunner is a runner without a sandbox.
func beRunner() int {
	r, err := Attach()
	if err != nil || r.Receive() != nil {
		return 1
	}
	signals := make(chan os.Signal, 16)
	defer r.Notify(signals, unix.SIGUSR1, unix.SIGTERM, unix.SIGHUP)()
	if err := r.Admit(context.Background()); err != nil {
		fmt.Fprintln(r, err)
		_ = r.Exit(session.Failed)
		return 1
	}
	_ = r.Started()
	out := r.Files[1]
	switch r.Command[0] {
	case "environ":
		fmt.Fprintf(out, "%q %q %s\n", r.Environ, r.Command, r.Job.Settings)
	case "copy":
		_, _ = io.Copy(out, r.Files[0])
	case "signals":
		fmt.Fprintln(out, "ready")
		for s := range signals {
			fmt.Fprintln(out, s)
			if s != unix.SIGUSR1 {
				break
			}
		}
	case "die":
		return 1
	case "terminal":
		if err := onTerminal(r, signals); err != nil {
			fmt.Fprintln(r, err)
			return 1
		}
	}
	fmt.Fprintf(r, "said to %s\n", r.Job.By)
	_ = r.Exit(7)
	return 0
}

type host struct {
	*Server
	socket string
	end    func() // of the daemon; returns when it has ended
	mu     sync.Mutex
	events []loop.Event
}

// serve starts a server whose runners are this test binary.
func serve(t *testing.T, change func(*Options)) *host {
	t.Helper()
	dir := rundir.Dir(t.TempDir())
	h := &host{socket: dir.Socket()}
	set := specs.Set{Sandboxes: []specs.Sandbox{{Name: "s"}}, Projects: []specs.Project{{Name: "p", Sandboxes: []string{"s"}}}}
	o := Options{
		Set:    func() (specs.Set, bool) { return set, true },
		List:   func(context.Context, specs.Set) ([]Session, error) { return nil, nil },
		Stop:   func(context.Context, string, session.Order) error { return nil },
		Inside: func(int) (bool, error) { return false, nil },
		Emit: func(e loop.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
		},
		Settings: map[string]string{"run": "/x"},
	}
	if change != nil {
		change(&o)
	}
	h.Server = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(dir)
	must(t, err)
	done := make(chan error)
	go func() { done <- h.Serve(ctx, l) }()
	h.end = sync.OnceFunc(func() { cancel(); must(t, <-done) })
	t.Cleanup(h.end)
	return h
}

// client is a client with the file as its standard input and output.
func (h *host) client(in, out *os.File) Client {
	return Client{Socket: h.socket, Stdin: in, Stdout: out, Stderr: out, Environ: []string{"A=b", "ODD=\xff"}}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestRun(t *testing.T) {
	h := serve(t, nil)
	r, w := pipe(t)
	null, err := os.Open("/dev/null")
	must(t, err)
	defer null.Close()
	code, err := h.client(null, w).Run(context.Background(), session.Request{Sandbox: "s", Command: []string{"environ", "\xfe"}})
	if code != 7 || err != nil {
		t.Fatalf("%d, %v", code, err)
	}
	w.Close()
	got, err := io.ReadAll(r)
	must(t, err)
	want := `["A=b" "ODD=\xff"] ["environ" "\xfe"] {"run":"/x"}` + "\nsaid to user:"
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("%s", got)
	}
}

// Pipes are the session's own.
func TestDescriptors(t *testing.T) {
	h := serve(t, nil)
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	_, err := inW.WriteString("through")
	must(t, err)
	inW.Close()
	if code, err := h.client(inR, outW).Run(context.Background(), session.Request{Sandbox: "s", Command: []string{"copy"}}); code != 7 || err != nil {
		t.Fatalf("%d, %v", code, err)
	}
	outW.Close()
	if got, _ := io.ReadAll(outR); !strings.HasPrefix(string(got), "through") {
		t.Errorf("%q", got)
	}
}

// other is a client that is another process.
func (h *host) other(t *testing.T, command ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	r, w := pipe(t)
	cmd := exec.Command("/proc/self/exe", command...)
	cmd.Env = append(os.Environ(), asClient+"="+h.socket)
	cmd.Stdout = w
	must(t, cmd.Start())
	w.Close()
	return cmd, bufio.NewReader(r)
}

func expect(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if line, err := r.ReadString('\n'); err != nil || line != want+"\n" {
		t.Fatalf("%q, %v, want %q", line, err, want)
	}
}

func TestSignals(t *testing.T) {
	h := serve(t, nil)
	cmd, out := h.other(t, "signals")
	expect(t, out, "ready")
	for range 3 {
		must(t, cmd.Process.Signal(unix.SIGUSR1))
		expect(t, out, "user defined signal 1")
	}
	must(t, cmd.Process.Signal(unix.SIGTERM))
	expect(t, out, "terminated")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Error(err)
	}
}

// A client that is killed has hung up.
func TestKilledClient(t *testing.T) {
	h := serve(t, nil)
	cmd, out := h.other(t, "signals")
	expect(t, out, "ready")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	expect(t, out, "hangup")
}

// Garbage where signals are expected is a client gone mad: a hangup.
func TestGarbageLater(t *testing.T) {
	h := serve(t, nil)
	for _, garbage := range []string{"\xff\xff\xff\xff", string(framed(`{"signal":"KILL"}`)), string(framed(`{"signal":"TERM","to":1}`))} {
		r, w := pipe(t)
		c := begun(t, h, w, "signals")
		out := bufio.NewReader(r)
		expect(t, out, "ready")
		_, err := c.Write([]byte(garbage))
		must(t, err)
		expect(t, out, "hangup")
	}
}

// begun is a connection on which a command was begun.
func begun(t *testing.T, h *host, out *os.File, command string) *net.UnixConn {
	t.Helper()
	c := ready(t, h)
	start(t, c, out, command)
	return c
}

// start begins a command on a connection on which a runner waits.
func start(t *testing.T, c *net.UnixConn, out *os.File, command string) {
	t.Helper()
	b, err := frame(begin{Command: [][]byte{[]byte(command)}})
	must(t, err)
	fd := int(out.Fd())
	_, _, err = c.WriteMsgUnix(b, unix.UnixRights(fd, fd, fd), nil)
	must(t, err)
}

// ready is a connection on which a runner waits.
func ready(t *testing.T, h *host) *net.UnixConn {
	t.Helper()
	c, err := dial(context.Background(), h.socket)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	a, err := ask(c, KindRun, runRequest{Sandbox: "s"})
	if err != nil || a.Kind != answerReady {
		t.Fatalf("%+v, %v", a, err)
	}
	return c
}

// A runner takes three descriptors that can be used, and nothing else.
func TestWrongDescriptors(t *testing.T) {
	h := serve(t, nil)
	_, w := pipe(t)
	fd := int(w.Fd())
	named, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(named)
	for what, fds := range map[string][]int{
		"none": nil, "two": {fd, fd}, "four": {fd, fd, fd, fd}, "many": slices.Repeat([]int{fd}, 253), "O_PATH": {fd, named, fd},
	} {
		c := ready(t, h)
		b, err := frame(begin{Command: [][]byte{[]byte("copy")}})
		must(t, err)
		var oob []byte
		if fds != nil {
			oob = unix.UnixRights(fds...)
		}
		_, _, err = c.WriteMsgUnix(b, oob, nil)
		must(t, err)
		if a, err := next(c); err == nil {
			t.Errorf("%s: %+v", what, a)
		}
	}
}

// Descriptors that come with a request are never the daemon's.
func TestDaemonTakesNoDescriptors(t *testing.T) {
	h := serve(t, nil)
	r, w := pipe(t)
	open := descriptorsOpen(t)
	for range 50 {
		c, err := dial(context.Background(), h.socket)
		must(t, err)
		b, err := frame(request{Version: version, Kind: "ps"})
		must(t, err)
		_, _, err = c.WriteMsgUnix(b, unix.UnixRights(slices.Repeat([]int{int(w.Fd())}, 200)...), nil)
		must(t, err)
		_, err = next(c)
		must(t, err)
		c.Close()
	}
	w.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("somebody holds the descriptor: %d, %v", n, err)
	}
	if now := descriptorsOpen(t); now > open+5 {
		t.Errorf("%d descriptors are open, %d before", now, open)
	}
}

func descriptorsOpen(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

func TestGarbage(t *testing.T) {
	h := serve(t, nil)
	for _, in := range []string{
		"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x00", "\x7f\xff\xff\xff", string(framed(`{"version":9,"kind":"ps"}`)),
		string(framed(`{"version":1,"kind":"ps\u001b"}`)), string(framed(`{"version":1,"kind":"run"}`)),
		string(framed(`{"version":1,"kind":"run","body":{"sandbox":1}}`)), string(framed(`{"version":1,"kind":"stop"}`)),
	} {
		c, err := dial(context.Background(), h.socket)
		must(t, err)
		_, err = c.Write([]byte(in))
		must(t, err)
		var a answer
		if err := readFrame(c, maxAnswer, &a); err != nil || a.Error == "" {
			t.Errorf("%q: %+v, %v", in, a, err)
		}
		c.Close()
	}
}

func TestHandlers(t *testing.T) {
	var asked Caller
	h := serve(t, func(o *Options) {
		o.List = func(context.Context, specs.Set) ([]Session, error) {
			return []Session{{Status: session.Status{Lease: specs.Lease{ID: "0a0b0c0d"}}, Token: "-"}}, nil
		}
		o.Stop = func(_ context.Context, id string, o session.Order) error {
			return fmt.Errorf("%s %s", id, o.Signal)
		}
		o.State = func() loop.State { return loop.State{PID: 1} }
	})
	h.Handle("pause", Root, func(_ context.Context, c Caller, body json.RawMessage) (any, error) {
		asked = c
		return nil, decode(body, new(int))
	})
	list, err := Sessions(context.Background(), h.socket)
	if err != nil || len(list) != 1 || list[0].ID != "0a0b0c0d" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := Stop(context.Background(), h.socket, "00000000", session.Order{Signal: "INT"}); err == nil || err.Error() != "00000000 INT" {
		t.Error(err)
	}
	var state loop.State
	must(t, Call(context.Background(), h.socket, KindState, nil, &state))
	if state.PID != 1 {
		t.Errorf("%+v", state)
	}
	must(t, Call(context.Background(), h.socket, "pause", 7, nil))
	if !asked.Root {
		t.Errorf("%+v", asked)
	}
	if err := Call(context.Background(), h.socket, "dance", nil, nil); err == nil || !strings.Contains(err.Error(), `"dance"`) {
		t.Error(err)
	}
	set, err := Set(context.Background(), h.socket)
	if err != nil || len(set.Sandboxes) != 1 {
		t.Errorf("%+v, %v", set, err)
	}
}

// A session's own processes may nothing, nor may who is gone already.
func TestInside(t *testing.T) {
	h := serve(t, func(o *Options) { o.Inside = func(pid int) (bool, error) { return pid == os.Getpid(), nil } })
	_, err := Sessions(context.Background(), h.socket)
	if !errors.As(err, new(*RefusedError)) {
		t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) != 1 || h.events[0].Kind != loop.SessionRefused {
		t.Errorf("%+v", h.events)
	}
}

// Without an answer of the runner there is an error, and the terminal's end is
// the client's to see to.
func TestRunnerDies(t *testing.T) {
	h := serve(t, nil)
	_, w := pipe(t)
	code, err := h.client(w, w).Run(context.Background(), session.Request{Sandbox: "s", Command: []string{"die"}})
	if code != session.Failed || err == nil {
		t.Errorf("%d, %v", code, err)
	}
}

// What the next daemon might not permit does not begin; what runs goes on.
func TestDaemonEnds(t *testing.T) {
	h := serve(t, nil)
	cmd, out := h.other(t, "signals")
	expect(t, out, "ready")
	waits := ready(t, h)
	h.end()
	_, w := pipe(t)
	start(t, waits, w, "copy")
	if a, err := next(waits); err != nil || a.Text != errDaemonEnded.Error()+"\n" {
		t.Errorf("%+v, %v", a, err)
	}
	must(t, cmd.Process.Signal(unix.SIGTERM))
	expect(t, out, "terminated")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Error(err)
	}
}

func TestNothingEnforced(t *testing.T) {
	h := serve(t, func(o *Options) { o.Set = func() (specs.Set, bool) { return specs.Set{}, false } })
	_, w := pipe(t)
	if _, err := h.client(w, w).Run(context.Background(), session.Request{Sandbox: "s"}); err == nil || err.Error() != errNothingYet.Error() {
		t.Error(err)
	}
}

func TestListen(t *testing.T) {
	dir := rundir.Dir(t.TempDir())
	if _, err := dial(context.Background(), dir.Socket()); !errors.As(err, new(*NoDaemonError)) {
		t.Error(err)
	}
	l, err := Listen(dir)
	must(t, err)
	st, err := os.Stat(dir.Socket())
	must(t, err)
	if st.Mode().Perm() != 0o666 {
		t.Error(st.Mode())
	}
	if _, err := Listen(dir); err == nil {
		t.Error("two daemons")
	}
	must(t, l.Close()) // as a daemon that is killed: the socket stays
	if _, err := dial(context.Background(), dir.Socket()); !errors.As(err, new(*NoDaemonError)) {
		t.Error(err)
	}
	l, err = Listen(dir)
	must(t, err)
	must(t, l.Close())
	must(t, os.Remove(dir.Socket()))
	must(t, os.WriteFile(dir.Socket(), nil, 0o600))
	if _, err := Listen(dir); err == nil {
		t.Error("a file was replaced")
	}
}

// Many at once take turns, and all come to their end.
func TestMany(t *testing.T) {
	h := serve(t, nil)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	codes := make([]string, 40)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			code, err := h.client(null, null).Run(context.Background(), session.Request{Sandbox: "s", Command: []string{"copy"}})
			codes[i] = strconv.Itoa(code) + fmt.Sprint(err)
		})
	}
	all.Wait()
	if slices.ContainsFunc(codes, func(c string) bool { return c != "7<nil>" }) {
		t.Error(codes)
	}
	for range cap(h.turns.all) { // all are free, or will be
		h.turns.all <- struct{}{}
	}
}

// One user's starts, should they hang, leave turns to others; and what is given
// back can be had again.
func TestTurnsAreShared(t *testing.T) {
	turns := newTurns(4)
	ended, end := context.WithCancel(t.Context())
	end()
	var gives []func()
	for _, uid := range []uint32{1, 1, 2, 2} {
		give, err := turns.take(t.Context(), uid)
		must(t, err)
		gives = append(gives, give)
		if uid == 1 && len(gives) == 2 {
			if _, err := turns.take(ended, 1); err == nil {
				t.Error("a third of one user's")
			}
		}
	}
	if _, err := turns.take(ended, 3); err == nil {
		t.Error("a fifth")
	}
	for _, give := range gives {
		give()
		give()
	}
	if len(turns.all) > 0 || len(turns.of) > 0 {
		t.Errorf("%d are taken, by %d", len(turns.all), len(turns.of))
	}
}
