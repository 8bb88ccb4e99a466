package secret

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// defaultTTL is for how long what a command or a Vault said is used again.
const defaultTTL = 5 * time.Minute

// Cache is a Reader that asks commands and Vaults again only after the
// secret's TTL, and reads files again when they changed, which it sees at each
// Read. Variables and credentials are read each time. Its methods may be
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
	until time.Time   // of a command and a Vault
	file  os.FileInfo // what the value was read from
}

// NewCache returns an empty Cache of secrets.
func NewCache(secrets []specs.Secret) *Cache {
	return &Cache{reader: Reader{secrets}, now: time.Now, got: map[string]*entry{}}
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
	if s.File != "" {
		return c.file(s, e)
	}
	if c.now().Before(e.until) {
		return e.value, nil
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

// file reads a file that changed. One that changed within the last moments is
// read anyway: its next change may bear the same time.
func (c *Cache) file(s *specs.Secret, e *entry) (string, error) {
	now, err := os.Stat(s.File)
	if err != nil {
		return "", fmt.Errorf("secret.%s: %w", s.Name, err)
	}
	settled := c.now().Sub(now.ModTime()) > time.Second
	if settled && e.file != nil && os.SameFile(e.file, now) && e.file.ModTime().Equal(now.ModTime()) && e.file.Size() == now.Size() {
		return e.value, nil
	}
	e.file = nil
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
