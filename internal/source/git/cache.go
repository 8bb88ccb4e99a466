package git

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	headRef   = plumbing.ReferenceName("refs/cordon/head")
	maxPacks  = 32               // before a fresh clone takes the place of so many
	objectsIn = 8 * cache.MiByte // memory
	largeBlob = 1 << 20          // bytes from which on a blob is not held in memory to be looked at
	repoName  = "repo"
	newPrefix = "new-"
)

// disk is where the cache is: a bare repository, and clones that are becoming
// it.
type disk struct{ dir string }

// tidy removes what a killed process left.
func (d disk) tidy() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	partial, globErr := filepath.Glob(filepath.Join(d.dir, repoName, "objects", "pack", "tmp_pack_*"))
	err = errors.Join(err, globErr)
	for _, p := range partial {
		err = errors.Join(err, os.Remove(p))
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d.dir, e.Name())))
		}
	}
	return err
}

func open(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir, osfs.WithBoundOS()), cache.NewObjectLRU(objectsIn), filesystem.Options{LargeObjectThreshold: largeBlob})
}

// current opens the cache; head is the commit it has all of.
func (d disk) current() (s *filesystem.Storage, head plumbing.Hash, ok bool) {
	dir := filepath.Join(d.dir, repoName)
	if _, err := os.Stat(dir); err != nil {
		return nil, head, false
	}
	s = open(dir)
	ref, err := s.Reference(headRef)
	if err != nil || ref.Type() != plumbing.HashReference {
		_ = s.Close()
		return nil, head, false
	}
	return s, ref.Hash(), true
}

// crowded tells whether the cache should be made anew.
func (d disk) crowded() bool {
	packs, err := filepath.Glob(filepath.Join(d.dir, repoName, "objects", "pack", "*.pack"))
	return err != nil || len(packs) >= maxPacks
}

// fresh makes an empty repository beside the cache.
func (d disk) fresh() (s *filesystem.Storage, dir string, err error) {
	if dir, err = os.MkdirTemp(d.dir, newPrefix); err != nil {
		return nil, "", err
	}
	s = open(dir)
	if err := s.Init(); err != nil {
		return nil, "", errors.Join(err, s.Close(), os.RemoveAll(dir))
	}
	return s, dir, nil
}

// swap puts a clone in the cache's place. After a crash in between there is
// no cache, which only costs another clone.
func (d disk) swap(dir string) error {
	repo, old := filepath.Join(d.dir, repoName), dir+".old"
	err := os.Rename(repo, old)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.Rename(dir, repo), os.RemoveAll(old))
}

func setHead(s *filesystem.Storage, h plumbing.Hash) error {
	return s.SetReference(plumbing.NewHashReference(headRef, h))
}
