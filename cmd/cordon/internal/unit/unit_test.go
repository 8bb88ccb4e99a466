package unit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func example() Service {
	return Service{
		Program: "/usr/bin/true", RunDir: "/run/cordon", StateDir: "/var/lib/cordon",
		Arguments:   []string{"daemon", "--git=https://git.example/x.git", `--var=a=b c%d$e"f\g;`, ""},
		Credentials: []Credential{{"git", "/etc/cordon/100%"}, {"llm", "/etc/cordon/llm"}},
	}
}

func TestText(t *testing.T) {
	text, err := example().Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`ExecStart=/usr/bin/true daemon --git=https://git.example/x.git "--var=a=b c%%d$$e\"f\\g;" ""`,
		"LoadCredential=git:/etc/cordon/100%%", "LoadCredential=llm:/etc/cordon/llm",
		"StateDirectory=cordon", "RuntimeDirectory=cordon", "RuntimeDirectoryPreserve=yes", "KillMode=process", "StartLimitIntervalSec=0",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	// Each of these would hide the host's mounts from it or from the host.
	for _, never := range []string{"PrivateMounts", "PrivateTmp", "ProtectSystem", "ProtectHome", "ProtectProc", "ProtectKernelTunables", "MountFlags", "PrivateNetwork", "ReadWritePaths"} {
		if regexp.MustCompile(`(?m)^` + never + `=`).MatchString(text) {
			t.Errorf("%s is set", never)
		}
	}
	elsewhere := example()
	elsewhere.RunDir, elsewhere.StateDir = "/srv/run", "/srv/state"
	if text, err := elsewhere.Text(); err != nil || strings.Contains(text, "Directory=") {
		t.Errorf("%v, systemd makes a directory of another's\n%s", err, text)
	}
	bad := example()
	bad.Arguments = []string{"daemon\nUser=nobody"}
	if _, err := bad.Text(); err == nil {
		t.Error("an argument makes lines of its own")
	}
}

func TestPristine(t *testing.T) {
	text, err := example().Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := Pristine(text); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"", "\n", strings.Replace(text, "2min", "3min", 1), text + "\n", strings.TrimPrefix(text, mark)} {
		if err := Pristine(other); !errors.Is(err, ErrEdited) {
			t.Errorf("%.40q: %v", other, err)
		}
	}
}

func TestParseCredential(t *testing.T) {
	if c, err := ParseCredential("git-token.1=/etc/cordon/a=b"); err != nil || c != (Credential{"git-token.1", "/etc/cordon/a=b"}) {
		t.Errorf("%v, %v", c, err)
	}
	for _, bad := range []string{"", "git", "git=", "git=token", "=/etc/x", "a/b=/etc/x", "..=/etc/x", "git=/etc/x:y", "git=/etc/x\ny"} {
		if c, err := ParseCredential(bad); err == nil {
			t.Errorf("%q is %v", bad, c)
		}
	}
}

// systemd itself reads it, without a word, and finds it no more exposed than it
// has to be.
func TestSystemdReadsIt(t *testing.T) {
	kerneltest.Program(t, "systemd-analyze")
	text, err := example().Text()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cordon.service")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	// 9.6 is a unit without any of it, in tenths.
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=70", path).CombinedOutput()
	if err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}
