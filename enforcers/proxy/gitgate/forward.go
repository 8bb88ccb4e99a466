package gitgate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aicodesit/cordon/internal/gitlogin"
)

const (
	uploadPack  = "git-upload-pack"  // serves who fetches
	receivePack = "git-receive-pack" // serves who pushes
)

// discover passes on what a service announces.
func (v *visit) discover(query string) *refusal {
	service, ok := strings.CutPrefix(query, "service=")
	switch {
	case !ok || service != uploadPack && service != receivePack:
		return &refusal{http.StatusForbidden, "path", "only git's smart protocol is served"}
	case service == receivePack && len(v.git.Push) == 0:
		return &refusal{http.StatusForbidden, "push", "this session may fetch, and not push"}
	}
	return v.forward(v.request("/info/refs?"+query, nil, 0), "application/x-"+service+"-advertisement")
}

func (v *visit) fetch() *refusal {
	if bad := v.form(uploadPack); bad != nil {
		return bad
	}
	out := v.request("/"+uploadPack, v.r.Body, v.r.ContentLength)
	if v.r.Header.Get("Content-Encoding") != "" {
		out.Header.Set("Content-Encoding", "gzip")
	}
	return v.forward(out, "application/x-"+uploadPack+"-result")
}

// form checks the headers of a request to a service.
func (v *visit) form(service string) *refusal {
	encoding := v.r.Header.Values("Content-Encoding")
	if len(encoding) > 1 || len(encoding) == 1 && encoding[0] != "gzip" {
		return &refusal{http.StatusUnsupportedMediaType, "malformed", "the only content-encoding is gzip"}
	}
	if v.r.Header.Get("Content-Type") != "application/x-"+service+"-request" {
		return &refusal{http.StatusUnsupportedMediaType, "malformed", "not a request to " + service}
	}
	return nil
}

// request is a new request to the repository. Of the client's headers those
// go on that the protocol has.
func (v *visit) request(service string, body io.Reader, length int64) *http.Request {
	target, _ := url.Parse("https://" + v.host + v.path + service) // both are of what was one
	out := (&http.Request{
		Method: v.r.Method, URL: target, Host: v.host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {v.r.UserAgent()}},
	}).WithContext(v.r.Context())
	for _, name := range []string{"Accept", "Accept-Language", "Content-Type", "Git-Protocol"} {
		if values := v.r.Header[name]; len(values) == 1 {
			out.Header[name] = values
		}
	}
	if body != nil {
		_ = v.rc.EnableFullDuplex() // a host may tell of its progress while it is sent a pack
		out.ContentLength = length
		out.Body = io.NopCloser(&patient{v: v, from: body})
		if length == 0 {
			out.Body = http.NoBody
		}
	}
	return out
}

// patient reads the client's body, and gives up when nothing comes for long.
type patient struct {
	v    *visit
	from io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	_ = p.v.rc.SetReadDeadline(time.Now().Add(patience))
	if p.v.r.Context().Err() != nil { // after the deadline that its end has set
		return 0, context.Cause(p.v.r.Context())
	}
	n, err := p.from.Read(b)
	if err != nil { // a deadline that stays would end the request while the host works
		_ = p.v.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// login adds the credential and returns the forms in which it might come back.
func (v *visit) login(out *http.Request) ([]string, *refusal) {
	if v.git.Credential == "" {
		return nil, nil
	}
	value, err := v.Secret(v.git.Credential)
	var l gitlogin.Login
	if err == nil {
		l, err = gitlogin.Parse(value)
	}
	if err != nil {
		v.Log.Error("no credential for the repository", "project", v.caller.Project, "error", err)
		return nil, &refusal{http.StatusBadGateway, "credential", "the repository's credential can't be had; tell who runs this host"}
	}
	out.Header.Set("Authorization", l.Basic())
	return l.Forms(), nil
}

// forward sends a request and passes the answer on, if it is of the kind
// that is expected.
func (v *visit) forward(out *http.Request, kind string) *refusal {
	secrets, bad := v.login(out)
	if bad != nil {
		return bad
	}
	resp, bad := v.ask(out)
	if bad != nil {
		return bad
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return v.failed(resp.StatusCode)
	}
	if resp.Header.Get("Content-Type") != kind {
		return &refusal{http.StatusBadGateway, "upstream", "what answers is not a host of git's smart protocol"}
	}
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache")
	v.pass(resp, secrets)
	return nil
}

func (v *visit) ask(out *http.Request) (*http.Response, *refusal) {
	resp, err := v.Transport.RoundTrip(out)
	if err == nil {
		return resp, nil
	}
	if v.caller.Alive.Err() != nil {
		return nil, &refusal{http.StatusForbidden, "ended", "the session has ended"}
	}
	if out.Context().Err() == nil {
		v.Log.Warn("repository", "project", v.caller.Project, "host", out.URL.Host, "error", err)
	}
	return nil, &refusal{http.StatusBadGateway, "upstream", "the host of the repository can't be reached"}
}

// failed is the answer for one that is none. The host's words are not passed
// on: it may quote what it was sent.
func (v *visit) failed(status int) *refusal {
	switch {
	case status >= 300 && status < 400:
		v.Log.Warn("the host of the repository sends elsewhere, as for one that was renamed", "project", v.caller.Project, "remote", v.git.Remote)
		return &refusal{http.StatusBadGateway, "redirect", "the host of the repository sends elsewhere, which is not followed; if it was renamed, tell who runs this host"}
	case status == http.StatusUnauthorized:
		v.Log.Error("the host of the repository refuses the credential", "project", v.caller.Project, "host", v.host)
		v.Forget(v.git.Credential)
		return &refusal{http.StatusForbidden, "credential", "the host of the repository refuses the credential; tell who runs this host"}
	case status == http.StatusNotFound, status == http.StatusNotImplemented, status == http.StatusForbidden, status == http.StatusTooManyRequests, status == http.StatusRequestEntityTooLarge, status == http.StatusUnprocessableEntity:
		return &refusal{status, "upstream", "the host of the repository answers: " + strings.ToLower(http.StatusText(status))}
	}
	return &refusal{http.StatusBadGateway, "upstream", "the host of the repository fails"}
}

// pass copies an answer as it comes.
func (v *visit) pass(resp *http.Response, secrets []string) {
	v.report(resp.StatusCode, "")
	v.w.WriteHeader(resp.StatusCode)
	m := newMask(v.w, secrets)
	buffer := make([]byte, bufferSize)
	for {
		n, err := resp.Body.Read(buffer)
		_ = v.rc.SetWriteDeadline(time.Now().Add(patience))
		if v.r.Context().Err() != nil {
			v.abort(resp.StatusCode)
		}
		if n > 0 {
			if _, err := m.Write(buffer[:n]); err != nil || v.rc.Flush() != nil {
				v.abort(resp.StatusCode)
			}
		}
		if errors.Is(err, io.EOF) {
			if m.flush() != nil {
				v.abort(resp.StatusCode)
			}
			return
		}
		if err != nil {
			v.abort(resp.StatusCode)
		}
	}
}

// abort cuts the connection, so that a part is not taken for the whole.
func (v *visit) abort(status int) {
	v.report(status, "broken")
	panic(http.ErrAbortHandler) // how the server is told
}
