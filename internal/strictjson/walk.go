package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Text returns the content of a String, and nothing of any other kind. It is
// part of the text where that has no escape: who keeps it copies it.
func (v Value) Text() []byte {
	if v.Kind != String {
		return nil
	}
	return unquote(v.Raw)
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

// Visitor is told of the values in a text.
type Visitor interface {
	// Visit is called for each value, what it contains first. The path is
	// valid during the call only, the value as long as the text. An error ends
	// the walk, which returns it as it is.
	Visit(Path, Value) error
}

// Walk is [Walker.Walk] with a function for the visitor.
func Walk(text []byte, visit func(Path, Value) error) error {
	return new(Walker).Walk(text, visitFunc(visit))
}

type visitFunc func(Path, Value) error

// Visit calls f.
func (f visitFunc) Visit(p Path, v Value) error { return f(p, v) }

// Walker walks texts, one after the other, in the same memory: who walks often
// keeps one. It keeps nothing of a text. The zero Walker is ready.
type Walker struct {
	text    []byte
	at      int
	path    Path
	names   [][]byte // of the objects at hand, few of each
	visitor Visitor

	room struct { // of path and names, mostly enough
		path  [8][]byte
		names [fewNames][]byte
	}
}

// Walk checks all of text and tells v of each value.
func (w *Walker) Walk(text []byte, v Visitor) error {
	w.text, w.at, w.visitor = text, 0, v
	w.path, w.names = w.room.path[:0], w.room.names[:0]
	err := w.whole()
	*w = Walker{}
	return err
}

func (w *Walker) whole() error {
	w.space()
	if err := w.value(); err != nil {
		return err
	}
	w.space()
	if w.at != len(w.text) {
		return w.wrong("the end")
	}
	return nil
}

func (w *Walker) wrong(expected string) error {
	return fmt.Errorf("JSON: expected %s at byte %d", expected, w.at)
}

// peek returns the next byte, 0 at the end.
func (w *Walker) peek() byte {
	if w.at < len(w.text) {
		return w.text[w.at]
	}
	return 0
}

func (w *Walker) space() {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

func (w *Walker) value() error {
	start := w.at
	kind, err := w.scan()
	if err != nil {
		return err
	}
	return w.visitor.Visit(w.path, Value{kind, w.text[start:w.at]})
}

// scan goes to the value's end.
func (w *Walker) scan() (Kind, error) {
	switch w.peek() {
	case '{':
		return Object, w.object()
	case '[':
		return Array, w.array()
	case '"':
		return String, w.quoted()
	case 't':
		return Bool, w.word("true")
	case 'f':
		return Bool, w.word("false")
	case 'n':
		return Null, w.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number, w.number()
	}
	return Null, w.wrong("a value")
}

func (w *Walker) word(word string) error {
	if !bytes.HasPrefix(w.text[w.at:], []byte(word)) {
		return w.wrong(word)
	}
	w.at += len(word)
	return nil
}

func (w *Walker) enter() error {
	if len(w.path) >= MaxDepth {
		return fmt.Errorf("JSON: nested deeper than %d", MaxDepth)
	}
	w.at++
	w.path = append(w.path, nil)
	w.space()
	return nil
}

func (w *Walker) array() error {
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

func (w *Walker) object() error {
	if err := w.enter(); err != nil {
		return err
	}
	names := names{walker: w, from: len(w.names)}
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
	w.path, w.names = w.path[:len(w.path)-1], w.names[:names.from]
	return nil
}

func (w *Walker) member(names *names) error {
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
	walker *Walker
	from   int // of the walker's names, those from here on
	many   map[string]struct{}
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
	few := n.walker.names[n.from:]
	for _, have := range few {
		if bytes.Equal(have, name) {
			return false
		}
	}
	n.walker.names = append(n.walker.names, name)
	if len(few) == fewNames {
		n.many = make(map[string]struct{}, 2*fewNames)
		for _, have := range n.walker.names[n.from:] {
			n.many[string(have)] = struct{}{}
		}
	}
	return true
}
