package git

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/gitlogin"
	"github.com/aicodesit/cordon/specs"
)

// helperCommand is what git runs to ask for a credential: it hands the
// question to descriptor 3, which git inherited, and the answer back. The empty
// line is the question's end.
const helperCommand = `!f() { test "$1" = get || exit 0; cat >&3; echo >&3; cat <&3; }; f`

// helper answers one question for one credential.
type helper struct {
	ours, theirs *os.File
	remote       *url.URL
	secret       func() (string, error)

	mu   sync.Mutex
	told []string // forms of the secret that may now occur in what git says
	err  error
}

func newHelper(g *specs.Git, secret func(string) (string, error)) (*helper, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	h := &helper{ours: os.NewFile(uintptr(fds[0]), "helper"), theirs: os.NewFile(uintptr(fds[1]), "git")}
	if g.Credential != "" {
		h.remote, _ = url.Parse(g.Remote) // it was one before
		h.secret = func() (string, error) { return secret(g.Credential) }
	}
	return h, nil
}

func (h *helper) close() {
	h.shut()
	_ = h.ours.Close()
	_ = h.theirs.Close()
}

// shut ends the conversation, for who still reads or writes too. serve and
// close may both come to it, so the descriptor is only used while it is held:
// its bare number may be that of the next helper's by then.
func (h *helper) shut() {
	c, err := h.ours.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
}

// serve answers the first question, if it is for the declared repository, and
// no other.
func (h *helper) serve() {
	answer, err := h.answer(io.LimitReader(h.ours, 64<<10))
	if err != nil {
		h.mu.Lock()
		h.err = err
		h.mu.Unlock()
	}
	_, _ = io.WriteString(h.ours, answer)
	h.shut()
}

// answer reads a question as gitcredentials(7) has it: name=value lines up to
// an empty one or the end.
func (h *helper) answer(question io.Reader) (string, error) {
	asked := map[string]string{}
	lines := bufio.NewScanner(question)
	for lines.Scan() && lines.Text() != "" {
		name, value, _ := strings.Cut(lines.Text(), "=")
		asked[name] = value
	}
	if len(asked) == 0 || h.secret == nil {
		return "", nil
	}
	if asked["protocol"] != h.remote.Scheme || asked["host"] != h.remote.Host || strings.Trim(asked["path"], "/") != strings.Trim(h.remote.Path, "/") {
		return "", errors.New("git asked for a credential for another place than the declared remote; it got none")
	}
	value, err := h.secret()
	if err != nil {
		return "", err
	}
	login, err := gitlogin.Parse(value)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	h.told = login.Forms()
	h.mu.Unlock()
	return "username=" + login.User + "\npassword=" + login.Password + "\n", nil
}

func (h *helper) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

func (h *helper) failed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Bounds of what a redactor keeps back of a line that does not end, in bytes:
// when it becomes more than maxHeld, all but maxSecret goes on.
const (
	maxHeld   = 64 << 10
	maxSecret = 16 << 10
)

// redactor hands on what git says, line by line, without the secrets: a
// server may well send back what it was sent.
type redactor struct {
	to      io.Writer
	secrets func() []string
	held    []byte
}

func (r *redactor) Write(p []byte) (int, error) {
	r.held = append(r.held, p...)
	r.redact()
	n := bytes.LastIndexAny(r.held, "\n\r") + 1
	if len(r.held)-n > maxHeld {
		n = len(r.held) - maxSecret
	}
	return len(p), r.pass(n)
}

func (r *redactor) flush() error {
	r.redact()
	return r.pass(len(r.held))
}

func (r *redactor) redact() {
	for _, s := range r.secrets() {
		r.held = bytes.ReplaceAll(r.held, []byte(s), []byte("[redacted]"))
	}
}

func (r *redactor) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := r.to.Write(r.held[:n])
	r.held = append(r.held[:0], r.held[n:]...)
	return err
}

// tail keeps the end of what is written to it, for an error.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.text)) }
