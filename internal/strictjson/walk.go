package strictjson

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep values may be nested.
const MaxDepth = 256

// Kind is the type of a value.
type Kind byte

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Value is a value as it stands in the text.
type Value struct {
	Kind Kind
	Raw  []byte // with quotes or brackets; part of the text
}

// Text returns the content of a String, and "" of any other kind.
func (v Value) Text() string {
	if v.Kind != String {
		return ""
	}
	return string(unquote(v.Raw))
}

// Path is where a value is: the names from the outermost object on, and nil
// for an element of an array.
type Path [][]byte

// Is tells whether the path is exactly this one. "[]" stands for an element
// of an array.
func (p Path) Is(names ...string) bool { return len(p) == len(names) && p.Begins(names...) }

// Begins tells whether the path begins so.
func (p Path) Begins(names ...string) bool {
	if len(p) < len(names) {
		return false
	}
	for i, n := range names {
		if !is(p[i], n) {
			return false
		}
	}
	return true
}

// Ends tells whether the path ends so.
func (p Path) Ends(names ...string) bool {
	return len(p) >= len(names) && p[len(p)-len(names):].Begins(names...)
}

func is(element []byte, name string) bool {
	if name == "[]" {
		return element == nil
	}
	return element != nil && string(element) == name
}

// Walk checks all of text and calls visit for each value, what it contains
// first. The path and the value are valid during the call only. An error of
// visit ends the walk and is returned as it is.
func Walk(text []byte, visit func(Path, Value) error) error {
	w := walker{text: text, visit: visit}
	w.space()
	if err := w.value(); err != nil {
		return err
	}
	w.space()
	if w.at != len(text) {
		return w.wrong("the end")
	}
	return nil
}

type walker struct {
	text  []byte
	at    int
	path  Path
	visit func(Path, Value) error
}

func (w *walker) wrong(expected string) error {
	return fmt.Errorf("JSON: expected %s at byte %d", expected, w.at)
}

// peek returns the next byte, 0 at the end.
func (w *walker) peek() byte {
	if w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

func (w *walker) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

func (w *walker) value() error {
	start := w.at
	kind, err := w.scan()
	if err != nil {
		return err
	}
	return w.visit(w.path, Value{kind, w.text[start:w.at]})
}

func (w *walker) scan() (Kind, error) {
	switch c := w.peek(); {
	case c == '{':
		return Object, w.object()
	case c == '[':
		return Array, w.array()
	case c == '"':
		return String, w.quoted()
	case c == 't':
		return Bool, w.word("true")
	case c == 'f':
		return Bool, w.word("false")
	case c == 'n':
		return Null, w.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return Number, w.number()
	}
	return Null, w.wrong("a value")
}

func (w *walker) word(word string) error {
	if !bytes.HasPrefix(w.text[w.at:], []byte(word)) {
		return w.wrong(word)
	}
	w.at += len(word)
	return nil
}

func (w *walker) enter() error {
	if len(w.path) >= MaxDepth {
		return fmt.Errorf("JSON: nested deeper than %d", MaxDepth)
	}
	w.at++
	w.path = append(w.path, nil)
	w.space()
	return nil
}

func (w *walker) array() error {
	if err := w.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if first && w.peek() == ']' {
			break
		}
		if err := w.value(); err != nil {
			return err
		}
		w.space()
		if w.peek() == ']' {
			break
		}
		if w.peek() != ',' {
			return w.wrong("a comma or ]")
		}
		w.at++
		w.space()
	}
	w.at++
	w.path = w.path[:len(w.path)-1]
	return nil
}

func (w *walker) object() error {
	if err := w.enter(); err != nil {
		return err
	}
	var names names
	for first := true; ; first = false {
		if first && w.peek() == '}' {
			break
		}
		if err := w.member(&names); err != nil {
			return err
		}
		w.space()
		if w.peek() == '}' {
			break
		}
		if w.peek() != ',' {
			return w.wrong("a comma or }")
		}
		w.at++
		w.space()
	}
	w.at++
	w.path = w.path[:len(w.path)-1]
	return nil
}

