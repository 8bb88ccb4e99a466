package gitgate

import (
	"bytes"
	"io"
	"slices"
)

// shortest is the length of a secret that is looked for, in bytes: what is
// shorter occurs in packs by chance.
const shortest = 8

// mask writes what it is given with each secret replaced by as many x, so that
// lengths stay true.
type mask struct {
	to      io.Writer
	secrets [][]byte
	held    []byte // the beginning of a secret, perhaps
}

func newMask(to io.Writer, secrets []string) *mask {
	m := &mask{to: to}
	for _, s := range secrets {
		if len(s) >= shortest && !slices.ContainsFunc(m.secrets, func(have []byte) bool { return string(have) == s }) {
			m.secrets = append(m.secrets, []byte(s))
		}
	}
	return m
}

func (m *mask) Write(p []byte) (int, error) {
	if len(m.secrets) == 0 {
		return m.to.Write(p)
	}
	all := p // which is not changed
	if len(m.held) > 0 {
		all = slices.Concat(m.held, p)
	}
	for _, s := range m.secrets {
		if bytes.Contains(all, s) {
			all = bytes.ReplaceAll(all, s, bytes.Repeat([]byte("x"), len(s)))
		}
	}
	keep := 0
	for _, s := range m.secrets {
		keep = max(keep, begun(all, s))
	}
	m.held = slices.Clone(all[len(all)-keep:])
	if len(all) > keep {
		if _, err := m.to.Write(all[:len(all)-keep]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// begun is the length of the longest end of text with which s begins.
func begun(text, s []byte) int {
	for n := min(len(s)-1, len(text)); n > 0; n-- {
		if bytes.HasSuffix(text, s[:n]) {
			return n
		}
	}
	return 0
}

func (m *mask) flush() error {
	if len(m.held) == 0 {
		return nil
	}
	_, err := m.to.Write(m.held)
	return err
}
