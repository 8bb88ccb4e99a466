package git

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/aicodesit/cordon/internal/source"
)

const (
	maxLinks  = 8    // symbolic links one after the other
	maxTarget = 4096 // bytes of where a link leads
	lfsStart  = "version https://git-lfs.github.com/spec/"
)

// reader reads the directory that is followed. Blobs of other directories are
// not looked at.
type reader struct {
	objects
	dir   string // within the repository, for names
	root  *object.Tree
	total int64
	notes []string
}

// files returns the *.hcl files that lie directly in dir of a tree.
func (o objects) files(tree plumbing.Hash, dir string) ([]source.File, []string, error) {
	r := &reader{objects: o, dir: dir}
	top, err := o.tree(tree)
	if err != nil {
		return nil, nil, err
	}
	if r.root, err = r.descend(top, dir); err != nil {
		err = fmt.Errorf("the path %q: %w", dir, err)
		if errors.As(err, new(absent)) {
			err = nothing{err}
		}
		return nil, nil, err
	}
	var out []source.File
	for _, e := range r.root.Entries {
		f, err := r.file(e)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path.Join(dir, e.Name), err)
		}
		if f != nil {
			out = append(out, *f)
		}
	}
	if len(out) == 0 {
		return nil, nil, nothing{fmt.Errorf("no *.hcl file in the path %q: an empty directory declares nothing, and is never taken to mean that all should be removed", dir)}
	}
	return out, r.notes, nil
}

// descend goes down into directories, not along symbolic links.
func (r *reader) descend(t *object.Tree, dir string) (*object.Tree, error) {
	if dir == "" || dir == "." {
		return t, nil
	}
	for name := range strings.SplitSeq(dir, "/") {
		e := entry(t, name)
		switch {
		case e == nil:
			return nil, absent(name)
		case e.Mode == filemode.Submodule:
			return nil, fmt.Errorf("%s is a submodule; those are not fetched", name)
		case e.Mode != filemode.Dir:
			return nil, fmt.Errorf("%s is not a directory", name)
		}
		var err error
		if t, err = r.tree(e.Hash); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// absent is a name that a tree does not have.
type absent string

func (a absent) Error() string { return string(a) + " does not exist" }

func entry(t *object.Tree, name string) *object.TreeEntry {
	for i := range t.Entries {
		if t.Entries[i].Name == name {
			return &t.Entries[i]
		}
	}
	return nil
}

// file returns the entry's text, nil for one that is none of ours.
func (r *reader) file(e object.TreeEntry) (*source.File, error) {
	if e.Mode == filemode.Submodule {
		r.notes = append(r.notes, fmt.Sprintf("the submodule %s was left out", path.Join(r.dir, e.Name)))
		return nil, nil
	}
	if !strings.HasSuffix(e.Name, ".hcl") || strings.HasPrefix(e.Name, ".") {
		return nil, nil
	}
	b, err := r.text(e, e.Name, maxLinks)
	if err != nil {
		return nil, err
	}
	return &source.File{Name: path.Join(r.dir, e.Name), Bytes: b}, nil
}

// text reads an entry that lies at a place within the directory.
func (r *reader) text(e object.TreeEntry, at string, links int) ([]byte, error) {
	switch e.Mode {
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
	case filemode.Symlink:
		return r.follow(e, at, links)
	default:
		return nil, errors.New("a name that ends in .hcl must be a file or a symbolic link to one")
	}
	b, err := r.get(plumbing.BlobObject, e.Hash, source.MaxFile)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(b, []byte(lfsStart)) {
		return nil, errors.New("it is kept in Git LFS, which is not supported: commit the file itself")
	}
	if r.total += int64(len(b)); r.total > source.MaxTotal {
		return nil, fmt.Errorf("all files together have more than %d bytes", source.MaxTotal)
	}
	return b, nil
}

// follow goes to where a link leads, if that is within the directory.
func (r *reader) follow(e object.TreeEntry, at string, links int) ([]byte, error) {
	if links == 0 {
		return nil, errors.New("too many symbolic links")
	}
	b, err := r.get(plumbing.BlobObject, e.Hash, maxTarget)
	if err != nil {
		return nil, err
	}
	to := path.Join(path.Dir(at), string(b))
	if path.IsAbs(string(b)) || to == ".." || strings.HasPrefix(to, "../") {
		return nil, fmt.Errorf("the symbolic link to %q leads out of the directory", b)
	}
	t, err := r.descend(r.root, path.Dir(to))
	if err != nil {
		return nil, fmt.Errorf("the symbolic link to %q: %w", b, err)
	}
	next := entry(t, path.Base(to))
	if next == nil {
		return nil, fmt.Errorf("the symbolic link to %q leads to nothing", b)
	}
	return r.text(*next, to, links-1)
}
