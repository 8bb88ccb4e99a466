// Package unit writes the unit by which systemd runs a daemon.
package unit

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

// Path is where the unit belongs.
const Path = "/etc/systemd/system/cordon.service"

// Service is what is run.
type Service struct {
	Program     string   // absolute
	Arguments   []string // behind the program
	RunDir      string   // made by systemd where it is below /run, and kept
	StateDir    string   // made by systemd where it is below /var/lib
	Credentials []Credential
}

// Credential is a file that only the daemon gets to see, see LoadCredential=
// in systemd.exec(5).
type Credential struct{ Name, Path string }

// ParseCredential reads NAME=PATH.
func ParseCredential(s string) (Credential, error) {
	name, path, _ := strings.Cut(s, "=")
	if !regexp.MustCompile(`^[A-Za-z0-9_.-]+$`).MatchString(name) || strings.Trim(name, ".") == "" {
		return Credential{}, fmt.Errorf("credential %q: say NAME=PATH, the name of letters, digits, points, dashes and underscores", s)
	}
	if !filepath.IsAbs(path) || strings.ContainsAny(path, ":\n") {
		return Credential{}, fmt.Errorf("credential %q: say NAME=PATH, the path absolute and without colons", s)
	}
	return Credential{name, path}, nil
}

//go:embed cordon.service.tmpl
var text string

// Text is the unit as a file. Its first line tells whether it was changed by
// hand.
func (s Service) Text() (string, error) {
	for _, a := range append([]string{s.Program}, s.Arguments...) {
		if strings.ContainsAny(a, "\n\x00") {
			return "", fmt.Errorf("%q: a unit's line can't hold a line's end", a)
		}
	}
	t, err := template.New("unit").Funcs(template.FuncMap{"quote": quote, "below": below, "escape": escape}).Parse(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return "", err
	}
	return mark + digest(b.String()) + "\n" + b.String(), nil
}

// mark begins the first line.
const mark = "# Written by cordon install. Digest of what follows: "

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// ErrEdited is of a unit that is not as cordon install wrote it.
var ErrEdited = errors.New("it was not written by cordon install, or changed by hand since: put changes into a drop-in (systemctl edit cordon), or say --force to replace it")

// Pristine returns ErrEdited unless the text is as [Service.Text] wrote it, in
// whatever version.
func Pristine(text string) error {
	first, rest, _ := strings.Cut(text, "\n")
	if first != mark+digest(rest) {
		return ErrEdited
	}
	return nil
}

// quote writes an argument such that systemd passes it on as it is, see
// "Command lines" in systemd.service(5).
func quote(s string) string {
	s = strings.NewReplacer("%", "%%", "$", "$$", `\`, `\\`, `"`, `\"`).Replace(s)
	if s == "" || strings.ContainsAny(s, " \t'\"\\;") {
		return `"` + s + `"`
	}
	return s
}

func escape(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// below is path relative to dir; "" when it is not below.
func below(dir, path string) string {
	rest, ok := strings.CutPrefix(path, dir+"/")
	if !ok || strings.ContainsAny(rest, " \t:%\"'\\") {
		return ""
	}
	return rest
}
