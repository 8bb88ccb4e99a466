package gitgate

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const (
	fetchType = "application/x-git-upload-pack-request"
	pushType  = "application/x-git-receive-pack-request"
)

// The answer must be of the kind that was asked for: no page, no file.
func TestOnlyTheProtocolComesBack(t *testing.T) {
	r := newRig(t)
	kind := "text/html"
	r.host.Instead = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("WWW-Authenticate", "Basic")
		fmt.Fprint(w, "0000")
		return true
	}
	if status, body := r.do("GET", r.path("/info/refs?service=git-upload-pack"), ""); status != http.StatusBadGateway {
		t.Errorf("a page: %d %s", status, body)
	}
	if status, body := r.do("POST", r.path("/git-upload-pack"), "0000", "Content-Type", fetchType); status != http.StatusBadGateway {
		t.Errorf("a page: %d %s", status, body)
	}
	kind = "application/x-git-upload-pack-result"
	resp, err := http.Post(r.down.URL+r.path("/git-upload-pack"), fetchType, strings.NewReader("0000"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Set-Cookie")+resp.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

func TestForms(t *testing.T) {
	r := newRig(t)
	before := len(r.host.Requests())
	for _, bad := range []struct {
		path, kind, encoding string
		want                 int
	}{
		{"/git-upload-pack?x=y", fetchType, "", http.StatusNotFound},
		{"/git-upload-pack", pushType, "", http.StatusUnsupportedMediaType},
		{"/git-upload-pack", fetchType, "br", http.StatusUnsupportedMediaType},
		{"/git-receive-pack", fetchType, "", http.StatusUnsupportedMediaType},
		{"/git-receive-pack", pushType, "gzip", http.StatusBadRequest}, // which it is not
		{"/git-receive-pack", pushType, "", http.StatusBadRequest},
	} {
		header := []string{"Content-Type", bad.kind}
		if bad.encoding != "" {
			header = append(header, "Content-Encoding", bad.encoding)
		}
		if status, body := r.do("POST", r.path(bad.path), "what is this?", header...); status != bad.want || !strings.HasPrefix(body, "cordon: ") {
			t.Errorf("%+v: %d %s", bad, status, body)
		}
	}
	if more := r.host.Requests()[before:]; len(more) > 0 {
		t.Errorf("the host was asked: %q", more)
	}
}

// A request of what the host has, compressed as git does with long ones.
func TestCompressedFetch(t *testing.T) {
	r := newRig(t)
	b := compressed(t, string(packet(nil, "command=ls-refs\n"))+"00010000")
	status, body := r.do("POST", r.path("/git-upload-pack"), b, "Content-Type", fetchType, "Content-Encoding", "gzip", "Git-Protocol", "version=2")
	if status != http.StatusOK || !strings.Contains(body, "refs/heads/trunk") {
		t.Errorf("%d %q", status, body)
	}
}

// Each ref of a push counts, wherever it stands, and all of a push is read.
func TestEachRefCounts(t *testing.T) {
	r := newRig(t)
	zeros, tip := strings.Repeat("0", 40), r.at("refs/heads/trunk")
	one := func(ref string) string { return zeros + " " + tip + " " + ref }
	for _, push := range []string{
		lines(one("refs/heads/agent/x")+"\x00 report-status", one("refs/heads/other")),
		lines(one("refs/heads/other")+"\x00 report-status", one("refs/heads/agent/x")),
		lines("shallow "+tip, one("refs/heads/agent/x")+"\x00 report-status-v2", one("refs/heads/agent/y"), one("refs/heads/other")),
	} {
		status, body := r.do("POST", r.path("/git-receive-pack"), push+"PACK", "Content-Type", pushType)
		if status != http.StatusOK || !strings.Contains(body, "ng refs/heads/other cordon: not among") || !strings.Contains(body, "ng refs/heads/agent/x cordon: not pushed") {
			t.Errorf("%d %q", status, body)
		}
	}
	status, body := r.do("POST", r.path("/git-receive-pack"), lines(one("refs/heads/other"))+"PACK", "Content-Type", pushType)
	if status != http.StatusForbidden || !strings.Contains(body, "pushes go to refs/heads/agent/*") {
		t.Errorf("who asks for no report: %d %q", status, body)
	}
	if r.at("refs/heads/agent/x")+r.at("refs/heads/other") != "" {
		t.Error("something was pushed")
	}
	// As long as the client sends, it would not listen.
	reader, writer := io.Pipe()
	answered := make(chan int, 1)
	go func() {
		resp, err := http.Post(r.down.URL+r.path("/git-receive-pack"), pushType, reader)
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	_, _ = io.WriteString(writer, lines(one("refs/heads/other")+"\x00 report-status"))
	for range 64 {
		if _, err := writer.Write(make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	_ = writer.Close()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("after a long pack: %d", status)
	}
}

func TestConcurrentRequests(t *testing.T) {
	r := newRig(t)
	reached, release := make(chan struct{}), make(chan struct{})
	r.host.Instead = func(w http.ResponseWriter, _ *http.Request) bool {
		reached <- struct{}{}
		<-release
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		return true
	}
	post := func() int {
		resp, err := http.Post(r.down.URL+r.path("/git-upload-pack"), fetchType, strings.NewReader("0000"))
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	var wait sync.WaitGroup
	for range concurrent {
		wait.Go(func() {
			if status := post(); status != http.StatusOK {
				t.Errorf("one of as many as may be: %d", status)
			}
		})
		<-reached
	}
	if status := post(); status != http.StatusTooManyRequests {
		t.Errorf("one more: %d", status)
	}
	close(release)
	wait.Wait()
	if len(r.gate.active) != 0 {
		t.Errorf("%v", r.gate.active)
	}
}

// A credential that the host does not take is asked for again.
func TestRefusedCredentialIsForgotten(t *testing.T) {
	r := newRig(t)
	forgotten := ""
	r.gate.Forget = func(name string) { forgotten = name }
	r.host.Password = "changed"
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git"}, "remote: cordon: the host of the repository refuses the credential")
	if forgotten != "gitea" {
		t.Errorf("forgotten: %q", forgotten)
	}
	r.gate.Secret = func(string) (string, error) { return "", fmt.Errorf("secret.gitea: %s is empty", password[:6]) }
	r.refused(r.dir, []string{"ls-remote", r.up.URL + "/u/shop.git"}, "remote: cordon: the repository's credential can't be had")
}
