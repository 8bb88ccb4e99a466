package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/aicodesit/cordon/cmd/cordon/internal/notify"
	"github.com/aicodesit/cordon/reconciler/loop"
)

// notifyFlags say whom a daemon tells of what it sees.
func notifyFlags(f *pflag.FlagSet) {
	f.StringSlice("notify", nil, "tell a webhook of drift, failures, refusals, recoveries, fights and pauses: generic=PLACE or slack=PLACE, PLACE (file:PATH, env:NAME or systemd:NAME) being where its URL is")
	f.String("notify-key", "", "key that signs what generic webhooks are told: file:PATH, env:NAME or systemd:NAME")
	f.StringSlice("commit-status", nil, "tell a git host how its commits fare here: github=OWNER/REPOSITORY, gitea=… or gitlab=…")
	f.String("commit-status-url", "", "address of that host, of GitHub that of its API (default the public one)")
	f.String("commit-status-token", "", "token at that host: file:PATH, env:NAME or systemd:NAME")
}

// notifier tells those that the settings name; nil: they name nobody.
func (a *app) notifier(v *viper.Viper, state func() loop.State) (*notify.Notifier, error) {
	o := notify.Options{Version: a.Version, State: state, Log: a.Log()}
	var err error
	if o.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	if o.Webhooks, err = webhooks(v); err != nil {
		return nil, err
	}
	if o.Statuses, err = statuses(v); err != nil {
		return nil, err
	}
	return notify.New(o), nil
}

func webhooks(v *viper.Viper) ([]notify.Webhook, error) {
	key, err := placed(v, "notify-key")
	if err != nil {
		return nil, err
	}
	var out []notify.Webhook
	for i, setting := range several(v, "notify") {
		kind, place, ok := strings.Cut(setting, "=")
		if !ok || kind != notify.Generic && kind != notify.Slack {
			// Someone may have written the URL itself, so it is not repeated.
			return nil, fmt.Errorf("--notify: number %d must be generic=PLACE or slack=PLACE", i+1)
		}
		w := notify.Webhook{Kind: kind}
		if kind == notify.Generic {
			w.Key = key
		}
		if w.URL, err = placedAt("notify", place); err != nil {
			return nil, err
		}
		if w.URL == nil {
			return nil, fmt.Errorf("--notify: %s: say where its URL is", kind)
		}
		out = append(out, w)
	}
	return out, nil
}

func statuses(v *viper.Viper) ([]notify.Status, error) {
	token, err := placed(v, "commit-status-token")
	if err != nil {
		return nil, err
	}
	var out []notify.Status
	for _, setting := range several(v, "commit-status") {
		kind, repository, _ := strings.Cut(setting, "=")
		s := notify.Status{Kind: kind, Repository: repository, Base: v.GetString("commit-status-url"), Token: token}
		if err := s.Check(); err != nil {
			return nil, fmt.Errorf("--commit-status: %w", err)
		}
		if token == nil {
			return nil, errors.New("--commit-status: --commit-status-token must say where the token is")
		}
		out = append(out, s)
	}
	return out, nil
}

// several are the values of a setting that may have more than one: a list in
// the settings file, commas between them elsewhere.
func several(v *viper.Viper, name string) []string {
	var out []string
	for _, s := range v.GetStringSlice(name) {
		for e := range strings.SplitSeq(s, ",") {
			if e = strings.TrimSpace(e); e != "" {
				out = append(out, e)
			}
		}
	}
	return out
}

// notifySettings are the settings that a notifier is made of.
func notifySettings() []string {
	return []string{"notify", "notify-key", "commit-status", "commit-status-url", "commit-status-token"}
}

// recipients are those whom a daemon tells: others when its settings change.
type recipients struct {
	mu    sync.Mutex
	now   *notify.Notifier
	fresh []*notify.Notifier // that run has not started yet
	wake  chan struct{}
}

func newRecipients(n *notify.Notifier) *recipients {
	return &recipients{now: n, fresh: []*notify.Notifier{n}, wake: make(chan struct{}, 1)}
}

// use makes n the one that tells. What the one before has still to say it says.
func (r *recipients) use(n *notify.Notifier) {
	r.mu.Lock()
	r.now, r.fresh = n, append(r.fresh, n)
	r.mu.Unlock()
	n.Look()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *recipients) current() *notify.Notifier {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *recipients) emit(e loop.Event) { r.current().Emit(e) }

func (r *recipients) look() { r.current().Look() }

// run tells until ctx ends.
func (r *recipients) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	replaced := func() {} // ends the one that tells
	defer func() { replaced() }()
	for {
		r.mu.Lock()
		fresh := r.fresh
		r.fresh = nil
		r.mu.Unlock()
		for _, n := range fresh {
			replaced()
			its, cancel := context.WithCancel(ctx)
			replaced = cancel
			all.Go(func() { n.Run(its) })
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
	}
}
