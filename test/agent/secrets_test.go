package agent

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// realKey: while the client waits for an answer, the real key is in nothing
// that the session has or gets, and nowhere on the host but in its file.
func (r *rig) realKey(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	j := start(t, "run", "-p", "shop", "claude-code", "--", "claude", "-p", "WAIT for it")
	before := len(r.up.Requests())
	until(t, "the client waits", func() bool { return len(r.up.Requests()) > before })
	pids := sessionPids(t)
	if len(pids) < 2 {
		t.Fatalf("processes: %v", pids)
	}
	token := ""
	for _, pid := range pids {
		memory := memoryOf(t, pid)
		if bytes.Contains(memory, []byte(r.key)) {
			t.Errorf("process %d has the key in memory", pid)
		}
		if i := bytes.Index(memory, []byte("ANTHROPIC_AUTH_TOKEN=cc-sess-")); i >= 0 {
			token = string(memory[i+len("ANTHROPIC_AUTH_TOKEN="):][:len("cc-sess-")+43])
		}
		for _, name := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err == nil && bytes.Contains(b, []byte(r.key)) {
				t.Errorf("the key is in %s", name)
			}
			if name == "cmdline" && bytes.Contains(b, []byte("cc-sess-")) {
				t.Errorf("the token is on a command line: %q", b)
			}
		}
	}
	if token == "" {
		t.Error("the token was not found in the client's memory either: this search sees nothing")
	}
	inSession := filepath.Join("/proc", strconv.Itoa(pids[len(pids)-1]), "root")
	for _, root := range []string{inSession, "/", "/run", "/etc", "/srv", "/dev/shm", "/opt"} {
		for _, file := range filesWith(t, root, r.key, began) {
			if !same(t, file, keyFile) {
				t.Errorf("the key is in %s", file)
			}
		}
		for _, file := range filesWith(t, root, token, began) {
			t.Errorf("the token is in %s", file)
		}
	}
	if found := filesWith(t, "/etc", r.key, began); len(found) != 1 || found[0] != keyFile {
		t.Errorf("the search finds %v", found)
	}
	close(r.hold)
	if res := j.wait(t); !strings.Contains(res.stdout, "waiting for it") {
		t.Errorf("%+v", res)
	}
	if r.traffic.holds(r.key) {
		t.Error("the key went over a link")
	}
	if !r.traffic.holds("cc-sess-") {
		t.Error("no token went over a link: nothing was captured")
	}
	if strings.Contains(r.audit.String(), r.key) || strings.Contains(r.audit.String(), "cc-sess-") {
		t.Error("the audit has a key")
	}
}

// same tells whether two paths are of one file: the throwaway host has its
// /etc twice.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	must(t, err)
	y, err := os.Stat(b)
	must(t, err)
	return os.SameFile(x, y)
}

// sessionPids are all processes of sessions.
func sessionPids(t *testing.T) []int {
	var out []int
	entries, err := os.ReadDir("/proc")
	must(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && strings.Contains(string(b), os.Getenv("CORDON_CGROUP_PARENT")+"/") {
			out = append(out, pid)
		}
	}
	return out
}

// memoryOf is what of a process's memory it can write to: its data.
func memoryOf(t *testing.T, pid int) []byte {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must(t, err)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	must(t, err)
	defer mem.Close()
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	must(t, err)
	defer pagemap.Close()
	var out bytes.Buffer
	page := int64(os.Getpagesize())
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || !strings.HasPrefix(mode, "rw") {
			continue
		}
		present := make([]byte, (to-from)/page*8)
		if to-from > 64<<30 {
			continue // reserved, and too much to have a table of
		}
		n, _ := pagemap.ReadAt(present, from/page*8)
		for i := 0; i+8 <= n; i += 8 {
			if present[i+7]&0xc0 == 0 { // neither in memory nor swapped, see pagemap in proc(5)
				continue
			}
			_, _ = io.Copy(&out, io.NewSectionReader(mem, from+int64(i/8)*page, page))
		}
	}
	return out.Bytes()
}

