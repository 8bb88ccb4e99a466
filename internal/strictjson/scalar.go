package strictjson

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// quoted checks the string at hand.
func (w *Walker) quoted() error {
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

// plain returns how many bytes at the start of text are ASCII and need no look:
// no quote, backslash or control character. Of the last seven it tells nothing.
func plain(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(text)-n >= 8; n += 8 {
		v := binary.LittleEndian.Uint64(text[n:])
		quote, back := v^ones*'"', v^ones*'\\'
		// A byte of x is below b when its high bit is set in (x - b) &^ x.
		odd := v | (v-ones*' ')&^v | (quote-ones)&^quote | (back-ones)&^back
		if odd &= highs; odd != 0 { // the lowest is right: a carry goes up
			return n + bits.TrailingZeros64(odd)/8
		}
	}
	return n
}

func (w *Walker) escape() error {
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
func (w *Walker) unit() (unit int, ok bool) {
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

func (w *Walker) number() error {
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

func (w *Walker) digits() bool {
	start := w.at
	for c := w.peek(); c >= '0' && c <= '9'; c = w.peek() {
		w.at++
	}
	return w.at > start
}
