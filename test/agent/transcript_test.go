package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The session's address and token, said by the client's own shell: the token
// from the session's own variable, which a file handed it.
const tell = "RUN<<cat /etc/hosts token>>"

// talk has a session write its traces into its transcript, and returns the
// token.
func talk(t *testing.T) *job {
	return start(t, "run", "-p", "shop", "claude-code", "--", "bash", "-c",
		`echo "$ANTHROPIC_AUTH_TOKEN" > token; claude -p '`+tell+`' --allowedTools Bash; cat token; echo ready; sleep ${1:-0}`, "talk", "1000")
}

const transcriptDir = stateDir + "/homes/shop/claude-code/.claude/projects"

func everything(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	files, err := filepath.Glob(transcriptDir + "/*/*.jsonl")
	must(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(t, err)
		all.Write(b)
	}
	return all.String()
}

// scrubbed checks that what a session said is there without its traces.
func scrubbed(t *testing.T, token string) {
	t.Helper()
	all := everything(t)
	if !strings.Contains(all, "proxy.internal proxy.internal") || !strings.Contains(all, "[redacted]") {
		t.Errorf("what was said is not there: %s", tail(all))
	}
	for _, bad := range []string{token, "10.202.0.1", "cc-sess-"} {
		if strings.Contains(all, bad) {
			t.Errorf("%s is left", bad)
		}
	}
}

// transcripts: scrubbed when the session ends; the conversation goes on.
func (r *rig) transcripts(t *testing.T) {
	must(t, os.RemoveAll(transcriptDir))
	j := talk(t)
	until(t, "it has said all", func() bool { return strings.Contains(j.stdout.String(), "ready") })
	token := tokenIn(t, j.stdout.String())
	if all := everything(t); !strings.Contains(all, token) || !strings.Contains(all, "10.202.0.1") {
		t.Errorf("nothing to scrub: %s", tail(all))
	}
	j.stop(t)
	scrubbed(t, token)
	if res := ask(t, "shop", "hello again", "--continue"); !strings.Contains(res.stdout, "hello from the model") {
		t.Errorf("it can't be continued: %+v", res)
	}
	var resumed bool
	for _, s := range r.up.Requests() {
		resumed = resumed || strings.Contains(string(s.Body), "hello again") && strings.Contains(string(s.Body), "[redacted]")
	}
	if !resumed {
		t.Error("the conversation began anew")
	}
	must(t, os.Remove("/srv/projects/shop/token"))
}

func tokenIn(t *testing.T, s string) string {
	t.Helper()
	i := strings.LastIndex(s, "cc-sess-")
	if i < 0 {
		t.Fatalf("no token in %q", s)
	}
	return strings.Fields(s[i:])[0]
}

// crash: a session whose cordon was killed is cleaned up after by the next.
func (r *rig) crash(t *testing.T) {
	must(t, os.RemoveAll(transcriptDir))
	j := talk(t)
	until(t, "it has said all", func() bool { return strings.Contains(j.stdout.String(), "ready") })
	token := tokenIn(t, j.stdout.String())
	must(t, j.cmd.Process.Kill())
	_ = j.cmd.Wait()
	j.cancel()
	if !strings.Contains(everything(t), token) {
		t.Error("nothing to scrub")
	}
	if res := run(t, "apply", "--auto-approve"); res.code != 0 {
		t.Errorf("%+v", res)
	}
	scrubbed(t, token)

	// And by hand, elsewhere.
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(`{"a":"10.202.0.2 `+token+` 10.202.0.20 `+r.key+`"}`), 0o600))
	if res := run(t, "scrub", dir); res.code != 0 || !strings.Contains(res.stdout, "1 of 1 files changed") {
		t.Errorf("%+v", res)
	}
	b, err := os.ReadFile(filepath.Join(dir, "a.jsonl"))
	must(t, err)
	if string(b) != `{"a":"proxy.internal [redacted] 10.202.0.20 [redacted]"}` {
		t.Errorf("%s", b)
	}
	must(t, os.Remove("/srv/projects/shop/token"))
}
