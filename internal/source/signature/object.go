package signature

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a git object that can be signed.
type Kind string

// The kinds.
const (
	Commit Kind = "commit"
	Tag    Kind = "tag"
)

const pgpBegin = "-----BEGIN PGP SIGNATURE-----"

var errUnsigned = errors.New("it is not signed")

// split takes an object apart into what was signed and the armored signature,
// on the bytes as they are: what a parser would not keep can't be slipped in.
func split(kind Kind, object []byte) (payload []byte, armored string, err error) {
	if kind == Tag {
		return splitTag(object)
	}
	return splitCommit(object)
}

// splitCommit cuts the header gpgsig and its continuation lines out, see
// gitformat-signature(5).
func splitCommit(object []byte) (payload []byte, armored string, err error) {
	end := bytes.Index(object, []byte("\n\n"))
	if end < 0 {
		return nil, "", errors.New("a commit without an end of its headers")
	}
	var sig strings.Builder
	found, inside := false, false
	for line := range bytes.Lines(object[:end+1]) {
		switch {
		case bytes.HasPrefix(line, []byte("gpgsig ")):
			if found {
				return nil, "", errors.New("it has two signatures")
			}
			found, inside = true, true
			sig.Write(line[len("gpgsig "):])
		case inside && line[0] == ' ':
			sig.Write(line[1:])
		case bytes.HasPrefix(line, []byte("gpgsig")):
			return nil, "", fmt.Errorf("the header %q is not known", bytes.TrimSpace(bytes.SplitN(line, []byte(" "), 2)[0]))
		default:
			inside = false
			payload = append(payload, line...)
		}
	}
	if !found {
		return nil, "", errUnsigned
	}
	return append(payload, object[end+1:]...), sig.String(), nil
}

// splitTag cuts at the last line that begins a signature, as git does.
func splitTag(object []byte) (payload []byte, armored string, err error) {
	at, pos := -1, 0
	for line := range bytes.Lines(object) {
		if bytes.HasPrefix(line, []byte(sshBegin)) || bytes.HasPrefix(line, []byte(pgpBegin)) {
			at = pos
		}
		pos += len(line)
	}
	if at < 0 {
		return nil, "", errUnsigned
	}
	return object[:at], string(object[at:]), nil
}

// signedAt is the time that the committer or tagger claims.
func signedAt(kind Kind, payload []byte) (time.Time, error) {
	name := "committer "
	if kind == Tag {
		name = "tagger "
	}
	for line := range bytes.Lines(payload) {
		if len(line) == 1 {
			break
		}
		rest, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), name)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			break
		}
		seconds, err := strconv.ParseInt(fields[len(fields)-2], 10, 64)
		if err != nil {
			break
		}
		return time.Unix(seconds, 0), nil
	}
	return time.Time{}, fmt.Errorf("it has no line %q with a time", strings.TrimSpace(name))
}
