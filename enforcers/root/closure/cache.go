package closure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// cachePath is the loader's cache; see ldconfig(8).
const cachePath = "/etc/ld.so.cache"

// statCache is the state of the loader's cache; the zero File when there is none.
func statCache() File {
	var st unix.Stat_t
	if unix.Stat(cachePath, &st) != nil {
		return File{}
	}
	return newFile(cachePath, "", &st).withContent(&st)
}

// readCache returns the paths of each library name. Without a cache the loader
// looks in the default directories only: that is no error.
func readCache() (map[string][]string, error) {
	b, err := os.ReadFile(cachePath)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string][]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parseCache(b)
}

// sameLookups tells whether the cache as it is now has the same answers for
// all names that were looked up: installing an unrelated package rewrites it.
func (c Closure) sameLookups() bool {
	if statCache() == c.Cache {
		return true
	}
	now, err := readCache()
	if err != nil {
		return false
	}
	for name, paths := range c.Lookups {
		if !slices.Equal(now[name], paths) {
			return false
		}
	}
	return true
}

// The format of /etc/ld.so.cache since glibc 2.2, sysdeps/generic/dl-cache.h:
// a header of 48 bytes, then entries of 24 bytes with offsets of two strings,
// counted from the header.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// variant tells whether path is that of a library for particular processors:
// the loader takes it, or the common one, after the processor it runs on.
func variant(path string) bool { return strings.Contains(path, "/glibc-hwcaps/") }

// parseCache returns the paths of each library name, in the cache's order.
func parseCache(b []byte) (map[string][]string, error) {
	at := bytes.Index(b, []byte(cacheMagic))
	if at < 0 || len(b) < at+cacheHeader {
		return nil, errors.New("not in a format that is known")
	}
	b = b[at:]
	n := int(binary.NativeEndian.Uint32(b[len(cacheMagic):]))
	if n < 0 || n > (len(b)-cacheHeader)/cacheEntry {
		return nil, errors.New("cut short")
	}
	out := make(map[string][]string, n)
	for i := range n {
		e := b[cacheHeader+i*cacheEntry:]
		name, ok1 := cString(b, binary.NativeEndian.Uint32(e[4:]))
		path, ok2 := cString(b, binary.NativeEndian.Uint32(e[8:]))
		if !ok1 || !ok2 {
			return nil, errors.New("cut short")
		}
		out[name] = append(out[name], path)
	}
	return out, nil
}

func cString(b []byte, at uint32) (string, bool) {
	if uint64(at) >= uint64(len(b)) {
		return "", false
	}
	s, _, ok := bytes.Cut(b[at:], []byte{0})
	return string(s), ok
}
