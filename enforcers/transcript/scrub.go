package transcript

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Options say what is to be taken out, and what stands in its place.
type Options struct {
	Addresses []netip.Addr // of the session: its own and the host's end of its slot
	Tokens    []string     // session tokens, where they are known
	Prefixes  []string     // what any session token begins with; "cc-sess-" when nil
	Secrets   []string     // injected credentials
	Name      string       // what addresses become; "proxy.internal" when ""; letters, digits, dots and hyphens
	MaxFile   int64        // larger files are left, in bytes; 4 GiB when 0
	// Base is an existing directory above the tree that the agent has no say
	// in, say the parent of its home: up to there symbolic links are followed,
	// below it none is. Without it none is at all.
	Base string
	Log  *slog.Logger // nil: nothing is logged
}

// Report is what a Scrub did.
type Report struct {
	Files     int    `json:"files"`     // read
	Bytes     int64  `json:"bytes"`     // read
	Changed   int    `json:"changed"`   // files written anew
	Addresses int    `json:"addresses"` // found
	Secrets   int    `json:"secrets"`   // found, tokens included
	Blocks    int    `json:"blocks"`    // signed blocks that went whole
	Ignored   int    `json:"ignored"`   // symbolic links, FIFOs, sockets, devices
	Left      []Left `json:"left,omitempty"`
	More      int    `json:"more,omitempty"` // left as well, and not listed
}

// Left is a file or directory that may still hold something.
type Left struct {
	Path string `json:"path"` // below the tree
	Why  string `json:"why"`
}

// ErrIncomplete is in the error of a Scrub that left something.
var ErrIncomplete = errors.New("not everything could be scrubbed")

const (
	defaultName   = "proxy.internal"
	defaultPrefix = "cc-sess-"
	defaultMax    = 4 << 30
	maxListed     = 100
)

// Scrub takes everything that o names out of all regular files below dir, an
// absolute path. A directory that does not exist has nothing to take out.
//
// It goes on after a file that it can't read or replace; the error then
// wraps [ErrIncomplete] and the report names the file. Scrubbing twice, or
// again after a kill, is as scrubbing once. No error holds what was found.
func Scrub(ctx context.Context, dir string, o Options) (Report, error) {
	t, err := newTree(o)
	if err != nil {
		return Report{}, fmt.Errorf("scrub %s: %w", dir, err)
	}
	t.root, err = openRoot(dir, o.Base)
	if errors.Is(err, unix.ENOENT) {
		return Report{}, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("scrub %s: %w", dir, err)
	}
	err = t.scrub(ctx)
	_ = unix.Close(t.root)
	if n := len(t.report.Left) + t.report.More; err == nil && n > 0 {
		err = fmt.Errorf("%w: %d left, first %q: %s", ErrIncomplete, n, t.report.Left[0].Path, t.report.Left[0].Why)
	}
	if err != nil {
		return t.report, fmt.Errorf("scrub %s: %w", dir, err)
	}
	return t.report, nil
}

func newTree(o Options) (*tree, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	for _, c := range []byte(o.Name) {
		if !isAlnum(c) && c != '.' && c != '-' {
			return nil, fmt.Errorf("name %q: only letters, digits, dots and hyphens", o.Name)
		}
	}
	if o.MaxFile == 0 {
		o.MaxFile = defaultMax
	}
	if o.Prefixes == nil {
		o.Prefixes = []string{defaultPrefix}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	var ps []pattern
	for _, a := range o.Addresses {
		if !a.IsValid() {
			return nil, errors.New("an address is not valid")
		}
		ps = append(ps, addressPatterns(a)...)
	}
	for _, p := range o.Prefixes {
		if len(p) < minSecret || strings.ContainsFunc(p, func(r rune) bool { return r >= 128 || !isTokenByte(byte(r)) }) {
			return nil, fmt.Errorf("token prefix %q: at least %d letters, digits, - and _", p, minSecret)
		}
		ps = append(ps, tokenPatterns(p)...)
	}
	for _, s := range append(append([]string{}, o.Tokens...), o.Secrets...) {
		if len(s) < minSecret {
			o.Log.Warn("a secret is too short to be told from ordinary text; transcripts are not searched for it", "bytes", len(s), "least", minSecret)
			continue
		}
		ps = append(ps, secretPatterns(s)...)
	}
	return &tree{o: o, m: newMatcher(ps)}, nil
}

// openRoot opens dir without following symbolic links, save those up to base.
func openRoot(dir, base string) (int, error) {
	if !filepath.IsAbs(dir) {
		return -1, errors.New("the path must be absolute")
	}
	from, rest := "/", filepath.Clean(dir)[1:]
	if base != "" {
		rel, err := filepath.Rel(base, dir)
		if err != nil || !filepath.IsLocal(rel) {
			return -1, fmt.Errorf("not below %s", base)
		}
		from, rest = base, rel
	}
	fd, err := unix.Open(from, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", from, err)
	}
	defer unix.Close(fd)
	root, err := retried(func() (int, error) {
		return unix.Openat2(fd, orDot(rest), &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
		})
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, errors.New("not a directory, or a symbolic link is in the path")
	}
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	return root, nil
}

func orDot(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// retried calls f again while it was interrupted, or lost a race with a rename
// that openat2 can't decide (EAGAIN, openat2(2)).
func retried(f func() (int, error)) (int, error) {
	for range 100 {
		n, err := f()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
	}
	return -1, unix.EAGAIN
}
