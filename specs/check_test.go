package specs_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

// valid is a Set in which everything refers to something.
func valid() specs.Set {
	s := example()
	s.Secrets = []specs.Secret{{Name: "k", Env: "K"}}
	s.Proxies = []specs.Proxy{{Name: "llm", Port: 3000, Inject: map[string]string{"x-api-key": "k"}}}
	s.Networks[0].Allow = []string{"llm"}
	s.Sandboxes[0].Agent = &specs.Agent{Kind: "claude-code", Proxy: "llm"}
	s.Databases = []specs.Database{{Name: "main", Connection: "k"}}
	s.Gateways = []specs.Gateway{{Name: "data", Listen: "127.0.0.1:1", Database: "main", Keys: "k"}}
	s.Projects = []specs.Project{{
		Name: "p", Directory: "/srv/p", Sandboxes: []string{"s"},
		Git:       &specs.Git{Remote: "https://git.example.com/p.git", Credential: "k", Push: []string{"refs/heads/agent/*"}},
		Schema:    &specs.Schema{Database: "main", Tables: []specs.TableAccess{{Name: "t", Anonymous: []string{"select"}}}},
		DevServer: &specs.DevServer{Sandbox: "s", Command: []string{"x"}, Port: 1},
	}}
	return s
}

func TestCheckValid(t *testing.T) {
	for _, s := range []specs.Set{{}, example(), valid()} {
		if problems := s.Check(); len(problems) > 0 {
			t.Error(problems)
		}
	}
}

// A reference to what is not in the Set is a problem that is marked as such;
// and each rule finds what breaks it. (The rules are also tried from HCL, in
// hcl/testdata/invalid.)
func TestCheck(t *testing.T) {
	tests := map[string]struct {
		change  func(*specs.Set)
		want    string
		missing bool
	}{
		"secret of inject":    {func(s *specs.Set) { s.Proxies[0].Inject["x-api-key"] = "no" }, `unknown secret "no"`, true},
		"secret of database":  {func(s *specs.Set) { s.Databases[0].Connection = "no" }, `unknown secret "no"`, true},
		"secret of git":       {func(s *specs.Set) { s.Projects[0].Git.Credential = "no" }, `unknown secret "no"`, true},
		"secret of keys":      {func(s *specs.Set) { s.Gateways[0].Keys = "no" }, `unknown secret "no"`, true},
		"database of gateway": {func(s *specs.Set) { s.Gateways[0].Database = "no" }, `unknown database "no"`, true},
		"database of schema":  {func(s *specs.Set) { s.Projects[0].Schema.Database = "no" }, `unknown database "no"`, true},
		"proxy of network":    {func(s *specs.Set) { s.Networks[1].Allow = []string{"no"} }, `unknown proxy "no"`, true},
		"network of sandbox":  {func(s *specs.Set) { s.Sandboxes[1].Network = "no" }, `unknown network "no"`, true},
		"environment":         {func(s *specs.Set) { s.Sandboxes[1].Environment = "no" }, `unknown environment "no"`, true},
		"seccomp":             {func(s *specs.Set) { s.Sandboxes[1].Seccomp = "no" }, `unknown seccomp "no"`, true},
		"log without seccomp": {func(s *specs.Set) {
			s.Seccomps = append(s.Seccomps, specs.Seccomp{Name: "l", Log: true, Deny: []string{"seccomp", "ptrace"}})
		}, `seccomp "l" has log = true and denies seccomp`, false},
		"log without execve": {func(s *specs.Set) {
			s.Seccomps = append(s.Seccomps, specs.Seccomp{Name: "l", Log: true, Deny: []string{"execve"}})
		}, `seccomp "l" has log = true and denies execve`, false},
		"push": {func(s *specs.Set) { s.Projects[0].Git.Push = []string{"main"} }, `"main" is no name of refs`, false},
		"push by ssh": {func(s *specs.Set) {
			s.Projects[0].Git.Remote, s.Projects[0].Git.Credential = "git@example.com:p.git", ""
		}, `no way to git@example.com:p.git`, false},
		"credential by ssh": {func(s *specs.Set) {
			s.Projects[0].Git.Remote, s.Projects[0].Git.Push = "git@example.com:p.git", nil
		}, `would not be used`, false},
		"sandbox of project":    {func(s *specs.Set) { s.Projects[0].Sandboxes = []string{"no"} }, `unknown sandbox "no"`, true},
		"sandbox of server":     {func(s *specs.Set) { s.Projects[0].DevServer.Sandbox = "no" }, `unknown sandbox "no"`, true},
		"unknown command":       {func(s *specs.Set) { s.Projects[0].Schema.Tables[0].Anonymous = []string{"truncate"} }, `unknown command "truncate" for table "t"`, false},
		"table twice":           {func(s *specs.Set) { s.Projects[0].Schema.Tables = make([]specs.TableAccess, 2); name(s, "t", "t") }, `table "t" is named twice`, false},
		"NUL in a table":        {func(s *specs.Set) { s.Projects[0].Schema.Tables[0].Name = "t\x00" }, `"t\x00" has a NUL in it`, false},
		"NUL in a path":         {func(s *specs.Set) { s.Projects[0].Directory = "/srv/p\x00" }, `is not an absolute, clean path`, false},
		"overlap":               {func(s *specs.Set) { s.Networks[1].Pool = netip.MustParsePrefix("10.1.2.0/24") }, "overlaps", false},
		"long sandbox":          {func(s *specs.Set) { s.Sandboxes[1].Name = strings.Repeat("t", 101) }, "sandbox name of 101 bytes", false},
		"no pid":                {func(s *specs.Set) { s.Sandboxes[1].Namespaces = nil }, "has no pid namespace", false},
		"empty command":         {func(s *specs.Set) { s.Sandboxes[1].Command = []specs.Template{""} }, "has an empty command", false},
		"broken template":       {func(s *specs.Set) { s.Sandboxes[1].Filesystem.Binds = []specs.Bind{{To: "/w", From: "/a${session.id"}} }, "bad from in bind /w", false},
		"agent without its way": {func(s *specs.Set) { s.Networks[0].Allow = nil }, `can't reach proxy "llm"`, false},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			s := valid()
			test.change(&s)
			problems := s.Check()
			if len(problems) != 1 {
				t.Fatalf("want one problem, got %v", problems)
			}
			p := problems[0]
			if !strings.Contains(p.Summary, test.want) || p.Missing != test.missing || p.Detail == "" {
				t.Errorf("%+v", p)
			}
		})
	}
}

func name(s *specs.Set, names ...string) {
	for i, n := range names {
		s.Projects[0].Schema.Tables[i].Name = n
	}
}

func TestCheckOrder(t *testing.T) {
	s := example()
	s.Networks[0].Range = specs.Range{File: "b.hcl", Line: 1}
	s.Networks[1].Range = specs.Range{File: "a.hcl", Line: 9, Byte: 90}
	s.Sandboxes[1].Range = specs.Range{File: "a.hcl", Line: 2, Byte: 20}
	s.Networks[0].Warm, s.Networks[1].Warm, s.Sandboxes[1].Namespaces = 20_000, 20_000, nil
	var got []string
	for _, p := range s.Check() {
		got = append(got, p.Range.File+strings.Repeat("+", p.Range.Line))
	}
	if strings.Join(got, " ") != "a.hcl++ a.hcl+++++++++ b.hcl+" {
		t.Error(got)
	}
}
