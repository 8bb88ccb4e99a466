package netask

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// message is one of netlink, of sequence number 7.
func message(kind, flags uint16, body ...byte) []byte {
	out := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	out = binary.NativeEndian.AppendUint16(out, kind)
	out = binary.NativeEndian.AppendUint16(out, flags)
	out = binary.NativeEndian.AppendUint32(out, 7)
	out = append(append(out, 0, 0, 0, 0), body...)
	return append(out, make([]byte, -len(body)&3)...)
}

func code(n int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }

// An answer that is not whole is an error, never a shorter list.
func TestTake(t *testing.T) {
	done := message(unix.NLMSG_DONE, 0, code(0)...)
	other := message(unix.RTM_NEWLINK, 0, 'x')
	other[8]++
	for name, c := range map[string]struct {
		data          []byte
		want          string
		done, changed bool
		fails         bool
	}{
		"several":        {append(append(message(unix.RTM_NEWLINK, 0, 'a', 'b', 'c'), message(unix.RTM_NEWLINK, 0, 'd')...), done...), "abc d ", true, false, false},
		"goes on":        {message(unix.RTM_NEWLINK, 0, 'a'), "a ", false, false, false},
		"interrupted":    {append(message(unix.RTM_NEWLINK, unix.NLM_F_DUMP_INTR, 'a'), done...), "a ", true, true, false},
		"an error":       {message(unix.NLMSG_ERROR, 0, code(-int32(unix.ENOENT))...), "", true, false, true},
		"fails in it":    {append(message(unix.RTM_NEWLINK, 0, 'a'), message(unix.NLMSG_DONE, 0, code(-int32(unix.ENOMEM))...)...), "a ", true, false, true},
		"end without":    {message(unix.NLMSG_DONE, 0), "", true, false, true},
		"cut":            {message(unix.RTM_NEWLINK, 0, 1, 2, 3, 4)[:18], "", false, false, true},
		"to another one": {other, "", false, false, true},
	} {
		got := ""
		a := answer{seq: 7, list: true, each: func(m []byte) error { got += string(m) + " "; return nil }}
		err := a.take(c.data)
		if (err != nil) != c.fails || got != c.want || a.done != c.done || a.changed != c.changed {
			t.Errorf("%s: %q, done %t, changed %t, %v", name, got, a.done, a.changed, err)
		}
	}
	single := answer{seq: 7, each: func([]byte) error { return nil }}
	if err := single.take(message(unix.RTM_NEWLINK, 0, 'a')); err != nil || !single.done {
		t.Errorf("what is no list: done %t, %v", single.done, err)
	}
}

func TestAttributes(t *testing.T) {
	text := []byte{5, 0, 3, 0x80, 'a', 0, 0, 0, 4, 0, 4, 0, 6, 0, 5, 0, 'b', 'c'}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("written for little-endian machines")
	}
	got := ""
	add := func(kind uint16, value []byte) error { got += string(rune('0'+kind)) + string(value) + " "; return nil }
	if err := Attributes(text, add); err != nil || got != "3a 4 5bc " {
		t.Errorf("%q, %v", got, err)
	}
	for _, n := range []int{4, 13, 17} {
		if err := Attributes(text[:n], add); (err == nil) != (n == 13) { // the one byte more is no attribute
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	stop := errors.New("stop")
	if err := Attributes(text, func(uint16, []byte) error { return stop }); err != stop {
		t.Errorf("its own error: %v", err)
	}
}

// One socket serves lists and single questions, one after the other.
func TestAsk(t *testing.T) {
	s, err := New(unix.NETLINK_ROUTE, make([]byte, Room))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := func(flags uint16, body []byte) (string, error) {
		var out []string
		err := s.Ask(unix.RTM_GETLINK, flags, body, func(m []byte) error {
			return Attributes(m[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
				if kind == unix.IFLA_IFNAME {
					out = append(out, unix.ByteSliceToString(value))
				}
				return nil
			})
		})
		return strings.Join(out, " "), err
	}
	all := make([]byte, unix.SizeofIfInfomsg)
	first := append([]byte{}, all...)
	first[4] = 1 // the index of lo in every namespace
	none := append([]byte{}, all...)
	none[7] = 0x7f
	for range 2 {
		if got, err := names(unix.NLM_F_DUMP, all); err != nil || !strings.Contains(" "+got+" ", " lo ") {
			t.Errorf("all: %q, %v", got, err)
		}
		if got, err := names(0, first); err != nil || got != "lo" {
			t.Errorf("the first: %q, %v", got, err)
		}
		if got, err := names(0, none); !errors.Is(err, unix.ENODEV) || got != "" {
			t.Errorf("none: %q, %v", got, err)
		}
	}
	s.buf = s.buf[:64]
	if _, err := names(unix.NLM_F_DUMP, all); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("more than there is room for: %v", err)
	}
}
