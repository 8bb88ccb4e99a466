package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
	"github.com/aicodesit/cordon/cmd/cordon/internal/notify"
	"github.com/aicodesit/cordon/reconciler/loop"
)

func TestNotifySettings(t *testing.T) {
	state := func() loop.State { return loop.State{} }
	for name, tt := range map[string]struct {
		settings map[string]any
		want     string // in the error; "" is none
		nobody   bool
	}{
		"nobody":               {nil, "", true},
		"flags":                {map[string]any{"notify": []string{"generic=file:/x", "slack=env:HOOK"}}, "", false},
		"a list in a variable": {map[string]any{"notify": "generic=file:/x,slack=systemd:hook", "notify-key": "file:/key"}, "", false},
		"a status":             {map[string]any{"commit-status": "github=acme/infra", "commit-status-token": "env:TOKEN"}, "", false},
		"no token":             {map[string]any{"commit-status": "github=acme/infra"}, "--commit-status-token", false},
		"no address":           {map[string]any{"commit-status": "gitea=acme/infra", "commit-status-token": "env:TOKEN"}, "say at which address", false},
		"the URL itself":       {map[string]any{"notify": "https://hooks.example/verysecret"}, "number 1 must be generic=PLACE or slack=PLACE", false},
		"the URL as a place":   {map[string]any{"notify": "slack=https://hooks.example/verysecret"}, "where the secret is and not what it is", false},
		"no place":             {map[string]any{"notify": "slack="}, "say where its URL is", false},
		"the key itself":       {map[string]any{"notify-key": "verysecret"}, "where the secret is", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := viper.New()
			for k, x := range tt.settings {
				v.Set(k, x)
			}
			a := &app{App: &cli.App{}}
			n, err := a.notifier(v, state)
			switch {
			case tt.want == "" && (err != nil || (n == nil) != tt.nobody):
				t.Errorf("got %v, %v", n, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "verysecret")):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// Other settings are other recipients; what the ones before have still to be told
// they are.
func TestRecipientsChange(t *testing.T) {
	got := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(b)
	}))
	defer server.Close()
	dir := t.TempDir()
	a := &app{App: &cli.App{}}
	notifier := func(name string) *notify.Notifier {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(server.URL+"/"+name), 0o600); err != nil {
			t.Fatal(err)
		}
		v := viper.New()
		v.Set("notify", "generic=file:"+path)
		n, err := a.notifier(v, func() loop.State { return loop.State{} })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r := newRecipients(notifier("one"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	for i, name := range []string{"one", "two", "three"} {
		if i > 0 {
			r.use(notifier(name))
		}
		r.emit(loop.Event{Kind: loop.PauseBegan, Text: "event " + name})
	}
	r.use(nil) // nobody any more
	r.look()
	r.emit(loop.Event{Kind: loop.PauseBegan, Text: "event nobody"})
	cancel()
	<-done
	close(got)
	told := map[string]bool{}
	for g := range got {
		path, body, _ := strings.Cut(g, " ")
		told[path] = strings.Contains(body, "event "+strings.TrimPrefix(path, "/"))
	}
	if len(told) != 3 || !told["/one"] || !told["/two"] || !told["/three"] {
		t.Errorf("told: %v", told)
	}
}

// A change of whom to tell needs no start of the daemon.
func TestNotifyCountsAtOnce(t *testing.T) {
	before, now := viper.New(), viper.New()
	for _, key := range notifySettings() {
		now.Set(key, "other")
	}
	if later := atNextStart(before, now); len(later) > 0 {
		t.Errorf("at the next start: %v", later)
	}
	now.Set("listen", "other")
	if later := atNextStart(before, now); len(later) != 1 {
		t.Errorf("at the next start: %v", later)
	}
}