// filesWith are the regular files of root's own file system, changed since,
// that hold text.
func filesWith(t *testing.T, root, text string, since time.Time) []string {
	t.Helper()
	if text == "" {
		return nil
	}
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it vanished, or is no directory any more
		}
		if d.IsDir() {
			rest := strings.TrimPrefix(path, root)
			if rest == "/proc" || rest == "/sys" || path == "/proc" || path == "/sys" || path == "/root" || strings.HasSuffix(path, "/node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(since) || info.Size() > 64<<20 {
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(text)) {
			out = append(out, path)
		}
		return nil
	})
	must(t, err)
	return out
}

// askProxy is a shell command that shows the status of a request with a token.
func askProxy(token string) string {
	return `exec 3<>/dev/tcp/proxy.internal/3000; printf 'GET /v1/models HTTP/1.1\r\nHost: proxy.internal\r\nAuthorization: Bearer ` + token +
		`\r\nConnection: close\r\n\r\n' >&3; head -n 1 <&3`
}

// tokens: good in its session alone, until that ends or it is revoked.
func (r *rig) tokens(t *testing.T) {
	j, token := background(t, "shop", `echo "$ANTHROPIC_AUTH_TOKEN"`)
	if !strings.HasPrefix(token, "cc-sess-") {
		t.Fatalf("%q", token)
	}
	// Its own session can.
	own, said := background(t, "shop", askProxy(`'"$ANTHROPIC_AUTH_TOKEN"'`))
	if !strings.Contains(said, "200") {
		t.Errorf("its own session: %s", said)
	}
	// Another session of the same project can't.
	if res := shell(t, "shop", "claude-code", askProxy(token)); !strings.Contains(res.stdout, "403") {
		t.Errorf("another session: %+v", res)
	}
	if res := shell(t, "alpha", "claude-code", askProxy(token)); !strings.Contains(res.stdout, "403") {
		t.Errorf("another project's: %+v", res)
	}
	list := ps(t)
	if len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	for _, s := range list {
		if s.Token == "" || s.Token == "-" {
			t.Errorf("%+v", s)
		}
	}
	// Nor can the host, whatever address it takes.
	for _, addr := range []string{"127.0.0.1", "10.202.0.1", "10.202.0.5"} {
		if got := fromHost(t, addr, token); got != "" {
			t.Errorf("the host at %s gets %q", addr, got)
		}
	}
	// Who has the slot after it can't.
	j.stop(t)
	if res := shell(t, "shop", "claude-code", "cat /etc/hosts; "+askProxy(token)); !strings.Contains(res.stdout, "403") || !strings.Contains(res.stdout, "10.202.0.1 proxy.internal") {
		t.Errorf("the next in its slot: %+v", res)
	}
	own.stop(t)

	// A revoked one is worth nothing in its own session.
	j = start(t, "run", "-p", "shop", "claude-code", "--", "bash", "-c", "echo ready; until [ -e revoked ]; do sleep 0.05; done; "+askProxy(`'"$ANTHROPIC_AUTH_TOKEN"'`))
	until(t, "it is ready", func() bool { return strings.Contains(j.stdout.String(), "ready") })
	if res := run(t, "tokens", "revoke", ps(t)[0].ID); res.code != 0 {
		t.Errorf("%+v", res)
	}
	must(t, os.WriteFile("/srv/projects/shop/revoked", nil, 0o644))
	if res := j.wait(t); !strings.Contains(res.stdout, "403") {
		t.Errorf("revoked: %+v", res)
	}
	must(t, os.Remove("/srv/projects/shop/revoked"))
	if res := run(t, "tokens", "revoke", "0123abcd"); res.code == 0 {
		t.Error("a token that is not there is revoked")
	}
}

func fromHost(t *testing.T, addr, token string) string {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr+":3000", time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, _ = fmt.Fprintf(c, "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	b, _ := io.ReadAll(c)
	return string(b)
}
