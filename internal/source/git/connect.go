package git

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// connect opens a session and reads the references. Errors don't show the
// credentials, whatever the server did with them.
func (s *Source) connect(ctx context.Context) (session, *packp.AdvRefs, error) {
	var c Credentials
	if s.Credentials != nil && s.endpoint.Protocol != "file" {
		var err error
		if c, err = s.Credentials(ctx); err != nil {
			return nil, nil, fmt.Errorf("credentials for %s: %w", s.URL, err)
		}
	}
	opened, refs, err := s.open(ctx, c)
	if err != nil {
		return nil, nil, hide(fmt.Errorf("%s: %w", s.URL, errors.Join(context.Cause(ctx), err)), c)
	}
	return discreet{opened, c}, refs, nil
}

// discreet is a session whose errors don't show the credentials.
type discreet struct {
	session
	c Credentials
}

func (d discreet) UploadPack(ctx context.Context, r *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	answer, err := d.session.UploadPack(ctx, r)
	if err != nil {
		return nil, hide(err, d.c)
	}
	return answer, nil
}

func (s *Source) open(ctx context.Context, c Credentials) (session, *packp.AdvRefs, error) {
	var opened session
	var err error
	switch s.endpoint.Protocol {
	case "https":
		opened, err = s.https(c)
	case "ssh":
		opened, err = s.ssh(ctx, c)
	default:
		opened, err = s.file(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	refs, err := opened.AdvertisedReferencesContext(ctx)
	if err != nil {
		_ = opened.Close()
		return nil, nil, err
	}
	if formats := refs.Capabilities.Get(capability.ObjectFormat); len(formats) > 0 && formats[0] != "sha1" {
		_ = opened.Close()
		return nil, nil, fmt.Errorf("the repository's hashes are %s, which is not supported", formats[0])
	}
	return opened, refs, nil
}

// hide takes the credentials out of an error's text, should a server have put
// them there.
func hide(err error, c Credentials) error {
	if c.Password == "" || !strings.Contains(err.Error(), c.Password) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), c.Password, "(secret)"))
}

func (s *Source) https(c Credentials) (session, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		b, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, err
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(b) {
			return nil, fmt.Errorf("%s: no certificate in it", s.CA)
		}
	}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 20 * time.Second, DisableKeepAlives: true,
	}
	client := githttp.NewClient(&http.Client{Transport: capped{t, s.MaxPack}})
	var auth transport.AuthMethod
	if c.Password != "" {
		auth = &githttp.BasicAuth{Username: c.user("git"), Password: c.Password}
	}
	return client.NewUploadPackSession(s.endpoint, auth)
}

func (c Credentials) user(otherwise string) string {
	if c.User != "" {
		return c.User
	}
	return otherwise
}

// capped bounds the bodies of answers, of references too.
type capped struct {
	next  http.RoundTripper
	limit int64
}

func (c capped) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{&bounded{r: resp.Body, left: c.limit, limit: c.limit}, resp.Body}
	return resp, nil
}

// file runs git-upload-pack on this host: the other end must not know whether
// it is near or far.
func (s *Source) file(ctx context.Context) (session, error) {
	cmd := exec.CommandContext(ctx, "git", "upload-pack", "--", s.endpoint.Path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	var said tail
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := func() error {
		_ = in.Close()
		_ = out.Close()
		_ = cmd.Wait() // that it failed is known by what it said
		return said.err("git upload-pack")
	}
	return &pipe{in: in, out: bufio.NewReader(&bounded{r: out, left: s.MaxPack, limit: s.MaxPack}), end: end}, nil
}

// tail keeps the end of what somebody says.
type tail struct{ b []byte }

const maxSaid = 1000 // bytes

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > maxSaid {
		t.b = t.b[len(t.b)-maxSaid:]
	}
	return len(p), nil
}

func (t *tail) err(who string) error {
	text := string(bytes.TrimSpace(t.b))
	if text == "" {
		return nil
	}
	return fmt.Errorf("%s: %q", who, text)
}
