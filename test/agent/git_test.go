package agent

import (
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/internal/gittest"
)

// git: the client's own shell tool, in its own sandbox, fetches and pushes, and
// finds no credential.
func (r *rig) git(t *testing.T) {
	const secret = "not-a-real-gitea-secret" // which throwaway.sh makes
	host := &gittest.Host{Dir: "/run/git", Password: secret}
	serveGit(t, host)
	script := `set -e; mkdir -p /run/git/acme; git init -q -b trunk /run/seed; cd /run/seed; echo hello >main.txt; git add .
git -c user.name=a -c user.email=a@example.com commit -q -m one; git clone -q --bare . /run/git/acme/beta.git`
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cloned := run(t, "git", "-p", "beta", "--", "clone")
	if _, err := os.Stat("/srv/projects/beta/main.txt"); err != nil || cloned.code != 0 {
		t.Fatalf("%v: %+v\n%q", err, cloned, host.Requests())
	}
	work := "git fetch origin 2>&1 && git checkout -q -b agent/a && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m a" +
		" && git push origin agent/a 2>&1; git push origin HEAD:main 2>&1; { env; git config -l; cat .git/config; } | grep -e 'gitea-secre[t]' -e 'cc-ses[s]'; echo looked"
	res := run(t, "run", "-p", "beta", "claude-code", "--", "claude", "-p", "RUN<<"+work+">>", "--allowedTools", "Bash")
	if !strings.Contains(res.stdout, "looked") || !strings.Contains(res.stdout, "agent/a -> agent/a") || !strings.Contains(res.stdout, "cordon: not among refs/heads/agent/*") {
		t.Errorf("%+v\n%s", res, r.audit)
	}
	if strings.Contains(res.stdout, "gitea-secret") || strings.Contains(res.stdout, "cc-sess-") {
		t.Errorf("it found a credential: %s", res.stdout)
	}
	out, err := exec.Command("git", "-C", "/run/git/acme/beta.git", "for-each-ref").Output()
	if err != nil || !strings.Contains(string(out), "refs/heads/agent/a") || strings.Contains(string(out), "refs/heads/main") {
		t.Errorf("%v: %s", err, out)
	}
	if r.traffic.holds(secret) {
		t.Error("the credential went over a link")
	}
}

// serveGit serves host as gitea.internal, which this machine then knows and
// trusts.
func serveGit(t *testing.T, host *gittest.Host) {
	certificate, ca, err := gittest.Certificate("gitea.internal")
	must(t, err)
	appendTo(t, "/etc/ssl/certs/ca-certificates.crt", string(ca))
	appendTo(t, "/etc/hosts", "127.0.0.1 gitea.internal\n")
	l, err := tls.Listen("tcp", "127.0.0.1:443", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	must(t, err)
	server := &http.Server{Handler: host, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

func appendTo(t *testing.T, name, text string) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}
