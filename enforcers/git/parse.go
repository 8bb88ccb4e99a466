package git

import (
	"errors"
	"fmt"
	"strings"
)

// setting is one line of a configuration: section.subsection.name = value.
// Section and name are in lower case, as git compares them.
type setting struct {
	section, subsection, name, value string
	hasSub                           bool
}

// parser reads the syntax of git-config(1), strictly: what git itself would
// refuse is an error, and so is what other readers take in another way than
// git (NUL bytes, carriage returns within lines).
type parser struct {
	text string
	at   int
	line int
}

// parse returns the settings of a file, in order. Its errors hold no text of
// the file.
func parse(text string) ([]setting, error) {
	p := &parser{text: strings.TrimPrefix(text, "\ufeff"), line: 1}
	out, err := p.settings()
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", p.line, err)
	}
	return out, nil
}

const end = -1

// next returns the next byte, a line's end always as '\n'.
func (p *parser) next() int {
	if p.at == len(p.text) {
		return end
	}
	c := p.text[p.at]
	p.at++
	if c == '\r' && p.at < len(p.text) && p.text[p.at] == '\n' {
		c = '\n'
		p.at++
	}
	if c == '\n' {
		p.line++
	}
	return int(c)
}

func (p *parser) peek() int {
	at, line := p.at, p.line
	c := p.next()
	p.at, p.line = at, line
	return c
}

func (p *parser) settings() ([]setting, error) {
	var out []setting
	var in *setting
	for {
		switch c := p.next(); {
		case c == end:
			return out, nil
		case c == 0 || c == '\r':
			return nil, errors.New("a NUL byte or a stray carriage return")
		case isSpace(c):
		case c == '#' || c == ';':
			p.comment()
		case c == '[':
			s, err := p.header()
			if err != nil {
				return nil, err
			}
			in = &s
		case isAlpha(c) && in != nil:
			s, err := p.entry(*in, c)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		default:
			return nil, errors.New("neither a section nor a setting")
		}
	}
}

func (p *parser) comment() {
	for c := p.next(); c != end && c != '\n'; c = p.next() {
	}
}

// header reads what follows a '['.
func (p *parser) header() (setting, error) {
	var s setting
	for {
		switch c := p.next(); {
		case c == ']' && s.section != "":
			// The old form [section.subsection], lower case throughout.
			s.section, s.subsection, s.hasSub = strings.Cut(s.section, ".")
			return s, nil
		case isSpace(c) && c != '\n' && s.section != "":
			return p.quotedHeader(s)
		case isAlpha(c) || isDigit(c) || c == '-' || c == '.' && s.section != "":
			s.section += string(lower(c))
		default:
			return s, errors.New("a section's name is wrong")
		}
	}
}

func (p *parser) quotedHeader(s setting) (setting, error) {
	if strings.Contains(s.section, ".") {
		return s, errors.New("a section with two kinds of subsections")
	}
	c := p.next()
	for isSpace(c) && c != '\n' {
		c = p.next()
	}
	if c != '"' {
		return s, errors.New("a subsection is not quoted")
	}
	s.hasSub = true
	for {
		c := p.next()
		if c == '\\' {
			c = p.next()
		} else if c == '"' {
			break
		}
		if c == end || c == '\n' || c == 0 {
			return s, errors.New("a subsection is not closed")
		}
		s.subsection += string([]byte{byte(c)})
	}
	if p.next() != ']' {
		return s, errors.New("a section is not closed")
	}
	return s, nil
}

// entry reads a setting whose name begins with first.
func (p *parser) entry(in setting, first int) (setting, error) {
	name := []byte{lower(first)}
	for c := p.peek(); isAlpha(c) || isDigit(c) || c == '-'; c = p.peek() {
		name = append(name, lower(p.next()))
	}
	in.name = string(name)
	c := p.next()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	switch c {
	case '\n', end:
		in.value = "true" // a name alone
		return in, nil
	case '=':
	default:
		return in, errors.New("a setting without =")
	}
	var err error
	in.value, err = p.value()
	return in, err
}

// value reads to the line's end; spaces around it are no part of it, those in
// quotes are.
func (p *parser) value() (string, error) {
	var out []byte
	keep := 0 // how much of out is not trailing space
	quoted, began, tab := false, false, false
	for {
		c := p.next()
		switch {
		case c == end || c == '\n':
			if quoted {
				return "", errors.New("a quote is not closed")
			}
			return string(out[:keep]), nil
		case c == 0 || c == '\r':
			return "", errors.New("a NUL byte or a stray carriage return")
		case isSpace(c) && !quoted:
			if began {
				out = append(out, byte(c))
				tab = tab || c != ' '
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			p.comment()
			return string(out[:keep]), nil
		case c == '"':
			if tab {
				return "", errors.New("a tab within a value")
			}
			quoted, began = !quoted, true
			keep = len(out)
			continue
		case c == '\\':
			e := p.next()
			if e == '\n' && len(out) == keep {
				continue
			}
			i := strings.IndexByte(`tnb\"`, byte(e))
			if e == end || i < 0 { // or a line's end after a space, which releases take differently
				return "", errors.New("an unknown escape")
			}
			c = int("\t\n\b\\\""[i])
		}
		if tab {
			// Some releases make it a space.
			return "", errors.New("a tab within a value")
		}
		began = true
		out = append(out, byte(c))
		keep = len(out)
	}
}

func isSpace(c int) bool { return c == ' ' || c == '\t' || c == '\n' }
func isAlpha(c int) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c int) bool { return '0' <= c && c <= '9' }

func lower(c int) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return byte(c)
}

// format writes settings so that git, and parse, read them back as they are.
func format(settings []setting) string {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`)
	last := setting{}
	for i, s := range settings {
		if i == 0 || s.section != last.section || s.hasSub != last.hasSub || s.subsection != last.subsection {
			b.WriteString("[" + s.section)
			if s.hasSub {
				b.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.subsection) + `"`)
			}
			b.WriteString("]\n")
		}
		b.WriteString("\t" + s.name + ` = "` + quote.Replace(s.value) + "\"\n")
		last = s
	}
	return b.String()
}
