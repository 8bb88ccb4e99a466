package specs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Digest identifies what is declared: equal for equal blocks, whatever the
// files they are written in and whatever the facts.
func (s Set) Digest() string {
	s.Leases, s.Tables, s.Functions, s.Servers = nil, nil, nil, nil
	return digest(s)
}

// SandboxDigest identifies a profile with all that it refers to: a session
// started under another digest is stale. It returns "" when there is no such
// sandbox.
func (s Set) SandboxDigest(name string) string {
	sandbox := Find(s.Sandboxes, name)
	if sandbox == nil {
		return ""
	}
	return digest([]any{sandbox, Find(s.Networks, sandbox.Network), Find(s.Environments, sandbox.Environment), Find(s.Seccomps, sandbox.Seccomp)})
}

// SandboxDigests returns SandboxDigest for who asks for many sessions: each
// profile is looked at once.
func (s Set) SandboxDigests() func(name string) string {
	known := map[string]string{}
	return func(name string) string {
		d, ok := known[name]
		if !ok {
			d = s.SandboxDigest(name)
			known[name] = d
		}
		return d
	}
}

func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain structs of this package always marshal
		panic(fmt.Sprintf("specs: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
