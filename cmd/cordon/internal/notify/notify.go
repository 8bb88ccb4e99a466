// Package notify tells others what a daemon sees: chats and other webhooks
// what happened, and a git host how its commits fare.
//
// Whom to tell stands in settings; what they are reached by (addresses that
// are capabilities, tokens) is read at the moment of use and is in no error
// and no log.
//
// Nothing here ever holds up who tells: each recipient has a queue that is one
// message, to which what happens meanwhile is added, and of which a bounded
// part is kept and the rest counted. So a burst is one message, and so is all
// that happened while a recipient could not be reached.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aicodesit/cordon/reconciler/loop"
)

const (
	settleTime = 2 * time.Second // from the first event to its message: what belongs together comes together
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute // between tries, without end
	longestAsk = time.Hour       // that a recipient's Retry-After is believed
	patience   = 10 * time.Second
	farewell   = 3 * time.Second // for what is left to say at the end
)

// Kinds are those that webhooks are told of.
func Kinds() []loop.Kind {
	return []loop.Kind{
		loop.DriftSeen, loop.ChangeFailed, loop.PartRecovered, loop.RevisionRefused, loop.SourceFailed, loop.SourceBack,
		loop.FightBegan, loop.FightEnded, loop.PauseBegan, loop.PauseEnded,
	}
}

// Options say whom to tell.
type Options struct {
	Host     string // that the news is of
	Version  string // of cordon
	Webhooks []Webhook
	Statuses []Status
	State    func() loop.State // what statuses tell of
	Log      *slog.Logger

	Client *http.Client // nil: one that verifies certificates
}

// Notifier tells. The nil Notifier tells nobody.
type Notifier struct{ lanes []*lane }

// New returns a Notifier, nil if there is nobody to tell.
func New(o Options) *Notifier {
	if len(o.Webhooks)+len(o.Statuses) == 0 {
		return nil
	}
	client := http.Client{}
	if o.Client != nil {
		client = *o.Client
	}
	client.Timeout = patience
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // what it is sent is for the address that was declared
	n := &Notifier{}
	add := func(name string, m messenger) {
		n.lanes = append(n.lanes, &lane{name: name, messenger: m, client: &client, log: o.Log, version: o.Version, wake: make(chan struct{}, 1)})
	}
	for i, w := range o.Webhooks {
		add(fmt.Sprintf("webhook %d (%s)", i+1, w.Kind), &hook{Webhook: w, host: o.Host})
	}
	for _, s := range o.Statuses {
		add(fmt.Sprintf("commit status (%s)", s.Kind), &status{Status: s, context: "cordon/" + o.Host, state: o.State})
	}
	return n
}

// Emit takes up an event. It returns at once.
func (n *Notifier) Emit(e loop.Event) {
	if n == nil {
		return
	}
	for _, l := range n.lanes {
		if l.messenger.take(e) {
			l.ring()
		}
	}
}

// Look has those who are told how things stand told it, if that is news for them,
// though nothing happened. It returns at once.
func (n *Notifier) Look() {
	if n == nil {
		return
	}
	for _, l := range n.lanes {
		l.ring()
	}
}

func (l *lane) ring() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, and then once more what is left.
func (n *Notifier) Run(ctx context.Context) {
	if n == nil {
		return
	}
	var all sync.WaitGroup
	for _, l := range n.lanes {
		all.Go(func() { l.run(ctx) })
	}
	all.Wait()
}

// A messenger gathers what there is to say to one recipient.
type messenger interface {
	// take adds an event, and tells whether there is something to say.
	take(loop.Event) bool
	// request is the next message, nil when there is none. Until said is
	// called, it is asked for again.
	request(context.Context) (*http.Request, error)
	// holds tells whether an answer that looks like a refusal says that what
	// was to be said is said already.
	holds(*http.Response) bool
	// said is told that the last request was taken, or never will be.
	said(delivered bool)
	// ready returns an error when it is plain that nothing can be sent.
	ready() error
}

// lane is the way to one recipient.
type lane struct {
	name      string
	messenger messenger
	client    *http.Client
	log       *slog.Logger
	version   string
	wake      chan struct{}
}

func (l *lane) run(ctx context.Context) {
	if err := l.messenger.ready(); err != nil {
		l.log.ErrorContext(ctx, "will not be told as it is", "recipient", l.name, "error", err)
	}
	for wait(ctx, l.wake) && sleep(ctx, settleTime) {
		retry := firstRetry
		for {
			more, after, err := l.send(ctx)
			if err == nil && !more || ctx.Err() != nil {
				break
			}
			if err == nil {
				retry = firstRetry
				continue
			}
			retry = min(2*retry, lastRetry)
			pause := max(after, time.Duration(float64(retry)*(0.5+rand.Float64()/2)))
			l.log.WarnContext(ctx, "could not be told; trying again", "recipient", l.name, "error", err, "in", pause.Round(time.Second))
			if !sleep(ctx, pause) {
				break
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for more := true; more; {
		var err error
		if more, _, err = l.send(last); err != nil {
			l.log.WarnContext(last, "could not be told at the end", "recipient", l.name, "error", err)
			return
		}
	}
}

// send sends one message; more tells that there was one. A refusal that
// another try would not change is logged, and the message dropped.
func (l *lane) send(ctx context.Context) (more bool, after time.Duration, err error) {
	req, err := l.messenger.request(ctx)
	if err != nil || req == nil {
		return false, 0, err
	}
	req.Header.Set("User-Agent", "cordon/"+l.version)
	resp, err := l.client.Do(req)
	if err != nil {
		return true, 0, unnamed(err, req.URL)
	}
	defer resp.Body.Close()
	took, after, err := judge(resp)
	switch {
	case took || l.messenger.holds(resp):
		l.messenger.said(true)
		return true, 0, nil
	case after >= 0:
		return true, after, err
	}
	l.log.ErrorContext(ctx, "could not be told; the message is dropped", "recipient", l.name, "error", err)
	l.messenger.said(false)
	return true, 0, nil
}

// unnamed is an error of the client without the address, which is a secret.
func unnamed(err error, u *url.URL) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	for _, part := range []string{u.String(), u.Host, u.Hostname()} {
		if part != "" {
			text = strings.ReplaceAll(text, part, "(its address)")
		}
	}
	return errors.New(text)
}

// parse refuses addresses at which what is sent could be read on its way. Its
// errors don't show the address.
func parse(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("its address is not a URL")
	}
	local := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
	if u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return nil, errors.New("its address must begin with https://")
	}
	return u, nil
}

func wait(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
