package hcl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/hcl"
)

func TestSizes(t *testing.T) {
	for s, want := range map[string]string{
		"512MiB":              "536870912",
		"256MB":               "256000000",
		"1 GiB":               "1073741824",
		"10B":                 "10",
		"7":                   "7",
		"2TiB":                "2199023255552",
		"9223372036854775807": "9223372036854775807",
		"9223372036854775808": "too large",
		"9007199254740992KiB": "more than can be counted",
		"512M":                `Did you mean "512MiB"?`,
		"512mib":              `Did you mean "512MiB"?`,
		"":                    "not a whole number",
		"-1MiB":               "not a whole number",
		"1.5GiB":              "not a whole number",
		"0":                   "0 is no bound",
		"5 parsec":            "none of KiB",
	} {
		n, err := hcl.ParseSize(s)
		got := fmt.Sprint(n)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func TestPercentages(t *testing.T) {
	for s, want := range map[string]int{"80%": 80, "250%": 250, "100000%": 100_000, "80": 0, "0%": 0, "100001%": 0, "-1%": 0, "8.5%": 0, "%": 0, "80%%": 0} {
		if n, err := hcl.ParsePercent(s); n != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
}

func TestPrefixes(t *testing.T) {
	for s, want := range map[string]string{
		"10.0.0.0/8":          "10.0.0.0/8",
		"2001:db8::/32":       "2001:db8::/32",
		"10.1.0.0/8":          `write "10.0.0.0/8"`,
		"10.1.2.3":            `write "10.1.2.3/32"`,
		"2001:db8::1":         `write "2001:db8::1/128"`,
		"::ffff:10.0.0.0/104": "written as IPv6",
		"fe80::1%eth0":        "is not a network",
		"10.0.0.0/33":         "is not a network",
	} {
		p, err := hcl.ParsePrefix(s)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func TestFunctions(t *testing.T) {
	for expr, want := range map[string]string{
		`cidrsubnet("10.0.0.0/8", 8, 202)`:                       "10.202.0.0/16",
		`cidrsubnet("2001:db8::/32", 16, 65535)`:                 "2001:db8:ffff::/48",
		`cidrsubnet("10.0.0.0/8", 0, 0)`:                         "10.0.0.0/8",
		`cidrhost("10.202.0.0/30", 2)`:                           "10.202.0.2",
		`cidrhost("10.202.0.0/30", -1)`:                          "10.202.0.3",
		`cidrnetmask("10.202.0.0/20")`:                           "255.255.240.0",
		`cidrnetmask("0.0.0.0/0")`:                               "0.0.0.0",
		`join("-", concat(["a"], ["b"]))`:                        "a-b",
		`merge({ a = "1" }, { a = "2" }).a`:                      "2",
		`lookup({ a = "1" }, "b", "none")`:                       "none",
		`coalesce("", "x")`:                                      "x",
		`try({}.a, "none")`:                                      "none",
		`tostring(can({}.a))`:                                    "false",
		`format("%03d", 7)`:                                      "007",
		`regex("[a-z]+", "12ab")`:                                "ab",
		`jsonencode({ a = [1, true] })`:                          `{"a":[1,true]}`,
		`join(",", [for k in sort(keys({ b = 1, a = 2 })) : k])`: "a,b",
		`join(",", flatten([["a"], ["b", ["c"]]]))`:              "a,b,c",
		`length(toset(["a", "a"])) == 1 ? "one" : "two"`:         "one",
		`lower("A") == "a" ? upper("ok") : "no"`:                 "OK",
		`<<-EOT
			text
		EOT
		`: "text\n",
	} {
		set := mustLoad(t, hcl.Options{}, "a.hcl", "environment \"e\" {\n  set = {\n    V = "+expr+"\n  }\n}\n")
		if got := string(set.Environments[0].Set["V"]); got != want {
			t.Errorf("%s is %s, want %s", expr, got, want)
		}
	}
}

func TestCapabilitiesAndSignals(t *testing.T) {
	set := mustLoad(t, hcl.Options{}, "a.hcl", `
sandbox "s" {
  stop_signal = "SIGINT"
  capabilities { keep = ["net_bind_service", "CAP_NET_BIND_SERVICE", "Cap_Kill"] }
}
`)
	s := set.Sandboxes[0]
	if fmt.Sprint(s.Capabilities) != "[CAP_KILL CAP_NET_BIND_SERVICE]" || s.StopSignal != "INT" {
		t.Errorf("%+v", s)
	}
}
