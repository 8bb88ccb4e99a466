package transcript

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// kind is how a pattern's neighbours decide whether it was really found.
type kind int

const (
	kindTrigger kind = iota // an escape that may hide a byte of a pattern
	kindSecret              // found wherever it stands
	kindToken               // a prefix, with all that can belong to a token behind it
	kindDotted              // not within a longer dotted number; with ::ffff: before it, if it is there
	kindHextets             // the end of a mapped address, 0:…:ffff: before it
	kindHex                 // eight digits, or fewer after 0x
	kindIPv6                // not within a longer one
	kindWord                // not within a longer word or number
	kindBase64              // within the base64 form of any text
)

// pattern is one form of one value.
type pattern struct {
	kind   kind
	text   string // as it stands in a file; for kindBase64 the digits that depend on nothing else
	fold   bool   // regardless of case
	secret bool   // gives way to [redacted], not to the name
	plain  bool   // only where the file is not JSON: it can't stand in JSON as it is

	// Of kindBase64:
	inner kind   // how the neighbours of the decoded text decide
	value string // the decoded text
	shift int    // how many bytes stand before value in its first group of three
	first string // the digits before text in value's first group, as if zeros stood before value
	last  string // the digit behind text that holds the rest of value's bits, and zeros; "" if none does
}

// maxAnchor is how many bytes of a pattern the automaton knows: enough to be
// rare, few enough for a table that stays in the first-level cache.
const maxAnchor = 12

// minSecret is the shortest text, in bytes, that can be told from ordinary
// text.
const minSecret = 6

func addressPatterns(a netip.Addr) []pattern {
	a = a.Unmap()
	if !a.Is4() {
		return []pattern{
			{kind: kindIPv6, text: a.String(), fold: true},
			{kind: kindIPv6, text: a.StringExpanded(), fold: true},
		}
	}
	b := a.As4()
	n := binary.BigEndian.Uint32(b[:])
	each := func(format string) string { return fmt.Sprintf(format, b[0], b[1], b[2], b[3]) }
	out := []pattern{
		{kind: kindDotted, text: a.String()},
		{kind: kindDotted, text: each("%03d.%03d.%03d.%03d")},
		{kind: kindDotted, text: each("0%o.0%o.0%o.0%o")},
		{kind: kindDotted, text: each("0%03o.0%03o.0%03o.0%03o")},
		{kind: kindDotted, text: each("0x%x.0x%x.0x%x.0x%x"), fold: true},
		{kind: kindDotted, text: each("0x%02x.0x%02x.0x%02x.0x%02x"), fold: true},
		{kind: kindDotted, text: fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", b[3], b[2], b[1], b[0]), fold: true},
		{kind: kindWord, text: strconv.FormatUint(uint64(n), 10)},
		{kind: kindHex, text: hexDigits(b[:]), fold: true},
		{kind: kindHex, text: hexDigits([]byte{b[3], b[2], b[1], b[0]}), fold: true}, // as in /proc/net/tcp
		{kind: kindWord, text: base64.RawStdEncoding.EncodeToString(b[:])},
		{kind: kindWord, text: base64.RawURLEncoding.EncodeToString(b[:])},
	}
	for _, hi := range []string{"%x", "%04x"} {
		for _, lo := range []string{"%x", "%04x"} {
			out = append(out, pattern{kind: kindHextets, text: fmt.Sprintf("ffff:"+hi+":"+lo, n>>16, n&0xffff), fold: true})
		}
	}
	return append(out, base64Patterns(pattern{kind: kindDotted, text: a.String()})...)
}

// hexDigits is b without leading zeros, unless too little would be left to be
// told from any small number.
func hexDigits(b []byte) string {
	all := hex.EncodeToString(b)
	if short := strings.TrimLeft(all, "0"); len(short) > 4 {
		return short
	}
	return all
}

// secretPatterns are the forms of a value that was known: as it is, and as
// JSON, JSON within JSON and URLs hold it where that differs. Escapes that
// nobody needs to write are found by decoding instead.
func secretPatterns(value string) []pattern {
	inJSON := escapeJSON(value)
	twice := escapeJSON(inJSON)
	forms := []string{
		value, inJSON, twice,
		strings.ReplaceAll(inJSON, "/", `\/`), strings.ReplaceAll(twice, "/", `\\/`),
		url.QueryEscape(value), url.PathEscape(value),
	}
	var out []pattern
	for i, f := range forms {
		if !slices.Contains(forms[:i], f) {
			out = append(out, pattern{kind: kindSecret, text: f, secret: true, plain: i == 0 && value != inJSON})
		}
	}
	return append(out, base64Patterns(pattern{kind: kindSecret, text: value, secret: true})...)
}

// escapeJSON is what stands between the quotes, as JavaScript writes it.
func escapeJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")[1 : b.Len()-2]
}

func tokenPatterns(prefix string) []pattern {
	p := pattern{kind: kindToken, text: prefix, secret: true}
	return append([]pattern{p}, base64Patterns(p)...)
}

// base64Patterns are p within a longer text that was encoded: by how many
// bytes stand before it, one of three, in both alphabets.
func base64Patterns(p pattern) []pattern {
	var out []pattern
	for shift := range 3 {
		whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + p.text))
		full := (shift + len(p.text)) * 8 / 6
		core := whole[coreStart(shift):full]
		b := pattern{kind: kindBase64, text: core, secret: p.secret, inner: p.kind, value: p.text, shift: shift, first: whole[:coreStart(shift)], last: whole[full:]}
		out = append(out, b)
		if url := strings.NewReplacer("+", "-", "/", "_").Replace(core); url != core {
			b.text = url
			out = append(out, b)
		}
	}
	return out
}

// coreStart is the first digit of a group that depends on nothing but what
// stands shift bytes behind the group's start.
func coreStart(shift int) int { return (shift*8 + 5) / 6 }

// triggers are the escapes of every byte that occurs in patterns.
func triggers(patterns []pattern) []pattern {
	var used [128]bool
	for _, p := range patterns {
		for _, c := range []byte(p.text + p.value) {
			if c < 128 {
				used[c], used[lower(c)] = true, true
			}
			if p.fold && 'a' <= c && c <= 'z' {
				used[c-'a'+'A'] = true
			}
		}
		if p.kind == kindToken {
			for c := range byte(128) {
				used[c] = used[c] || isTokenByte(c)
			}
		}
	}
	var out []pattern
	for c, ok := range used {
		if ok && c >= ' ' {
			out = append(out,
				pattern{text: fmt.Sprintf(`\u00%02x`, c), fold: true},
				pattern{text: fmt.Sprintf(`%%%02x`, c), fold: true})
		}
	}
	return out
}

func isTokenByte(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }

func isAlnum(c byte) bool { return isDigit(c) || 'a' <= lower(c) && lower(c) <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= lower(c) && lower(c) <= 'f' }
