package transcript

import "bytes"

// lexer follows the structure of one line of JSON, whatever its length: which
// objects are blocks that must stay as they are or go whole, and which of them
// something was found in. What is no JSON it follows as far as that goes.
type lexer struct {
	stack   []object
	broken  bool // brackets don't match, or go too deep: nothing is a block
	inText  bool
	escaped bool
	word    []byte // the beginning of the string that is read, or was last
	drops   []span // blocks to replace, in order, none within another
	flood   bool   // there are more of them than anyone's client writes
}

// object is an object or array that is open.
type object struct {
	start   int64
	isList  bool
	inList  bool
	isKey   bool // the next string is a key
	key     key
	typ     bool // "type" is "thinking" or "redacted_thinking"
	signed  bool // has a "signature"
	thought bool // has a "thinking"
	found   bool
}

type span struct{ start, end int64 }

const (
	maxNesting = 10_000
	maxDrops   = 100_000
	maxWord    = 6 * len("redacted_thinking") // every letter escaped
)

func (l *lexer) reset() { *l = lexer{stack: l.stack[:0], word: l.word[:0]} }

// mark says that something was found at the place that was read last.
func (l *lexer) mark() {
	if n := len(l.stack); n > 0 {
		l.stack[n-1].found = true
	}
}

// read goes on with text, which begins at offset of the file.
func (l *lexer) read(text []byte, offset int64) {
	for i := 0; i < len(text); i++ {
		if l.inText && !l.escaped && len(l.word) > maxWord {
			i += skipText(text[i:])
			if i == len(text) {
				return
			}
		}
		c := text[i]
		switch {
		case l.escaped:
			l.escaped = false
			l.keep(c)
		case l.inText && c == '\\':
			l.escaped = true
			l.keep(c)
		case l.inText && c == '"':
			l.inText = false
			l.ended()
		case l.inText:
			l.keep(c)
		case c == '"':
			l.inText, l.word = true, l.word[:0]
		default:
			l.structure(c, offset+int64(i))
		}
	}
}

// skipText is how many bytes of text are inside of a string for sure. It looks
// at pieces, so that neither of the two searches runs ahead of the other.
func skipText(text []byte) int {
	const piece = 64
	for at := 0; at < len(text); at += piece {
		part := text[at:min(at+piece, len(text))]
		if i := bytes.IndexByte(part, '"'); i >= 0 {
			part = part[:i]
		}
		if i := bytes.IndexByte(part, '\\'); i >= 0 {
			part = part[:i]
		}
		if n := at + len(part); n < min(at+piece, len(text)) {
			return n
		}
	}
	return len(text)
}

func (l *lexer) keep(c byte) {
	if len(l.word) <= maxWord {
		l.word = append(l.word, c)
	}
}

// ended takes in a string that was read whole.
func (l *lexer) ended() {
	n := len(l.stack)
	if n == 0 || l.stack[n-1].isList {
		return
	}
	o := &l.stack[n-1]
	text := l.word
	if bytes.IndexByte(text, '\\') >= 0 {
		text = (&view{text: text, taken: &taken{}}).decoded(0, len(text)).text
	}
	switch {
	case o.isKey:
		o.key = keyOf(text)
	case o.key == keyType:
		o.typ = o.typ || string(text) == "thinking" || string(text) == "redacted_thinking"
	case o.key == keySignature:
		o.signed = true
	case o.key == keyThinking:
		o.thought = true
	}
}

// key is one of the keys that tell what an object is.
type key uint8

const (
	keyOther key = iota
	keyType
	keySignature
	keyThinking
)

func keyOf(text []byte) key {
	switch string(text) {
	case "type":
		return keyType
	case "signature":
		return keySignature
	case "thinking":
		return keyThinking
	}
	return keyOther
}

func (l *lexer) structure(c byte, at int64) {
	if l.broken {
		return
	}
	n := len(l.stack)
	switch c {
	case '{', '[':
		if n == maxNesting {
			l.broken, l.drops = true, nil
			return
		}
		l.stack = append(l.stack, object{start: at, isList: c == '[', inList: n > 0 && l.stack[n-1].isList, isKey: c == '{'})
	case '}', ']':
		if n == 0 || l.stack[n-1].isList != (c == ']') {
			l.broken, l.drops = true, nil
			return
		}
		l.closed(at + 1)
	case ':':
		if n > 0 {
			l.stack[n-1].isKey = false
		}
	case ',':
		if n > 0 {
			l.stack[n-1].isKey = !l.stack[n-1].isList
		}
	}
}

func (l *lexer) closed(end int64) {
	n := len(l.stack) - 1
	o := l.stack[n]
	l.stack = l.stack[:n]
	if !o.found {
		return
	}
	if n > 0 {
		l.stack[n-1].found = true
	}
	if o.typ || o.signed && (o.inList || o.thought) {
		for len(l.drops) > 0 && l.drops[len(l.drops)-1].start > o.start {
			l.drops = l.drops[:len(l.drops)-1]
		}
		if len(l.drops) == maxDrops {
			l.flood = true
			return
		}
		l.drops = append(l.drops, span{o.start, end})
	}
}
