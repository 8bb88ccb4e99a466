package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
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
	"github.com/aicodesit/cordon/internal/llmtest"
)

// Variables from the test to itself inside a throwaway host.
const (
	inHost    = "CORDON_THROWAWAY"
	binVar    = "CORDON_TEST_BIN"    // folder of the built program
	clientVar = "CORDON_TEST_CLIENT" // the client's program
)

const (
	keyFile  = "/etc/cordon/secrets/anthropic"
	stateDir = "/run/state"
	patience = 90 * time.Second // for one run of the client: 80 % of a core that others use too

	tried = "all parts were tried\n" // said at the end: not where the test was skipped, or is no test
)

// TestAgent runs all that follows on a throwaway host.
func TestAgent(t *testing.T) {
	if os.Getenv(clientVar) != "" {
		inside(t)
		return
	}
	if os.Geteuid() != 0 {
		kerneltest.Missing(t, "root, to make a host")
	}
	kerneltest.Program(t, "bwrap", "socat", "iptables", "ipset", "ip", "unshare")
	client := installed(t)
	bin := filepath.Dir(cordontest.Build(t))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Without -test.v: what is wrong comes last then, and not before all that
	// went well after it.
	args := []string{self, "-test.run=" + pattern(), "-test.timeout=10m"}
	cmd := exec.CommandContext(t.Context(), "../throwaway.sh", args...)
	cmd.Env = append(os.Environ(), binVar+"="+bin, clientVar+"="+client)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), tried) {
		t.Errorf("%v\n%s", err, out)
	}
}

// pattern is -test.run's own, so that one part can be run alone.
func pattern() string {
	for _, a := range os.Args {
		if p, ok := strings.CutPrefix(a, "-test.run="); ok && strings.HasPrefix(strings.TrimPrefix(p, "^"), "TestAgent") {
			return p
		}
	}
	return "^TestAgent$"
}

// installed finds what test/deps.sh installed.
func installed(t *testing.T) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "cordon-test/claude/node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	if _, err := os.Stat(path); err != nil {
		kerneltest.Missing(t, "the client (test/deps.sh installs it)")
	}
	return path
}

// rig is a host that is converged, with an upstream and a proxy.
type rig struct {
	key     string
	up      *llmtest.Upstream
	hold    chan struct{} // replies to "WAIT" wait for it
	proxy   *exec.Cmd
	audit   *buffer
	traffic *traffic
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newRig(t *testing.T) *rig {
	r := &rig{key: "sk-ant-real-" + random(t), hold: make(chan struct{}), audit: &buffer{}}
	must(t, os.WriteFile(keyFile, []byte(r.key+"\n"), 0o600))
	must(t, os.WriteFile("/opt/claude/claude", nil, 0o755))
	must(t, syscall.Mount(os.Getenv(clientVar), "/opt/claude/claude", "", syscall.MS_BIND, ""))
	must(t, os.Setenv("PATH", os.Getenv(binVar)+":/opt/claude:"+os.Getenv("PATH")))
	conf, err := os.ReadFile("testdata/host.hcl")
	must(t, err)
	must(t, os.MkdirAll("/etc/cordon/host", 0o700))
	must(t, os.WriteFile("/etc/cordon/host/host.hcl", conf, 0o600))
	must(t, os.Setenv("CORDON_DIR", "/etc/cordon/host"))

	r.up = &llmtest.Upstream{Key: r.key, Reply: r.reply}
	l, err := net.Listen("tcp", "127.0.0.1:38123")
	must(t, err)
	server := &http.Server{Handler: r.up, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })

	if out, err := exec.Command("cordon", "apply", "--auto-approve").CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	r.traffic = capture(t)
	r.startProxy(t)
	t.Cleanup(func() { r.stopProxy(t) })
	return r
}

func (r *rig) startProxy(t *testing.T) {
	r.proxy = exec.Command("cordon", "proxy")
	r.proxy.Stdout, r.proxy.Stderr = r.audit, os.Stderr
	must(t, r.proxy.Start())
	until(t, "the proxy listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:3000")
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (r *rig) stopProxy(t *testing.T) {
	must(t, r.proxy.Process.Signal(syscall.SIGTERM))
	must(t, r.proxy.Wait())
}

// reply is the model: "RUN<<COMMAND>>" in what was asked has it use the shell,
// once; then it says what the shell said. "WAIT" has it wait.
func (r *rig) reply(q llmtest.Request) llmtest.Reply {
	var last string
	for i, m := range q.Messages {
		if m.Role == "user" && !strings.Contains(string(m.Content), `"tool_result"`) {
			last = text(m.Content)
		} else if m.Role == "user" && i == len(q.Messages)-1 {
			return llmtest.Reply{Text: "The shell said: " + plain(m.Content)}
		}
	}
	if strings.Contains(last, "WAIT") {
		return llmtest.Reply{Text: "waiting for it", Hold: r.hold}
	}
	_, command, ok := strings.Cut(last, "RUN<<")
	if !ok {
		return llmtest.Reply{Text: "hello from the model"}
	}
	command, _, _ = strings.Cut(command, ">>")
	return llmtest.Reply{Text: "running it", Tool: "Bash", Input: map[string]any{
		"command": command, "description": "as asked",
		"dangerouslyDisableSandbox": true, // which it is not to have
	}}
}

// text is a message's own text, plain all of it.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []struct{ Text string }
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		s += b.Text + "\n"
	}
	return s
}

func plain(content json.RawMessage) string {
	var blocks []struct{ Content any }
	if json.Unmarshal(content, &blocks) != nil {
		return string(content)
	}
	var out string
	for _, b := range blocks {
		if s, ok := b.Content.(string); ok {
			out += s
		}
	}
	return out
}

// result is how a command ended.
type result struct {
	stdout, stderr string
	code           int
}

// run runs cordon with arguments.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return start(t, args...).wait(t)
}

// job is a cordon that runs.
type job struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	cancel         context.CancelFunc
}

func start(t *testing.T, args ...string) *job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	j := &job{cmd: exec.CommandContext(ctx, "cordon", args...), cancel: cancel}
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	// What a caller's own credentials would do.
	j.cmd.Env = append(os.Environ(), "ANTHROPIC_API_KEY=sk-callers-own", "ANTHROPIC_CUSTOM_HEADERS=X-Callers: 1", "TERM=xterm-256color", "LANG=C.UTF-8")
	must(t, j.cmd.Start())
	return j
}

func (j *job) wait(t *testing.T) result {
	t.Helper()
	defer j.cancel()
	err := j.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{j.stdout.String(), j.stderr.String(), j.cmd.ProcessState.ExitCode()}
}

// shell runs a command in a session of a sandbox.
func shell(t *testing.T, project, sandbox, command string) result {
	t.Helper()
	return run(t, "run", "-p", project, sandbox, "--", "bash", "-c", command)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
