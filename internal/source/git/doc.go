// Package git follows a directory of a git repository over https, ssh or a
// file URL.
//
// A poll lists the server's references. Only when the one that is followed has
// moved is anything fetched: one commit, its trees and files, without tags and
// without history, as a difference to what the cache has. The cache is a bare
// repository in the state directory; whatever is wrong with it (the server's
// history was rewritten, a disk lost a bit) a fresh clone takes its place.
// Every object is hashed again when it is read.
//
// Of history only the commits' hashes are kept, so that a revision that is an
// ancestor of an enforced one is known and refused: whoever holds the server
// but no signing key could otherwise serve old, signed revisions again.
//
// Credentials are asked for at each connection, and are neither written down
// nor shown.
package git

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/aicodesit/cordon/internal/source"
	"github.com/aicodesit/cordon/internal/source/signature"
)

// Verify says what must be signed.
type Verify string

// What must be signed: nothing, the commit, or the annotated tag that Ref
// names.
const (
	VerifyNothing Verify = ""
	VerifyHead    Verify = "head"
	VerifyTag     Verify = "tag"
)

// Credentials are what a server wants to know. Over https User and Password
// are sent, over ssh Key or, if there is none, Password.
type Credentials struct {
	User     string // "" for the URL's, or else "git"
	Password string // or token; the passphrase if there is a Key
	Key      []byte // private key as ssh-keygen writes it
}

// Options are what to follow. Zero values mean the default.
type Options struct {
	URL  string // https://…, ssh://…, user@host:path or file:///…; without a password
	Ref  string // branch, tag, refs/… or a whole commit hash; "" is the server's HEAD
	Path string // directory within the repository; "" is its root

	StateDir string // for this source alone

	Interval time.Duration // between polls; default 1 minute
	Timeout  time.Duration // of one Fetch; default 2 minutes
	MaxPack  int64         // bytes that one answer may have; default 1 GiB

	Credentials func(context.Context) (Credentials, error) // nil for none
	KnownHosts  string                                     // file; ssh needs it
	CA          string                                     // PEM file of authorities instead of the system's

	Verify        Verify
	Keys          func() (*signature.Keys, error) // asked at each Fetch; Verify needs it
	AllowRollback bool

	Host string // whose jitter; default the host's name
	Log  *slog.Logger
}

// Check returns why [New] would refuse the options.
func (o Options) Check() error {
	_, err := o.settle()
	return err
}

// settle checks the options and fills in defaults.
func (o *Options) settle() (*transport.Endpoint, error) {
	endpoint, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if endpoint.Protocol == "ssh" && o.KnownHosts == "" {
		return nil, fmt.Errorf("%s: a known_hosts file is needed, to know the server by", o.URL)
	}
	o.Path = strings.Trim(path.Clean("/"+o.Path), "/")
	if o.Verify != VerifyNothing && o.Verify != VerifyHead && o.Verify != VerifyTag {
		return nil, fmt.Errorf(`verify = %q: must be "head" or "tag"`, o.Verify)
	}
	if o.Verify != VerifyNothing && o.Keys == nil {
		return nil, fmt.Errorf("verify = %q needs to know who may sign: give --allowed-signers FILE or --keyring FILE", o.Verify)
	}
	if o.Verify == VerifyTag && (o.Ref == "" || plumbing.IsHash(o.Ref)) {
		return nil, errors.New(`verify = "tag" needs the name of a tag`)
	}
	if o.StateDir == "" {
		return nil, errors.New("no state directory")
	}
	if o.Interval <= 0 {
		o.Interval = time.Minute
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.MaxPack <= 0 {
		o.MaxPack = 1 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Host == "" {
		if o.Host, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	return endpoint, nil
}

// scp is the short form of an ssh URL; ext::… is none.
var scp = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]`)

// parseURL refuses what is neither authentic nor secret on its way, and
// passwords, which would be shown wherever the URL is. Its errors don't show
// them either.
func parseURL(s string) (*transport.Endpoint, error) {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			return nil, errors.New("the git URL has a password in it: name a secret instead")
		}
	}
	want := notURL(s)
	if !strings.Contains(s, "://") && !scp.MatchString(s) {
		return nil, want // go-git would take it for a file
	}
	e, err := transport.NewEndpoint(s)
	if err != nil {
		return nil, want
	}
	switch {
	case e.Protocol == "https" && e.User != "":
		return nil, errors.New("the git URL has a user in it: for https the user belongs to the credentials")
	case (e.Protocol == "https" || e.Protocol == "ssh") && e.Host != "" && e.Path != "":
		return e, nil
	case e.Protocol == "file" && path.IsAbs(e.Path):
		return e, nil
	}
	return nil, want
}

// notURL shows what was given, unless a password may be in it.
func notURL(s string) error {
	const forms = "want https://, ssh://, user@host:path or file://"
	switch {
	case strings.ContainsAny(s, "@?"):
		return errors.New("not a git URL: " + forms)
	case path.IsAbs(s):
		return fmt.Errorf("%q is not a git URL: did you mean %q?", s, "file://"+s)
	}
	return fmt.Errorf("%q is not a git URL: %s", s, forms)
}

// origin names the source, for the store: what is kept from elsewhere is not
// enforced here.
func (o *Options) origin() string {
	return fmt.Sprintf("%s ref=%s path=%s", o.URL, o.Ref, o.Path)
}

var _ source.Source = (*Source)(nil)
