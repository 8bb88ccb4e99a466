package gitgate

import (
	"context"
	"crypto/cipher"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// Options are what a Gate is made of.
type Options struct {
	Projects []specs.Project // sorted by name

	// Secret returns a credential by name; it is asked at each use. Forget, if
	// set, is told of those that a host did not take.
	Secret func(name string) (string, error)
	Forget func(name string)

	Log *slog.Logger

	// Transport reaches the hosts; nil does so directly, by HTTP/1.1, with
	// certificates that this machine trusts.
	Transport http.RoundTripper
}

// Gate answers git. Its methods may be called at the same time.
type Gate struct {
	Options
	seal cipher.AEAD

	mu     sync.Mutex
	active map[string]int // requests by session
}

// Caller is the session behind a request.
type Caller struct {
	Session string          // unlike that of any other session, ever
	Project string          // "" outside any
	Alive   context.Context // ends with the session, or what lets it in
}

// Bounds.
const (
	concurrent = 16 // requests of a session; git makes one at a time, Git LFS eight
	patience   = 5 * time.Minute
	bufferSize = 32 << 10
)

// New returns a Gate.
func New(o Options) (*Gate, error) {
	if o.Transport == nil {
		o.Transport = transport()
	}
	if o.Forget == nil {
		o.Forget = func(string) {}
	}
	g := &Gate{Options: o, active: map[string]int{}}
	var err error
	g.seal, err = newSeal()
	return g, err
}

func transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     time.Minute,
		MaxIdleConnsPerHost: 8,
		DisableCompression:  true,
		Protocols:           protocols,
	}
}

// visit is one request.
type visit struct {
	*Gate
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	caller Caller
	git    specs.Git
	host   string // of the remote
	path   string // of the remote, escaped
	report func(status int, reason string)
}

// Serve answers a request whose path begins with [specs.GitPrefix]. report is
// told the answer's status and, for a refusal, a word for it; again with
// status and "broken" when the answer breaks off, which panics with
// [http.ErrAbortHandler].
func (g *Gate) Serve(w http.ResponseWriter, r *http.Request, c Caller, report func(status int, reason string)) {
	v := &visit{Gate: g, w: w, r: r, rc: http.NewResponseController(w), caller: c, report: report}
	leave, ok := g.enter(c.Session)
	if !ok {
		v.refuse(refusal{http.StatusTooManyRequests, "concurrent", "too many requests at a time"})
		return
	}
	defer leave()
	// A client that neither reads nor writes blocks what no context ends.
	ctx, end := context.WithCancel(r.Context())
	defer end()
	defer context.AfterFunc(c.Alive, func() {
		end()
		_ = v.rc.SetWriteDeadline(time.Now())
		_ = v.rc.SetReadDeadline(time.Now())
	})()
	v.r = r.WithContext(ctx)
	if bad := v.serve(); bad != nil {
		v.refuse(*bad)
	}
}

func (g *Gate) enter(session string) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active[session] >= concurrent {
		return nil, false
	}
	g.active[session]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.active[session]--; g.active[session] == 0 {
			delete(g.active, session)
		}
	}, true
}

// serve finds the repository and what is wanted of it.
func (v *visit) serve() *refusal {
	p := specs.Find(v.Projects, v.caller.Project)
	if p == nil || p.Git == nil {
		return &refusal{http.StatusForbidden, "repository", "this session has no repository"}
	}
	v.git = *p.Git
	var ok bool
	if v.host, v.path, ok = v.git.Origin(); !ok {
		return &refusal{http.StatusForbidden, "repository", "the remote of this session's project is no https one"}
	}
	path, query, _ := strings.Cut(v.r.RequestURI, "?") // as it came: r.URL.Path is decoded
	base := specs.GitPrefix + v.host + v.path
	service, ok := strings.CutPrefix(path, base)
	// Where the remote's name has no .git Git LFS adds it.
	if lfs, found := strings.CutPrefix(service, ".git/info/lfs/"); ok && found && !strings.HasSuffix(v.path, ".git") {
		v.path += ".git"
		service = "/info/lfs/" + lfs
	}
	if !ok || service == "" || service[0] != '/' {
		return &refusal{http.StatusForbidden, "repository", "this session may use " + v.git.Remote + " only"}
	}
	return v.route(service, query)
}

func (v *visit) route(service, query string) *refusal {
	lfs, isLFS := strings.CutPrefix(service, "/info/lfs/")
	switch {
	case service == "/info/refs" && v.r.Method == http.MethodGet:
		return v.discover(query)
	case isLFS:
		return v.lfs(lfs, query)
	case query != "":
	case service == "/git-upload-pack" && v.r.Method == http.MethodPost:
		return v.fetch()
	case service == "/git-receive-pack" && v.r.Method == http.MethodPost:
		return v.push()
	}
	return &refusal{http.StatusNotFound, "path", "there is nothing here but git's smart protocol and Git LFS"}
}

// refusal is an answer of the gate's own.
type refusal struct {
	status  int
	reason  string // for the audit: one of a few words
	message string // for who uses git; holds nothing secret
}

// refuse answers in the form that git shows to its user: as "remote: …".
func (v *visit) refuse(bad refusal) {
	v.report(bad.status, bad.reason)
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "cordon: " + bad.message + "\n"
	if strings.Contains(v.r.URL.Path, "/info/lfs/") {
		v.w.Header().Set("Content-Type", lfsType)
		text = lfsMessage("cordon: " + bad.message)
	}
	v.w.WriteHeader(bad.status)
	_, _ = v.w.Write([]byte(text))
}
