package secret

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// defaultTTL is for how long what a command or a Vault said is used again.
const defaultTTL = 5 * time.Minute

// lookAgain is for how long a file that did not change a moment ago is taken not
// to have changed since: looking takes longer than most of what a proxy does
// to a request.
const lookAgain = 10 * time.Millisecond

// Cache is a Reader that asks commands and Vaults again only after the
// secret's TTL, and reads files again when they changed, which it sees within
// 10 ms. Variables and credentials are read each time. Its methods may be
// called at the same time.
type Cache struct {
	reader Reader
	now    func() time.Time

	mu  sync.Mutex
	got map[string]*entry
}

type entry struct {
	mu    sync.Mutex // held while it is fetched: one fetch at a time, and others' secrets don't wait
	value string
	until time.Time // it need not be looked at before
	file  identity  // what the value was read from
}

// NewCache returns an empty Cache of what r reads.
func NewCache(r Reader) *Cache {
	return &Cache{reader: r, now: time.Now, got: map[string]*entry{}}
}

// Read is [Reader.Read].
func (c *Cache) Read(name string) (string, error) {
	s := specs.Find(c.reader.Secrets, name)
	if s == nil || s.Env != "" || s.Systemd != "" {
		return c.reader.Read(name)
	}
	e := c.entry(name)
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.now().Before(e.until) {
		return e.value, nil
	}
	if s.File != "" {
		return c.file(s, e)
	}
	value, err := c.reader.Read(name)
	if err != nil {
		return "", err
	}
	ttl := s.TTL
	if ttl <= 0 {
		ttl = defaultTTL
	}
	e.value, e.until = value, c.now().Add(ttl)
	return value, nil
}

// identity tells the states of a file apart. The zero identity is of none.
type identity struct {
	dev, inode uint64
	mtime      unix.Timespec
	size       int64
}

func identify(path string) (identity, error) {
	var st unix.Stat_t // os.Stat's would have to be allocated
	if err := unix.Stat(path, &st); err != nil {
		return identity{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return identity{uint64(st.Dev), st.Ino, st.Mtim, st.Size}, nil
}

// file reads a file that changed. One that changed within the last moments is
// read anyway: its next change may bear the same time.
func (c *Cache) file(s *specs.Secret, e *entry) (string, error) {
	now, err := identify(s.File)
	if err != nil {
		return "", fmt.Errorf("secret.%s: %w", s.Name, err)
	}
	settled := c.now().Sub(time.Unix(now.mtime.Unix())) > time.Second
	if settled && e.file == now {
		e.until = c.now().Add(lookAgain)
		return e.value, nil
	}
	e.file = identity{}
	value, err := c.reader.Read(s.Name)
	if err != nil {
		return "", err
	}
	e.value, e.file = value, now
	return value, nil
}

func (c *Cache) entry(name string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got[name] == nil {
		c.got[name] = &entry{}
	}
	return c.got[name]
}

// Forget makes the next Read ask again: whoever refuses a secret knows more
// than the cache.
func (c *Cache) Forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.got, name)
}
