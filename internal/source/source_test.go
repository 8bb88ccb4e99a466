package source

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aicodesit/cordon/internal/killtest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func example() Revision {
	return Revision{
		ID: "1", Origin: "here", Ref: "main", Author: "A", Title: "t", Time: time.Unix(1, 0).UTC(), Signer: "s",
		Files: []File{{"a.hcl", []byte("\x00\xff text")}}, Notes: []string{"n"}, Signed: []byte("object"),
	}
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "git")
	s, err := OpenStore(dir)
	must(t, err)
	if _, err := s.Load("here"); !errors.Is(err, ErrNothingKept) {
		t.Errorf("empty: %v", err)
	}
	must(t, s.Save(Revision{ID: "0", Origin: "here"}))
	must(t, s.Save(example()))
	got, err := s.Load("here")
	if err != nil || !reflect.DeepEqual(got, example()) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := s.Load("elsewhere"); err == nil || got.ID != "" || !strings.Contains(err.Error(), "is from here, not from elsewhere") {
		t.Errorf("got %+v, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("left %v", entries)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, s.path(): 0o600} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

// No byte of what is kept can change, and no file can be one that somebody
// else put there, without its being refused.
func TestStoreRefuses(t *testing.T) {
	s, err := OpenStore(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	must(t, s.Save(example()))
	good, err := os.ReadFile(s.path())
	must(t, err)
	refused := func(what string) {
		t.Helper()
		if r, err := s.Load("here"); err == nil || errors.Is(err, ErrNothingKept) || r.ID != "" {
			t.Errorf("%s: got %+v, %v", what, r, err)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		must(t, os.WriteFile(s.path(), bad, 0o600))
		refused(fmt.Sprint("bit of byte ", i))
		must(t, os.WriteFile(s.path(), good[:i], 0o600))
		refused(fmt.Sprint("cut at ", i))
	}
	must(t, os.WriteFile(s.path(), append(bytes.Clone(good), ' '), 0o600))
	refused("longer")
	must(t, os.WriteFile(s.path(), good, 0o600))
	must(t, os.Chmod(s.path(), 0o620))
	refused("writable by others")
	must(t, os.Rename(s.path(), s.path()+".real"))
	must(t, os.Chmod(s.path()+".real", 0o600))
	must(t, os.Symlink("revision.real", s.path()))
	refused("a symbolic link")
	must(t, os.Remove(s.path()))
	must(t, WriteChecked(s.path(), storeMagic, []byte(`{"id":"1","origin":"here","files":[],"time":"2024-01-01T00:00:00Z","more":1}`)))
	refused("of a later version")
	if os.Geteuid() == 0 {
		must(t, s.Save(example()))
		must(t, os.Chown(s.path(), 1, 1))
		refused("another's")
	}
}

func TestOpenStoreRefusesWhatOthersCanWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, 0o777))
	if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "only its owner") {
		t.Errorf("got %v", err)
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Symlink(dir, dir+".link"))
	if _, err := OpenStore(dir + ".link"); err == nil {
		t.Error("a symbolic link was accepted")
	}
	if _, err := OpenStore(dir); err != nil {
		t.Error(err)
	}
}

func TestOpenStoreTidies(t *testing.T) {
	dir := killtest.Writing(t, "revision", func(dir string) error {
		s, err := OpenStore(dir)
		if err != nil {
			return err
		}
		return s.Save(Revision{ID: "1", Files: []File{{"a.hcl", make([]byte, killtest.Large)}}})
	})
	_, err := OpenStore(dir)
	must(t, err)
	killtest.Left(t, dir)
}

func sum(body, secret string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	return hex.EncodeToString(m.Sum(nil))
}

func TestHook(t *testing.T) {
	const body, secret = `{"ref":"refs/heads/main"}`, "s3cret"
	for _, tt := range []struct {
		name, method, header, value, body, secret string
		want                                      int
	}{
		{"GitHub", "POST", "X-Hub-Signature-256", "sha256=" + sum(body, secret), body, secret, 202},
		{"Gitea", "POST", "X-Gitea-Signature", sum(body, secret), body, secret, 202},
		{"GitLab", "POST", "X-Gitlab-Token", secret, body, secret, 202},
		{"no signature", "POST", "X-Other", "x", body, secret, 403},
		{"wrong secret", "POST", "X-Hub-Signature-256", "sha256=" + sum(body, "other"), body, secret, 403},
		{"wrong body", "POST", "X-Hub-Signature-256", "sha256=" + sum(body, secret), body + " ", secret, 403},
		{"half a signature", "POST", "X-Hub-Signature-256", "sha256=" + sum(body, secret)[:32], body, secret, 403},
		{"no sha256=", "POST", "X-Hub-Signature-256", sum(body, secret), body, secret, 403},
		{"SHA-1", "POST", "X-Hub-Signature", "sha1=" + sum(body, secret), body, secret, 403},
		{"not hexadecimal", "POST", "X-Gitea-Signature", "zz", body, secret, 403},
		{"empty token", "POST", "X-Gitlab-Token", "", body, secret, 403},
		{"part of the token", "POST", "X-Gitlab-Token", secret[:3], body, secret, 403},
		{"no secret, no token", "POST", "X-Gitlab-Token", "", body, "", 403},
		{"no secret", "POST", "X-Gitea-Signature", sum(body, ""), body, "", 403},
		{"GET", "GET", "X-Gitlab-Token", secret, "", secret, 405},
		{"large", "POST", "X-Gitlab-Token", secret, strings.Repeat("x", maxHookBody+1), secret, 413},
		{"as large as may be", "POST", "X-Gitlab-Token", secret, strings.Repeat("x", maxHookBody), secret, 202},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bell := NewBell()
			h := NewHook(func() (string, error) { return tt.secret, nil }, bell.Ring, slog.New(slog.DiscardHandler))
			r := httptest.NewRequest(tt.method, "/hook", strings.NewReader(tt.body))
			r.Header.Set(tt.header, tt.value)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want || (len(bell) == 1) != (tt.want == 202) {
				t.Errorf("status %d, want %d; woken: %t", w.Code, tt.want, len(bell) == 1)
			}
		})
	}
}

