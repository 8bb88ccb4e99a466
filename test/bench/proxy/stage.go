package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stage is an upstream and the peers in front of it, each a process of its own.
type stage struct {
	peers  []*peer
	second *peer // another nginx: what it differs by is noise
	procs  []*exec.Cmd
}

// peer is what requests go to.
type peer struct {
	name   string
	addr   string
	tokens []string // of the sessions in the slots, where it wants one
	pids   func() ([]int, error)
}

func newStage(ctx context.Context, dir string) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	upstream, _, err := s.start(ctx, "upstream")
	if err != nil {
		return s, err
	}
	nginx, err := s.nginx(ctx, dir, "nginx", upstream[0])
	if err != nil {
		return s, err
	}
	if s.second, err = s.nginx(ctx, dir, "second nginx", upstream[0]); err != nil {
		return s, err
	}
	said, pid, err := s.start(ctx, "cordon", dir, upstream[0])
	if err != nil {
		return s, err
	}
	ours := &peer{name: "cordon", addr: said[0], tokens: said[1:], pids: func() ([]int, error) { return []int{pid}, nil }}
	s.peers = []*peer{{name: "direct", addr: upstream[0]}, nginx, ours}
	return s, nil
}

func (s *stage) close() {
	for _, c := range s.procs {
		_ = c.Process.Signal(syscall.SIGTERM)
	}
	for _, c := range s.procs {
		_ = c.Wait()
	}
}

// start runs this program in one of its roles, which says one line first.
func (s *stage) start(ctx context.Context, args ...string) (said []string, pid int, err error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	s.procs = append(s.procs, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", args[0], err)
	}
	return strings.Fields(line), cmd.Process.Pid, nil
}

// config is nginx as a reverse proxy that streams: as its manual says, with
// kept connections and without buffers, and a log as we have one.
const config = `
daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 8192; }
http {
	access_log %[1]s/access.log;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000;
	client_body_buffer_size 128k;
	client_max_body_size 32m;
	upstream llm { server %[2]s; keepalive 64; keepalive_requests 1000000; }
	server {
		listen %[3]s;
		location = /v1/messages {
			proxy_pass http://llm;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header X-Api-Key real-key;
			proxy_set_header Accept-Encoding identity;
			proxy_buffering off;
			proxy_read_timeout 1h;
		}
	}
}
`

func (s *stage) nginx(ctx context.Context, in, name, upstream string) (*peer, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(in, "nginx-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, fmt.Appendf(nil, config, dir, upstream, addr), 0o644); err != nil {
		return nil, err
	}
	for _, d := range []string{in, dir} { // nginx's workers are another user
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, err
		}
	}
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx"
	}
	cmd := exec.CommandContext(ctx, program, "-c", path)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // killed, it would leave its workers
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (Debian's package is nginx-light)", err)
	}
	s.procs = append(s.procs, cmd)
	p := &peer{name: name, addr: addr, pids: func() ([]int, error) { return children(cmd.Process.Pid) }}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if c, err := dial(p); err == nil {
			c.close()
			return p, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.New("nginx does not listen")
		}
	}
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func children(pid int) ([]int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		pids = append(pids, n)
	}
	return pids, nil
}

// cpu is how much processor time the peer's processes have had.
func (p *peer) cpu() (time.Duration, error) {
	if p.pids == nil {
		return 0, nil
	}
	pids, err := p.pids()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, pid := range pids {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil {
			return 0, err
		}
		for _, task := range tasks {
			b, err := os.ReadFile(task)
			if err != nil {
				return 0, err
			}
			var ns int64 // on a processor
			if _, err := fmt.Sscan(string(b), &ns); err != nil {
				return 0, err
			}
			sum += time.Duration(ns)
		}
	}
	return sum, nil
}

// resident is how much memory the peer's processes have, in bytes.
func (p *peer) resident() (int64, error) {
	pids, err := p.pids()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		var kib int64
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}

// thought is how long the upstream takes before a stream's first event where it
// is to think. Models take longer, which would only make less of any difference.
const thought = 20 * time.Millisecond

// serveUpstream answers as the API does, with as little work as it can.
func serveUpstream([]string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		head := string(body[:min(len(body), 64)])
		if strings.Contains(head, `"think":true`) {
			time.Sleep(thought)
		}
		if !strings.Contains(head, `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-test-1","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":2}}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		_, _ = io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\n")
		_ = flush()
		if strings.Contains(head, `"idle":true`) {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":2}}\n\n")
	}))
}
