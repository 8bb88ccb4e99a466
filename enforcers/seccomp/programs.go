package seccomp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Compiler makes the programs of policies.
type Compiler interface {
	// Program returns the classic BPF program of a policy as an array of struct
	// sock_filter (linux/filter.h), always the same for the same policy. It
	// looks at Deny, Allow and Errno alone.
	Program(context.Context, Resource) ([]byte, error)
}

// programs are what policies compile to on this host. To compile one takes
// longer than all else of a reading, and a plan and an apply ask for the same
// ones several times; nothing of it outlives the process.
type programs struct {
	compiler Compiler

	mu     sync.Mutex
	byRule map[string][]byte
}

// of returns the program of a policy, which the caller must not change.
func (p *programs) of(ctx context.Context, r Resource) ([]byte, error) {
	key, err := json.Marshal([]any{r.Deny, r.Allow, r.Errno})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if program, ok := p.byRule[string(key)]; ok {
		return program, nil
	}
	program, err := p.compiler.Program(ctx, r)
	if err != nil {
		return nil, err
	}
	const instruction = 8 // bytes
	if n := len(program); n == 0 || n%instruction != 0 || n > instruction*unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("the policy came to %d bytes, which are no filter", n)
	}
	if p.byRule == nil {
		p.byRule = map[string][]byte{}
	}
	p.byRule[string(key)] = program
	return program, nil
}
