package secret

import (
	"sync"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// defaultTTL is for how long what a command or a Vault said is used again.
const defaultTTL = 5 * time.Minute

// Cache is a Reader that asks commands and Vaults again only after the
// secret's TTL. Files, variables and credentials are read each time, so that
// a change counts at once. Its methods may be called at the same time.
type Cache struct {
	reader Reader
	now    func() time.Time

	mu  sync.Mutex
	got map[string]*entry
}

type entry struct {
	mu    sync.Mutex // held while it is fetched: one fetch at a time, and others' secrets don't wait
	value string
	until time.Time
}

// NewCache returns an empty Cache of secrets.
func NewCache(secrets []specs.Secret) *Cache {
	return &Cache{reader: Reader{secrets}, now: time.Now, got: map[string]*entry{}}
}

// Read is [Reader.Read].
func (c *Cache) Read(name string) (string, error) {
	s := specs.Find(c.reader.Secrets, name)
	if s == nil || len(s.Command) == 0 && s.Vault == nil {
		return c.reader.Read(name)
	}
	e := c.entry(name)
	e.mu.Lock()
	defer e.mu.Unlock()
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
