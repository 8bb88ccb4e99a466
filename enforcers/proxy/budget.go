package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// amount is what is used of a budget.
type amount struct {
	Requests int64 `json:"requests,omitempty"`
	Input    int64 `json:"input,omitempty"`  // tokens
	Output   int64 `json:"output,omitempty"` // tokens
	Money    int64 `json:"money,omitempty"`  // millionths
}

func (a amount) plus(b amount) amount {
	return amount{a.Requests + b.Requests, a.Input + b.Input, a.Output + b.Output, a.Money + b.Money}
}

func (a amount) minus(b amount) amount {
	return amount{a.Requests - b.Requests, a.Input - b.Input, a.Output - b.Output, a.Money - b.Money}
}

// ledger keeps what is spent of the budgets, and what requests in flight may
// come to spend. Its methods may be called at the same time.
type ledger struct {
	budgets []specs.Budget
	now     func() time.Time

	mu       sync.Mutex
	accounts map[string]*account // by name, as key makes it
	known    map[named]*account  // the same, or some of them, by what the name is made of
	changed  bool                // since it was last written down
}

// account is one budget's for one session or project in one period.
type account struct {
	spent    amount
	reserved amount
	touched  time.Time
}

func newLedger(budgets []specs.Budget) *ledger {
	return &ledger{budgets: budgets, now: time.Now, accounts: map[string]*account{}, known: map[named]*account{}}
}

// key names the account of a budget. Periods begin at multiples of Every.
func key(b *specs.Budget, s *Session, now time.Time) string {
	who := "all"
	switch {
	case b.Scope == specs.BudgetProject && s.Lease.Project != "":
		who = "project " + s.Lease.Project
	case b.Scope != specs.BudgetProxy:
		who = "session " + s.key()
	}
	if b.Every <= 0 {
		return who
	}
	return who + ", " + b.Every.String() + " from " + period(b, now).UTC().Format(time.RFC3339)
}

// named is all that the name of an account depends on.
type named struct {
	budget          int
	project, id     string
	started, period int64
}

// maxKnown bounds how many accounts are known by what their name is made of.
const maxKnown = 1024

// account returns a budget's account, and nil if there is none yet. To make its
// name would take longer than all else of a reservation.
func (l *ledger) account(budget int, s *Session, now time.Time) *account {
	b := &l.budgets[budget]
	of := named{budget: budget, project: s.Lease.Project, id: s.Lease.ID, started: s.Lease.Started.Unix()}
	if b.Every > 0 {
		of.period = period(b, now).Unix()
	}
	if have := l.known[of]; have != nil {
		return have
	}
	have := l.accounts[key(b, s, now)]
	if have == nil {
		return nil
	}
	if len(l.known) >= maxKnown {
		clear(l.known)
	}
	l.known[of] = have
	return have
}

// open returns a budget's account, which it makes if there is none yet.
func (l *ledger) open(budget int, s *Session, now time.Time) *account {
	k := key(&l.budgets[budget], s, now)
	if l.accounts[k] == nil { // else it is that of a budget before this one
		l.accounts[k] = &account{}
	}
	return l.accounts[k]
}

// tidy forgets accounts that can't count any more.
func (l *ledger) tidy(now time.Time) {
	before := len(l.accounts)
	maps.DeleteFunc(l.accounts, func(name string, a *account) bool { return stale(name, a, now) })
	if len(l.accounts) < before {
		clear(l.known)
	}
}

func period(b *specs.Budget, now time.Time) time.Time {
	every := int64(max(b.Every/time.Second, 1))
	return time.Unix(now.Unix()/every*every, 0)
}

// reservation is a request's hold on the budgets. An account on which
// something is reserved is never forgotten.
type reservation struct {
	accounts []*account
	most     amount
}

// few is how many accounts most requests are counted on, at most.
const few = 4

