package main

import (
	"strings"
	"testing"

	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/cmd/cordon/internal/cli"
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
			a := &app{App: &cli.App{}, values: v}
			n, err := a.notifier(state)
			switch {
			case tt.want == "" && (err != nil || (n == nil) != tt.nobody):
				t.Errorf("got %v, %v", n, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "verysecret")):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
