package web

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// policy lets the page have its own style and icon, and nothing else: no
// script, no form, no frame around it.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard sets what all answers have, and refuses requests for other hosts: a
// page elsewhere whose name was made to lead here (DNS rebinding) could read
// all of it with a visitor's browser.
func guard(host func(string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Cache-Control":                "no-store",
			"Content-Security-Policy":      policy,
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy":           "interest-cohort=()",
			"Referrer-Policy":              "no-referrer",
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
		} {
			w.Header().Set(name, value)
		}
		if !host(r.Host) {
			http.Error(w, "this daemon is not known by that name: ask for its address, or start it with --listen-name NAME", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowed tells which hosts may be asked for: addresses, for no name leads
// from those to anywhere else, and names that are known to be ours.
func allowed(names []string) func(string) bool {
	names = append([]string{"localhost"}, names...)
	if own, err := os.Hostname(); err == nil {
		names = append(names, own)
	}
	return func(hostport string) bool {
		host := hostport
		if h, _, err := net.SplitHostPort(hostport); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		if _, err := netip.ParseAddr(host); err == nil {
			return true
		}
		// A machine without a name of its own has none to be asked by.
		return host != "" && slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) })
	}
}
