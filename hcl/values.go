package hcl

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are bytes. Longer names come first, so that a suffix is found whole.
var sizeUnits = []struct { //nolint:gochecknoglobals // a table that nothing writes
	name  string
	bytes int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// parseSize reads "512MiB", "256MB" or "1024" (bytes). The number is whole
// and more than 0.
func parseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(digits):]
	digits = strings.TrimRight(digits, " ")
	factor := int64(1)
	if unit != "" {
		factor = 0
		for _, u := range sizeUnits {
			if u.name == unit {
				factor = u.bytes
			}
		}
	}
	if factor == 0 {
		return 0, fmt.Errorf("the unit %q is none of KiB, MiB, GiB, TiB, KB, MB, GB, TB, B%s", unit, nearUnit(digits, unit))
	}
	n, err := whole(digits)
	if err != nil {
		return 0, fmt.Errorf(`%w; write a size like "512MiB" or "2GB"`, err)
	}
	if n > math.MaxInt64/factor {
		return 0, errors.New("that is more than can be counted")
	}
	return n * factor, nil
}

func nearUnit(digits, unit string) string {
	for _, u := range sizeUnits {
		if strings.EqualFold(u.name, unit) || strings.EqualFold(u.name, unit+"iB") {
			return fmt.Sprintf(". Did you mean %q?", digits+u.name)
		}
	}
	return ""
}

// whole reads a decimal number from 1 on.
func whole(digits string) (int64, error) {
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a whole number", digits)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is too large", digits)
	}
	if n == 0 {
		return 0, errors.New("0 is no bound; leave the attribute out for none")
	}
	return n, nil
}

// maxPercent is a thousand processors.
const maxPercent = 100_000

// parsePercent reads "80%": percent of one processor, more than 100 for more
// than one.
func parsePercent(s string) (int, error) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, fmt.Errorf("%q has no percent sign; write %q for one whole processor", s, "100%")
	}
	n, err := whole(digits)
	if err != nil {
		return 0, fmt.Errorf(`%w; write a percentage like "80%%"`, err)
	}
	if n > maxPercent {
		return 0, fmt.Errorf("%s is more than %d%%", s, maxPercent)
	}
	return int(n), nil
}

// parseDuration reads "10s", "1h30m": more than nothing.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf(`%q is not a duration; write it like "10s", "15m" or "4h"`, s)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is not more than nothing", s)
	}
	return d, nil
}

// parsePrefix reads a network in CIDR form, with no bits set beyond the prefix.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			return netip.Prefix{}, fmt.Errorf("%q is an address; write %q for it alone", s, netip.PrefixFrom(a, a.BitLen()))
		}
		return netip.Prefix{}, fmt.Errorf(`%q is not a network; write it like "10.202.0.0/16"`, s)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits set beyond its prefix; write %q", s, p.Masked())
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 network written as IPv6; write it as IPv4", s)
	}
	return p, nil
}

// parseCapability reads "net_bind_service" or "CAP_NET_BIND_SERVICE" to the latter.
func parseCapability(s string) (string, error) {
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "CAP_") {
		name = "CAP_" + name
	}
	if contains(capabilityNames, name) {
		return name, nil
	}
	return "", notIn("capability", s, name, words(capabilityNames))
}

// parseSyscall holds to the names of system calls.
func parseSyscall(s string) (string, error) {
	if contains(syscallNames, s) {
		return s, nil
	}
	return "", notIn("system call", s, s, words(syscallNames))
}

// parseErrno holds to the names of errors.
func parseErrno(s string) (string, error) {
	if contains(errnoNames, s) {
		return s, nil
	}
	return "", notIn("error name", s, s, words(errnoNames))
}

// parseSignal reads "TERM" or "SIGTERM" to the former.
func parseSignal(s string) (string, error) {
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if contains(signalNames, name) {
		return name, nil
	}
	return "", unknownWord{"stop signal", s, strings.TrimSpace(nearWord(name, words(signalNames)) + " Those that end a session: " + strings.ReplaceAll(signalNames, " ", ", ") + ".")}
}

// unknownWord is the error for a word that is not one of a table.
type unknownWord struct{ what, given, hint string }

func (u unknownWord) Error() string { return fmt.Sprintf("unknown %s %q", u.what, u.given) }

// notIn makes an unknownWord. looked is the form of given that the table
// would have it in.
func notIn(what, given, looked string, table []string) error {
	return unknownWord{what, given, didYouMean(looked, table)}
}
