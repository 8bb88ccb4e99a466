package git

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/aicodesit/cordon/internal/source"
)

// ErrNothing is what errors of [Local.Revision] wrap when the revision is
// there and has no *.hcl file in the directory.
var ErrNothing = errors.New("nothing is declared")

// nothing is an error that is ErrNothing in its own words.
type nothing struct{ error }

func (nothing) Is(target error) bool { return target == ErrNothing }

// Local is the repository on this machine that a directory lies in. It is
// read, never written; nothing is checked out, and nothing that its
// configuration or attributes name is run or looked at.
type Local struct {
	store  borrowing
	dir    string // within the working tree, with slashes; "" is its root
	origin string
}

// OpenLocal finds the repository: an ordinary one, a linked working tree or a
// submodule. Symbolic links in dir are followed first. dir itself need not
// exist any more.
func OpenLocal(dir string) (*Local, error) {
	at, err := resolveDir(dir)
	if err != nil {
		return nil, err
	}
	for top := at; ; top = filepath.Dir(top) {
		switch gitDir, err := gitDirOf(top); {
		case err != nil:
			return nil, err
		case gitDir != "":
			within, err := filepath.Rel(top, at)
			if err != nil {
				return nil, err
			}
			if within == "." {
				within = ""
			}
			return openLocal(gitDir, top, filepath.ToSlash(within))
		}
		if top == filepath.Dir(top) {
			return nil, fmt.Errorf("%s: not in a git repository", dir)
		}
	}
}

// borrowing is a storage whose objects may lie in another repository that it
// names as an alternate: the library looks for their bytes there, but not for
// their size.
type borrowing struct{ *filesystem.Storage }

func (b borrowing) EncodedObjectSize(h plumbing.Hash) (int64, error) {
	size, err := b.Storage.EncodedObjectSize(h)
	if err == nil {
		return size, nil
	}
	o, err := b.EncodedObject(plumbing.AnyObject, h)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// resolveDir is dir without symbolic links; what of it does not exist stays
// as it was given.
func resolveDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at, rest := abs, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return "", err
		}
	}
}

// gitDirOf is where the repository of a working tree is, "" if top is none:
// see gitrepository-layout(5).
func gitDirOf(top string) (string, error) {
	dot := filepath.Join(top, ".git")
	info, err := os.Stat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case info.IsDir():
		return dot, nil
	}
	to, ok := strings.CutPrefix(line(dot), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s: says not where the repository is", dot)
	}
	return beneath(top, to), nil
}

func openLocal(gitDir, top, dir string) (*Local, error) {
	if _, err := os.Stat(filepath.Join(gitDir, "HEAD")); err != nil {
		return nil, fmt.Errorf("%s: not a git repository: %w", gitDir, err)
	}
	common := gitDir
	if to := line(filepath.Join(gitDir, "commondir")); to != "" {
		common = beneath(gitDir, to)
	}
	files := dotgit.NewRepositoryFilesystem(osfs.New(gitDir), osfs.New(common))
	store := filesystem.NewStorageWithOptions(files, cache.NewObjectLRU(objectsIn),
		filesystem.Options{LargeObjectThreshold: largeBlob, AlternatesFS: osfs.New("/")})
	config, err := store.Config()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", gitDir, err), store.Close())
	}
	for _, o := range config.Raw.Section("extensions").Options {
		if name := strings.ToLower(o.Key); name == "objectformat" && o.Value != "sha1" || name == "refstorage" && o.Value != "files" {
			return nil, errors.Join(fmt.Errorf("%s: extensions.%s = %s is not supported", gitDir, name, o.Value), store.Close())
		}
	}
	return &Local{store: borrowing{store}, dir: dir, origin: top}, nil
}

// line is the first line of a small file, "" if there is none.
func line(name string) string {
	b, err := os.ReadFile(name)
	if err != nil || len(b) > maxTarget {
		return ""
	}
	first, _, _ := bytes.Cut(b, []byte("\n"))
	return strings.TrimSpace(string(first))
}

func beneath(dir, to string) string {
	if filepath.IsAbs(to) {
		return to
	}
	return filepath.Join(dir, to)
}

// Close lets go of the repository's files.
func (l *Local) Close() error { return l.store.Close() }

// Dir is the directory within the repository, with slashes; "" is its root.
func (l *Local) Dir() string { return l.dir }

// Revision returns the directory's files as they are at rev: a branch, tag or
// hash as git understands it, with ~N and ^N behind. The names of the files
// begin at the repository's root.
func (l *Local) Revision(rev string) (source.Revision, error) {
	h, err := l.resolve(rev)
	if err != nil {
		return source.Revision{}, fmt.Errorf("revision %q: %w", rev, l.hint(err))
	}
	o := objects{l.store}
	s := Source{Options: Options{URL: l.origin, Path: l.dir}}
	r, tree, err := s.describe(o, target{rev, h})
	if err == nil {
		r.Files, r.Notes, err = o.files(tree, l.dir)
	}
	if err != nil {
		return r, fmt.Errorf("revision %q: %w", rev, l.hint(err))
	}
	return r, nil
}

// hint says what to do where objects are missing, in the words of those who
// see it most.
func (l *Local) hint(err error) error {
	if !errors.Is(err, plumbing.ErrObjectNotFound) && !errors.Is(err, plumbing.ErrReferenceNotFound) {
		return err
	}
	if shallow, _ := l.store.Shallow(); len(shallow) > 0 {
		return errors.New("not in this clone, which is shallow: fetch the history (git fetch --unshallow; in CI: fetch-depth: 0 or GIT_DEPTH: 0)")
	}
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return errors.New("there is no such branch, tag or commit in this clone: fetch it first (git fetch origin NAME, then origin/NAME; in CI: fetch-depth: 0)")
	}
	return errors.New("objects are missing in this clone, which may be a partial one: fetch it whole (git fetch --refetch)")
}
