package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// coolDown is for how long an upstream that failed is tried last.
const coolDown = 10 * time.Second

// upstream is one place to send requests to.
type upstream struct {
	specs.Upstream
	base   *url.URL
	secret func(name string) (string, error)
	forget func(name string)
	oauth  *oauth // of vertex with a credential
	inject []injection

	failed atomic.Int64 // when it last did, in nanoseconds since 1970
}

// injection is a header with a credential.
type injection struct{ header, secret string }

func newUpstream(u specs.Upstream, o Options) (*upstream, error) {
	base, err := url.Parse(u.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", u.Name, err)
	}
	plain := base.Scheme == "http" && loopback(base.Hostname())
	if base.Scheme != "https" && !plain || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("upstream %s: %s: must be https://HOST[/PATH]; http for a loopback address only", u.Name, base.Redacted())
	}
	if !slices.Contains(specs.UpstreamKinds(), u.Kind) {
		return nil, fmt.Errorf("upstream %s: no such kind: %q", u.Name, u.Kind)
	}
	if u.Kind == specs.UpstreamBedrock && u.Credential != "" && u.Region == "" {
		return nil, fmt.Errorf("upstream %s: needs a region", u.Name)
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	base.RawPath = strings.TrimSuffix(base.RawPath, "/")
	up := &upstream{Upstream: u, base: base, secret: o.Secret, forget: o.Forget}
	for _, name := range slices.Sorted(maps.Keys(u.Inject)) {
		up.inject = append(up.inject, injection{http.CanonicalHeaderKey(name), u.Inject[name]})
	}
	if up.forget == nil {
		up.forget = func(string) {}
	}
	if u.Kind == specs.UpstreamVertex && u.Credential != "" {
		up.oauth = newOAuth(o.Transport)
	}
	return up, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// request is the request to send, with the credential in it, and the secrets
// that it holds. path is the escaped one, from the routes.
func (u *upstream) request(ctx context.Context, in *http.Request, path string, b *body) (*http.Request, []string, error) {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return nil, nil, err
	}
	p := &parts{url: *u.base}
	p.url.Path, p.url.RawPath, p.url.RawQuery = u.base.Path+decoded, u.base.EscapedPath()+path, in.URL.RawQuery
	out := (&http.Request{
		Method: in.Method, URL: &p.url, Host: u.base.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: requestHeader(in.Header),
	}).WithContext(ctx)
	if data := b.bytes(); len(data) > 0 {
		out.ContentLength = int64(len(data))
		out.Body = b.reader()
		// A kept connection that the upstream closed meanwhile is no failure.
		out.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	}
	secrets, err := u.authorize(out, b, p)
	return out, secrets, err
}

// parts are what a request is made of, in one piece of memory.
type parts struct {
	url     url.URL
	values  [1]string // of the headers with a credential: mostly there is one
	secrets [1]string
}

// authorize puts the credential in. Its errors name the secret's place, never its value.
func (u *upstream) authorize(out *http.Request, b *body, p *parts) (secrets []string, err error) {
	values := p.values[:0]
	secrets = p.secrets[:0]
	for _, i := range u.inject {
		value, err := u.secret(i.secret)
		if err != nil {
			return nil, err
		}
		if !printable(value) {
			return nil, fmt.Errorf("secret.%s: can't be the value of a header", i.secret)
		}
		secrets = append(secrets, value)
		if i.header == "Authorization" && !strings.Contains(value, " ") {
			value = "Bearer " + value
		}
		values = append(values, value)
		out.Header[i.header] = values[len(values)-1 : len(values) : len(values)]
	}
	if u.Credential == "" {
		return secrets, nil
	}
	credential, err := u.secret(u.Credential)
	if err != nil {
		return nil, err
	}
	var more []string
	switch u.Kind {
	case specs.UpstreamBedrock:
		more, err = signAWS(out, b.bytes(), credential, u.Region, time.Now())
	case specs.UpstreamVertex:
		more, err = u.oauth.authorize(out, credential)
	default:
		err = errors.New("upstreams of this kind take no credential but those of inject")
	}
	if err != nil {
		return nil, fmt.Errorf("upstream %s: secret.%s: %w", u.Name, u.Credential, err)
	}
	return append(secrets, more...), nil
}

// printable tells whether a text is printable ASCII.
func printable(text string) bool {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// refused is told that the upstream did not take the credential: it may have
// been changed since it was last read.
func (u *upstream) refused() {
	for _, name := range u.Inject {
		u.forget(name)
	}
	if u.Credential != "" {
		u.forget(u.Credential)
	}
}

// inOrder returns ups with those that failed a moment ago at the end.
func inOrder(ups []*upstream, now time.Time) []*upstream {
	if len(ups) == 1 {
		return ups
	}
	resting := func(u *upstream) int {
		if now.Sub(time.Unix(0, u.failed.Load())) < coolDown {
			return 1
		}
		return 0
	}
	out := slices.Clone(ups)
	slices.SortStableFunc(out, func(a, b *upstream) int { return resting(a) - resting(b) })
	return out
}
