// Package gittest is a host of repositories for tests: git's own http-backend
// behind a password, and a small Git LFS.
package gittest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Host serves the bare repositories below Dir to who knows Password.
type Host struct {
	Dir      string
	Password string

	// Locked are who has locked which file, for Git LFS: owners by paths.
	Locked map[string]string

	// Instead, if set, may answer in the place of git; it is called before
	// the password is asked for.
	Instead func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []string
	objects  map[string][]byte // of LFS, by OID
}

// Requests are those that came, as "METHOD /path?query user-agent git-protocol".
func (h *Host) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.requests...)
}

// Object returns an object of LFS.
func (h *Host) Object(oid string) ([]byte, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.objects[oid]
	return b, ok
}

func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.UserAgent(), r.Header.Get("Git-Protocol")))
	h.mu.Unlock()
	if h.Instead != nil && h.Instead(w, r) {
		return
	}
	if _, password, _ := r.BasicAuth(); password != h.Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you? Not "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		return
	}
	if _, what, ok := strings.Cut(r.URL.Path, ".git/info/lfs/"); ok {
		h.lfs(w, r, what)
		return
	}
	if err := h.backend(w, r); err != nil {
		fmt.Fprintln(os.Stderr, "gittest:", err)
		panic(http.ErrAbortHandler)
	}
}

// backend runs git http-backend as its CGI wants it, with a body of any
// framing (net/http/cgi refuses chunked ones).
func (h *Host) backend(w http.ResponseWriter, r *http.Request) error {
	cmd := exec.CommandContext(r.Context(), "git", "http-backend")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "GIT_PROJECT_ROOT=" + h.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=session", "REMOTE_ADDR=192.0.2.1",
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=uploadpack.allowFilter", "GIT_CONFIG_VALUE_1=true",
		"GIT_CONFIG_KEY_2=http.receivepack", "GIT_CONFIG_VALUE_2=true",
		"REQUEST_METHOD=" + r.Method, "PATH_INFO=" + r.URL.Path, "QUERY_STRING=" + r.URL.RawQuery,
		"CONTENT_TYPE=" + r.Header.Get("Content-Type"), "HTTP_CONTENT_ENCODING=" + r.Header.Get("Content-Encoding"),
		"GIT_PROTOCOL=" + r.Header.Get("Git-Protocol"), "SERVER_PROTOCOL=HTTP/1.1",
	}
	if r.ContentLength > 0 {
		cmd.Env = append(cmd.Env, "CONTENT_LENGTH="+strconv.FormatInt(r.ContentLength, 10))
	}
	cmd.Stdin, cmd.Stderr = r.Body, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait() //nolint:errcheck // what it answered was passed on
	_ = http.NewResponseController(w).EnableFullDuplex()
	text := bufio.NewReader(out)
	head, err := textproto.NewReader(text).ReadMIMEHeader()
	if err != nil {
		return fmt.Errorf("the backend's answer: %w", err)
	}
	status := http.StatusOK
	for name, values := range head {
		if name == "Status" {
			status, _ = strconv.Atoi(values[0][:3])
			continue
		}
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, err = io.Copy(w, text)
	return err
}

// lfs is Git LFS with basic transfers. Objects are below lfs-objects/, where
// the same password is asked for.
func (h *Host) lfs(w http.ResponseWriter, r *http.Request, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.objects == nil {
		h.objects = map[string][]byte{}
	}
	oid := filepath.Base(what)
	switch {
	case what == "objects/batch":
		h.batch(w, r)
	case what == "locks" && r.Method == http.MethodGet:
		h.locks(w, "locks", "locks")
	case what == "locks/verify":
		h.locks(w, "ours", "theirs")
	case what == "verify":
		w.WriteHeader(http.StatusOK)
	case r.Method == http.MethodPut:
		b, err := io.ReadAll(r.Body)
		sum := sha256.Sum256(b)
		if err != nil || hex.EncodeToString(sum[:]) != oid {
			http.Error(w, "another object", http.StatusUnprocessableEntity)
			return
		}
		h.objects[oid] = b
	case r.Method == http.MethodGet && h.objects[oid] != nil:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(h.objects[oid]))
	default:
		http.NotFound(w, r)
	}
}

// locks answers with all locks: those of who is asked as under ours.
func (h *Host) locks(w http.ResponseWriter, ours, theirs string) {
	answer := map[string][]any{ours: {}, theirs: {}}
	for path, name := range h.Locked {
		whose := theirs
		if name == "session" {
			whose = ours
		}
		answer[whose] = append(answer[whose], map[string]any{"id": "1", "path": path, "locked_at": "2026-11-30T08:58:25Z", "owner": map[string]string{"name": name}})
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *Host) batch(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Operation string
		Objects   []map[string]any
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	base := "https://" + r.Host + strings.TrimSuffix(r.URL.Path, "objects/batch")
	for _, o := range in.Objects {
		oid := fmt.Sprint(o["oid"])
		_, have := h.objects[oid]
		transfer := map[string]any{"href": base + "objects/" + oid, "header": map[string]string{"X-Of-Host": "only-for-the-gate"}}
		switch {
		case in.Operation == "upload" && !have:
			o["actions"] = map[string]any{"upload": transfer, "verify": map[string]any{"href": base + "verify"}}
		case in.Operation == "download" && have:
			o["actions"] = map[string]any{"download": transfer}
		case in.Operation == "download":
			o["error"] = map[string]any{"code": 404, "message": "none, " + r.Header.Get("Authorization")}
		}
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": in.Objects})
}