func (w *walker) member(names *names) error {
	start := w.at
	if w.peek() != '"' {
		return w.wrong("a name")
	}
	if err := w.quoted(); err != nil {
		return err
	}
	name := unquote(w.text[start:w.at])
	if !names.add(name) {
		return fmt.Errorf("JSON: the name at byte %d is there twice", start)
	}
	w.space()
	if w.peek() != ':' {
		return w.wrong("a colon")
	}
	w.at++
	w.space()
	w.path[len(w.path)-1] = name
	err := w.value()
	w.path[len(w.path)-1] = nil
	return err
}

// unquote returns what a quoted string that was checked stands for, never nil.
func unquote(raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil { // it was checked
		panic(fmt.Sprintf("strictjson: %v", err))
	}
	return []byte(s)
}

// names is the set of an object's names. Few are compared one by one.
type names struct {
	few  [][]byte
	many map[string]struct{}
}

const fewNames = 16

func (n *names) add(name []byte) bool {
	if n.many != nil {
		if _, dup := n.many[string(name)]; dup {
			return false
		}
		n.many[string(name)] = struct{}{}
		return true
	}
	for _, have := range n.few {
		if bytes.Equal(have, name) {
			return false
		}
	}
	n.few = append(n.few, name)
	if len(n.few) > fewNames {
		n.many = make(map[string]struct{}, 2*fewNames)
		for _, have := range n.few {
			n.many[string(have)] = struct{}{}
		}
	}
	return true
}

// quoted checks the string at hand.
func (w *walker) quoted() error {
	start := w.at
	w.at++
	ascii := true
	for w.at += plain(w.text[w.at:]); w.at < len(w.text); w.at += plain(w.text[w.at:]) {
		switch c := w.text[w.at]; {
		case c == '"':
			w.at++
			if !ascii && !utf8.Valid(w.text[start:w.at]) {
				return fmt.Errorf("JSON: the string at byte %d is not UTF-8", start)
			}
			return nil
		case c == '\\':
			if err := w.escape(); err != nil {
				return err
			}
		case c < ' ':
			return w.wrong("no control character")
		default:
			ascii = ascii && c < utf8.RuneSelf
			w.at++
		}
	}
	return w.wrong("the end of the string")
}

// plain returns how many bytes at the start of text, in steps of eight, are
// ASCII and need no look: no quote, backslash or control character.
func plain(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		v := binary.LittleEndian.Uint64(text[n:])
		quote, back := v^ones*'"', v^ones*'\\'
		// A byte of x is below b when its high bit is set in (x - b) &^ x.
		odd := v | (v-ones*' ')&^v | (quote-ones)&^quote | (back-ones)&^back
		if odd&highs != 0 {
			break
		}
	}
	return n
}

func (w *walker) escape() error {
	if w.at+1 >= len(w.text) {
		return w.wrong("an escape")
	}
	if bytes.IndexByte([]byte(`"\/bfnrt`), w.text[w.at+1]) >= 0 {
		w.at += 2
		return nil
	}
	unit, ok := w.unit()
	switch {
	case !ok:
		return w.wrong("an escape")
	case unit >= 0xdc00 && unit < 0xe000:
		return w.wrong("a high surrogate first")
	case unit >= 0xd800 && unit < 0xdc00:
		if low, ok := w.unit(); !ok || low < 0xdc00 || low >= 0xe000 {
			return w.wrong("a low surrogate")
		}
	}
	return nil
}

// unit reads \uXXXX.
func (w *walker) unit() (unit int, ok bool) {
	if len(w.text)-w.at < 6 || w.text[w.at] != '\\' || w.text[w.at+1] != 'u' {
		return 0, false
	}
	for _, c := range w.text[w.at+2 : w.at+6] {
		digit := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if digit < 0 || c < '0' {
			return 0, false
		}
		unit = unit<<4 | digit
	}
	w.at += 6
	return unit, true
}

func (w *walker) number() error {
	if w.peek() == '-' {
		w.at++
	}
	if w.peek() == '0' {
		w.at++
	} else if !w.digits() {
		return w.wrong("a digit")
	}
	if w.peek() == '.' {
		w.at++
		if !w.digits() {
			return w.wrong("a digit")
		}
	}
	if c := w.peek(); c == 'e' || c == 'E' {
		w.at++
		if c := w.peek(); c == '+' || c == '-' {
			w.at++
		}
		if !w.digits() {
			return w.wrong("a digit")
		}
	}
	return nil
}

func (w *walker) digits() bool {
	start := w.at
	for c := w.peek(); c >= '0' && c <= '9'; c = w.peek() {
		w.at++
	}
	return w.at > start
}