// reserve takes the most that a request may use from every budget, or from none.
// room is for the accounts, for as long as the reservation.
func (l *ledger) reserve(room []*account, s *Session, most amount) (reservation, *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	accounts := room[:0]
	for i := range l.budgets {
		b, a := &l.budgets[i], l.account(i, s, now)
		var used amount
		if a != nil {
			used = a.spent.plus(a.reserved)
		}
		if what := over(b, used.plus(most)); what != "" {
			return reservation{}, exhausted(b, what, now)
		}
		accounts = append(accounts, a)
	}
	for i, a := range accounts {
		if a == nil {
			accounts[i] = l.open(i, s, now)
		}
	}
	accounts = unique(accounts)
	for _, a := range accounts {
		a.reserved, a.touched = a.reserved.plus(most), now
		l.changed = true
	}
	return reservation{accounts, most}, nil
}

// unique drops repeated accounts: two budgets of one scope and period share one.
func unique(accounts []*account) []*account {
	out := accounts[:0]
	for _, a := range accounts {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func over(b *specs.Budget, a amount) string {
	switch {
	case b.Requests > 0 && a.Requests > b.Requests:
		return "requests"
	case b.InputTokens > 0 && a.Input > b.InputTokens:
		return "input tokens"
	case b.OutputTokens > 0 && a.Output > b.OutputTokens:
		return "output tokens"
	case b.Money > 0 && a.Money > b.Money:
		return "money"
	}
	return ""
}

func exhausted(b *specs.Budget, what string, now time.Time) *refusal {
	message := fmt.Sprintf("the %s's budget of %s does not suffice for this request", b.Scope, what)
	if b.Every > 0 {
		message += "; it starts anew at " + period(b, now).Add(b.Every).UTC().Format(time.RFC3339)
	}
	return &refusal{status: 402, kind: "billing_error", reason: "budget", message: message}
}

// settle puts what was used in place of what was reserved. The budgets are
// those of the time when it was reserved.
func (l *ledger) settle(r reservation, used amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range r.accounts {
		a.reserved = a.reserved.minus(r.most)
		a.spent = a.spent.plus(used)
	}
	l.changed = l.changed || len(r.accounts) > 0
}

// prices is the price table.
type prices []specs.Price

// find returns the price of a model: that of the longest pattern it matches.
func (p prices) find(model string) (price specs.Price, ok bool) {
	best := -1
	for i := range p {
		exact := len(strings.TrimSuffix(p[i].Model, "*"))
		if exact > best && specs.MatchName(p[i].Model, model) {
			price, ok, best = p[i], true, exact
		}
	}
	return price.Complete(), ok
}

// cost is what tokens cost, in millionths, rounded up.
func cost(p specs.Price, u usage) int64 {
	total := u.Input*p.Input + u.CacheRead*p.CacheRead + u.CacheWrite*p.CacheWrite + u.CacheWriteLong*p.CacheWriteLong + u.Output*p.Output
	return (total + 999_999) / 1_000_000
}

// dearest is the usage of so many tokens at which they cost the most.
func dearest(p specs.Price, input, output int64) usage {
	u := usage{Output: output}
	switch max(p.Input, p.CacheWrite, p.CacheWriteLong) {
	case p.Input:
		u.Input = input
	case p.CacheWrite:
		u.CacheWrite = input
	default:
		u.CacheWriteLong = input
	}
	return u
}

// hasMoney tells whether a budget needs the models' prices.
func (l *ledger) hasMoney() bool {
	for _, b := range l.budgets {
		if b.Money > 0 {
			return true
		}
	}
	return false
}

// stale tells whether an account can't count any more.
func stale(name string, a *account, now time.Time) bool {
	if a.reserved != (amount{}) {
		return false
	}
	if _, period, ok := strings.Cut(name, ", "); ok {
		every, from, _ := strings.Cut(period, " from ")
		length, err1 := time.ParseDuration(every)
		start, err2 := time.Parse(time.RFC3339, from)
		return err1 == nil && err2 == nil && !now.Before(start.Add(length))
	}
	return strings.HasPrefix(name, "session ") && now.Sub(a.touched) > 30*24*time.Hour
}