// A wrong signature beside a right one of another kind is wrong.
func TestHookTakesOneSignature(t *testing.T) {
	h := http.Header{}
	h.Set("X-Hub-Signature-256", "sha256="+sum("x", "wrong"))
	h.Set("X-Gitlab-Token", "right")
	if authentic(h, []byte("x"), "right") {
		t.Error("accepted")
	}
}

func TestHookWithoutItsSecret(t *testing.T) {
	var said bytes.Buffer
	h := NewHook(func() (string, error) { return "", errors.New("vault is away") }, func() { t.Error("woken") }, slog.New(slog.NewTextHandler(&said, nil)))
	now := time.Unix(0, 0)
	h.now = func() time.Time { return now }
	call := func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/hook", nil))
		if w.Code != 503 || strings.Contains(w.Body.String(), "vault") {
			t.Errorf("status %d, %q", w.Code, w.Body)
		}
	}
	for range 10 * hookBurst {
		call()
	}
	if n := strings.Count(said.String(), "vault is away"); n != hookBurst {
		t.Errorf("told of %d times", n)
	}
	now = now.Add(hookRefill)
	call()
	if n := strings.Count(said.String(), "vault is away"); n != hookBurst+1 {
		t.Errorf("a second later: told of %d times", n)
	}
}

func TestHookIsLimited(t *testing.T) {
	woken := 0
	h := NewHook(func() (string, error) { return "s", nil }, func() { woken++ }, slog.New(slog.DiscardHandler))
	now := time.Unix(0, 0)
	h.now = func() time.Time { return now }
	call := func() int {
		r := httptest.NewRequest("POST", "/hook", nil)
		r.Header.Set("X-Gitlab-Token", "s")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for range hookBurst {
		call()
	}
	if got := call(); woken != hookBurst || got != 429 {
		t.Errorf("woken %d times, then status %d", woken, got)
	}
	now = now.Add(2 * time.Second)
	if a, b, c := call(), call(), call(); a != 202 || b != 202 || c != 429 {
		t.Errorf("two seconds later: %d, %d, %d", a, b, c)
	}
	now = now.Add(time.Hour)
	for range hookBurst {
		call()
	}
	if got := call(); got != 429 {
		t.Errorf("an hour saves up more than %d calls", hookBurst)
	}
}

// Who does not know the secret keeps nobody else from calling, and is not told of
// without end.
func TestHookFailuresAreApart(t *testing.T) {
	var said bytes.Buffer
	h := NewHook(func() (string, error) { return "s", nil }, func() {}, slog.New(slog.NewTextHandler(&said, nil)))
	now := time.Unix(0, 0)
	h.now = func() time.Time { return now }
	call := func(token string) int {
		r := httptest.NewRequest("POST", "/hook", nil)
		r.Header.Set("X-Gitlab-Token", token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for range 10 * hookBurst {
		call("wrong")
	}
	if n := strings.Count(said.String(), "refused"); n != hookBurst {
		t.Errorf("told of %d", n)
	}
	if got := call("wrong"); got != 429 {
		t.Errorf("one more: status %d", got)
	}
	for range hookBurst {
		if got := call("s"); got != 202 {
			t.Errorf("with the secret: status %d", got)
		}
	}
	now = now.Add(hookRefill)
	if got := call("wrong"); got != 403 {
		t.Errorf("a second later: status %d", got)
	}
}

func FuzzHook(f *testing.F) {
	f.Add("X-Hub-Signature-256", "sha256=00", []byte("{}"))
	f.Add("X-Gitea-Signature", "00", []byte("{}"))
	f.Add("X-Gitlab-Token", "x", []byte("{}"))
	f.Fuzz(func(t *testing.T, name, value string, body []byte) {
		if authentic(http.Header{http.CanonicalHeaderKey(name): {value}}, body, "a secret that no fuzzer guesses") {
			t.Fatalf("%s: %s was accepted", name, value)
		}
	})
}

func TestPaceIsTheHostsOwn(t *testing.T) {
	waits := func(host string) []time.Duration {
		p := NewPace(host, time.Minute)
		var out []time.Duration
		for range 1000 {
			w := p.Next()
			if w < 54*time.Second || w > 66*time.Second {
				t.Fatalf("%s waits %s", host, w)
			}
			out = append(out, w)
		}
		return out
	}
	if a := waits("a"); !reflect.DeepEqual(a, waits("a")) || reflect.DeepEqual(a, waits("b")) || a[0] == a[1] {
		t.Error("not a sequence of the host's own")
	}
	NewPace("x", time.Nanosecond).Next() // no tenth of that
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var at []time.Duration
		start := time.Now()
		if err := NewPace("host", time.Minute).Poll(ctx, func() { at = append(at, time.Since(start)) }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if len(at) < 56 || len(at) > 66 || at[0] > time.Minute {
			t.Errorf("%d polls in an hour, the first after %s", len(at), at[0])
		}
	})
}

func TestBellNeverBlocks(t *testing.T) {
	b := NewBell()
	for range 3 {
		b.Ring()
	}
	<-b
	select {
	case <-b:
		t.Error("three rings were two wakes")
	default:
	}
}
