package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/leanhttp"
	"github.com/aicodesit/cordon/internal/stricthttp"
	"github.com/aicodesit/cordon/specs"
)

// coolDown is for how long an upstream that failed is tried last.
const coolDown = 10 * time.Second

// upstream is one place to send requests to.
type upstream struct {
	specs.Upstream
	origin leanhttp.Origin
	path   string // before that of each request, escaped
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
	up := &upstream{
		Upstream: u, secret: o.Secret, forget: o.Forget,
		origin: leanhttp.Origin{Scheme: base.Scheme, Host: withoutPort(base)}, path: strings.TrimSuffix(base.EscapedPath(), "/"),
	}
	for _, name := range slices.Sorted(maps.Keys(u.Inject)) {
		up.inject = append(up.inject, injection{http.CanonicalHeaderKey(name), u.Inject[name]})
	}
	if up.forget == nil {
		up.forget = func(string) {}
	}
	if u.Kind == specs.UpstreamVertex && u.Credential != "" {
		up.oauth = newOAuth(o.Transport.TLS)
	}
	return up, nil
}

// withoutPort is the host without a port that is the scheme's: AWS's signer leaves
// that out, so it must not be sent.
func withoutPort(u *url.URL) string {
	switch port := u.Port(); u.Scheme + port {
	case "http", "https", "http80", "https443":
		return strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Host
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// outgoing is a request to an upstream.
type outgoing struct {
	leanhttp.Request
	room    httphead.Room
	secrets []string  // that it holds
	first   [1]string // room for them: most hold one
}

// request is the request to send, with the credential in it.
func (u *upstream) request(ctx context.Context, in *stricthttp.Request, body []byte) (*outgoing, error) {
	out := &outgoing{Request: leanhttp.Request{Origin: u.origin, Method: in.Method, Target: u.path + in.Target, Body: body}}
	out.Header, out.secrets = requestHeader(out.room[:0], in.Header), out.first[:0]
	return out, u.authorize(ctx, out)
}

// authorize puts the credential in. Its errors name the secret's place, never its value.
func (u *upstream) authorize(ctx context.Context, out *outgoing) error {
	for _, i := range u.inject {
		value, err := u.secret(i.secret)
		if err != nil {
			return err
		}
		if !printable(value) {
			return fmt.Errorf("secret.%s: can't be the value of a header", i.secret)
		}
		out.secrets = append(out.secrets, value)
		if i.header == "Authorization" && !strings.Contains(value, " ") {
			value = "Bearer " + value
		}
		out.Header = out.Header.Set(i.header, value)
	}
	if u.Credential == "" {
		return nil
	}
	credential, err := u.secret(u.Credential)
	if err != nil {
		return err
	}
	switch u.Kind {
	case specs.UpstreamBedrock:
		err = signAWS(ctx, out, credential, u.Region, time.Now())
	case specs.UpstreamVertex:
		err = u.oauth.authorize(out, credential)
	default:
		err = errors.New("upstreams of this kind take no credential but those of inject")
	}
	if err != nil {
		return fmt.Errorf("upstream %s: secret.%s: %w", u.Name, u.Credential, err)
	}
	return nil
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
