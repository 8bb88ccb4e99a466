package gitgate

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of gitprotocol-common(5), and of what is held of a push.
const (
	maxPacket   = 65520   // a pkt-line with its length, in bytes
	maxCommands = 1 << 20 // all commands of a push, in bytes; some 8,000 refs
	flushPacket = "0000"
)

// packet appends text as a pkt-line.
func packet(to []byte, text string) []byte {
	return append(fmt.Appendf(to, "%04x", len(text)+4), text...)
}

// commands are what a push asks for.
type commands struct {
	raw          []byte // as they came, with the flush at their end
	refs         []string
	capabilities []string
}

func (c commands) has(capability string) bool { return slices.Contains(c.capabilities, capability) }

// Compiled on first use: every start of cordon would pay for it.
var (
	command = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[0-9a-f]{40} [0-9a-f]{40}|[0-9a-f]{64} [0-9a-f]{64}) (refs/[^\x00-\x20\x7f~^:?*\[\\]+)$`)
	})
	shallow = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^shallow (?:[0-9a-f]{40}|[0-9a-f]{64})$`) })
	badRef  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.\.|//|/\.|@\{|\.lock(?:/|$)|[./]$`) })
)

// readCommands reads what stands before a pack, up to the flush and no byte
// further. Forms that servers read in different ways are errors.
func readCommands(from io.Reader) (commands, error) {
	var c commands
	for {
		line, flush, err := readPacket(from, &c.raw)
		if err != nil {
			return commands{}, err
		}
		if flush {
			return c, nil
		}
		if err := c.take(line); err != nil {
			return commands{}, err
		}
	}
}

func (c *commands) take(line string) error {
	text, rest, more := strings.Cut(line, "\x00")
	if more && len(c.refs) > 0 {
		return errors.New("capabilities stand with the first command only")
	}
	if !more {
		text = strings.TrimSuffix(text, "\n")
	}
	if shallow().MatchString(text) && !more && len(c.refs) == 0 {
		return nil
	}
	m := command().FindStringSubmatch(text)
	switch {
	case strings.HasPrefix(text, "push-cert"):
		return errors.New("signed pushes are not passed on")
	case m == nil || badRef().MatchString(m[1]):
		return errors.New("a command must be OLD NEW REF")
	case slices.Contains(c.refs, m[1]):
		return errors.New("a ref is named twice")
	}
	c.refs = append(c.refs, m[1])
	if more {
		c.capabilities = strings.Fields(rest)
	}
	return nil
}

// readPacket reads one pkt-line and appends it, as it came, to raw.
func readPacket(from io.Reader, raw *[]byte) (line string, flush bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return "", false, errors.New("the commands broke off")
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || n > maxPacket || n != 0 && n <= 4: // 1 and 2 end the commands for some readers only
		return "", false, errors.New("a pkt-line has a bad length")
	case len(*raw)+int(max(n, 4)) > maxCommands:
		return "", false, errors.New("too many commands")
	}
	*raw = append(*raw, head[:]...)
	if n == 0 {
		return "", true, nil
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(from, body); err != nil {
		return "", false, errors.New("the commands broke off")
	}
	*raw = append(*raw, body...)
	return string(body), false, nil
}
