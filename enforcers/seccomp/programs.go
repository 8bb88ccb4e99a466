package seccomp

import (
	"encoding/json"
	"sync"
)

// programs are what policies compile to on this host. To compile one takes
// longer than all else of a reading, and a plan, an apply and a session's start
// ask for the same ones several times; nothing of it outlives the process.
type programs struct {
	mu     sync.Mutex
	byRule map[string][]byte
}

// of returns the program of a policy, which the caller must not change.
func (p *programs) of(r Resource) ([]byte, error) {
	key, err := json.Marshal([]any{r.Deny, r.Allow, r.Errno}) // all that compile looks at
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if program, ok := p.byRule[string(key)]; ok {
		return program, nil
	}
	m, err := native()
	if err != nil {
		return nil, err
	}
	program, err := compile(r, m)
	if err != nil {
		return nil, err
	}
	if p.byRule == nil {
		p.byRule = map[string][]byte{}
	}
	p.byRule[string(key)] = program
	return program, nil
}
