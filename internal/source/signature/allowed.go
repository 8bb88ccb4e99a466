package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// allowed is a line of an allowed_signers file, see ssh-keygen(1), "ALLOWED
// SIGNERS".
type allowed struct {
	principals  string
	key         ssh.PublicKey
	namespaces  string    // pattern list, "" for all
	validAfter  time.Time // zero for always
	validBefore time.Time
}

// parseAllowed reads an allowed_signers file. Lines that ssh-keygen would pass
// over with a warning are errors here: somebody relies on them.
func parseAllowed(file []byte) ([]allowed, error) {
	var out []allowed
	for n, line := range bytes.Split(file, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			continue
		}
		a, err := parseLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		out = append(out, a)
	}
	return out, nil
}

func parseLine(line string) (allowed, error) {
	var a allowed
	var rest string
	var err error
	if a.principals, rest, err = field(line); err != nil {
		return a, err
	}
	a.principals = strings.Trim(a.principals, `"`)
	if a.principals == "" || strings.Contains(a.principals, `"`) {
		return a, errors.New("no principal")
	}
	if a.key, err = parseKey(rest); err == nil {
		return a, strong(a.key)
	}
	options, rest, err := field(rest)
	if err != nil {
		return a, err
	}
	if a.key, err = parseKey(rest); err != nil {
		return a, errors.New("want: principals [options] key-type base64-key")
	}
	if err := a.options(options); err != nil {
		return a, err
	}
	return a, strong(a.key)
}

// field cuts the first field off, which may have quoted parts with spaces.
func field(s string) (first, rest string, err error) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case !quoted && (s[i] == ' ' || s[i] == '\t'):
			return s[:i], strings.TrimLeft(s[i:], " \t"), nil
		}
	}
	if quoted {
		return "", "", errors.New("a quotation mark is not closed")
	}
	return s, "", nil
}

// parseKey reads "type base64 comment", where the type must be the key's own.
func parseKey(s string) (ssh.PublicKey, error) {
	kind, _, _ := strings.Cut(s, " ")
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(s))
	if err != nil {
		return nil, err
	}
	if len(options) > 0 || len(rest) > 0 || key.Type() != kind {
		return nil, errors.New("not a key")
	}
	return key, nil
}

func (a *allowed) options(s string) error {
	for _, o := range splitOptions(s) {
		name, value, has := strings.Cut(o, "=")
		value, ok := unquote(value)
		if has && !ok {
			return fmt.Errorf("option %s: its value must be in quotation marks", name)
		}
		var err error
		switch strings.ToLower(name) {
		case "namespaces":
			if value == "" {
				err = errors.New("is empty")
			}
			a.namespaces = value
		case "valid-after":
			a.validAfter, err = parseTime(value)
		case "valid-before":
			a.validBefore, err = parseTime(value)
		case "cert-authority":
			err = errors.New("certificates are not supported; list the keys themselves")
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return fmt.Errorf("option %s: %w", name, err)
		}
	}
	if !a.validAfter.IsZero() && !a.validBefore.IsZero() && !a.validAfter.Before(a.validBefore) {
		return errors.New("valid-before is not after valid-after")
	}
	return nil
}

func splitOptions(s string) []string {
	var out []string
	quoted, start := false, 0
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' || strings.Contains(s[1:len(s)-1], `"`) {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// parseTime reads YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS: in local time, or
// in UTC with a Z at the end.
func parseTime(s string) (time.Time, error) {
	digits, utc := strings.CutSuffix(strings.ToUpper(s), "Z")
	place := time.Local
	if utc {
		place = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) != len(digits) {
			continue
		}
		if t, err := time.ParseInLocation(layout, digits, place); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time as YYYYMMDD[HHMM[SS]][Z]", s)
}

// accepts tells why the line does not allow a signature made at a time, nil
// if it does.
func (a allowed) accepts(namespace string, at time.Time) error {
	switch {
	case a.namespaces != "" && !matchList(a.namespaces, namespace):
		return fmt.Errorf("the key of %s may not sign in the namespace %q", a.principals, namespace)
	case !a.validAfter.IsZero() && at.Before(a.validAfter):
		return fmt.Errorf("the key of %s is valid only from %s on", a.principals, a.validAfter.UTC().Format(time.RFC3339))
	case !a.validBefore.IsZero() && at.After(a.validBefore):
		return fmt.Errorf("the key of %s was valid only until %s", a.principals, a.validBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// matchList tells whether a comma-separated list of patterns has one that
// matches, and none with "!" before it that does; see ssh_config(5), PATTERNS.
func matchList(list, s string) bool {
	found := false
	for _, p := range strings.Split(list, ",") {
		p, negated := strings.CutPrefix(strings.TrimSpace(p), "!")
		if !match(p, s) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// match compares s to a pattern with * and ?, in time proportional to the
// product of their lengths.
func match(pattern, s string) bool {
	p, i, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			p, mark = star+1, mark+1
			i = mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
