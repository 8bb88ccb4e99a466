package proxy

import (
	"net/http"
	"strings"
	"time"

	"github.com/aicodesit/cordon/internal/ending"
	"github.com/aicodesit/cordon/internal/stricthttp"
	"github.com/aicodesit/cordon/specs"
)

// serve answers one request.
func (s *Server) serve(w *stricthttp.Response, r *stricthttp.Request) {
	x := &exchange{start: time.Now(), addr: r.Remote, method: r.Method, path: r.URL.Path}
	s.metrics.active.Inc()
	defer s.done(x) // also when the answer is cut off by a panic
	if bad := s.answer(w, r, x); bad != nil {
		x.status, x.reason = bad.status, bad.reason
		if bad.status < http.StatusInternalServerError && bad.status != http.StatusTooManyRequests {
			s.log.Debug("request refused", "session", x.session.Lease.ID, "reason", bad.reason, "message", bad.message)
		}
		write := bad.write
		if s.git != nil && strings.HasPrefix(r.Target, specs.GitPrefix) {
			write = bad.writeText
		}
		if err := write(w); err != nil {
			s.log.Debug("answer not sent", "error", err)
		}
	}
}

func (s *Server) done(x *exchange) {
	s.stir()
	s.metrics.active.Dec()
	s.metrics.answered(x.status).Inc()
	if x.reason != "" {
		s.metrics.refused.WithLabelValues(x.reason).Inc()
	}
	x.log(s)
}

// answer admits the request and forwards it. A refusal means that nothing was
// answered yet.
func (s *Server) answer(w *stricthttp.Response, r *stricthttp.Request, x *exchange) *refusal {
	var ok bool
	if x.session, ok = s.sessions.ByAddr(r.Remote); !ok {
		return forbidden("address", "no session has this address")
	}
	if bad := form(r); bad != nil {
		return bad
	}
	if s.git != nil && strings.HasPrefix(r.Target, specs.GitPrefix) {
		if bad := valid(&x.session, s.spec.Name, x.start); bad != nil {
			return bad
		}
		s.gitServe(w, r, x)
		return nil
	}
	path, _, _ := strings.Cut(r.Target, "?") // as it came: r.URL.Path is decoded
	route, model := s.routes.match(r.Method, path)
	if route == nil {
		return &refusal{status: http.StatusNotFound, kind: "not_found_error", reason: "path", message: "this method and path are not among those declared"}
	}
	if bad := authorize(r.Header, &x.session, s.spec.Name, x.start); bad != nil {
		return bad
	}
	gate := s.gates.of(&x.session)
	ctx := r.Context() // ends with the session, and when the client hangs up
	if bad := gate.enter(ctx, x.start); bad != nil {
		return bad
	}
	defer gate.leave(ctx)
	o := order{ctx: ctx, route: route}
	var bad *refusal
	if o.body, bad = s.readBody(w, r, gate); bad != nil {
		return bad
	}
	defer o.body.drop()
	if o.asked, bad = s.look(route, model, o.body.data); bad != nil {
		return bad
	}
	x.model = o.asked.model
	return s.spend(w, r, x, &o)
}

// gitServe has git's own handler answer.
func (s *Server) gitServe(w *stricthttp.Response, r *stricthttp.Request, x *exchange) {
	session := x.session // not x: what a handler may keep would be allocated for each request
	var status int
	var reason string
	defer func() { x.status, x.reason = status, reason }()
	report := func(s int, why string) { status, reason = s, why }
	stricthttp.Standard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.git(w, r, session, report)
	}))(w, r)
}

// look inspects the body, as the route needs it.
func (s *Server) look(route *route, model string, text []byte) (asked, *refusal) {
	switch {
	case route.method == http.MethodGet || route.method == http.MethodDelete:
		if len(text) > 0 {
			return asked{}, malformed("a body is not accepted")
		}
		return asked{requests: 1}, nil
	case route.class == classFiles: // declared, and of any form
		return asked{requests: 1}, nil
	}
	return s.inspect(text, route.class, model)
}

// order is an admitted request.
type order struct {
	ctx   *ending.Context
	route *route
	body  body
	asked asked
}

// spend reserves what the order may cost, forwards it and settles.
func (s *Server) spend(w *stricthttp.Response, r *stricthttp.Request, x *exchange, o *order) *refusal {
	price, priced := s.prices.find(o.asked.model)
	answers := o.route.class != classCount && o.route.class != classModels
	if answers && !priced && s.ledger.hasMoney() {
		return forbidden("policy", "there is a budget of money, and the model has no price")
	}
	var most usage
	if answers {
		most = dearest(price, o.asked.input, o.asked.output)
	}
	var room [few]*account
	hold, bad := s.ledger.reserve(room[:], &x.session, sum(o.asked.requests, most, price))
	s.stir() // what is reserved is written down while the answer runs
	if bad != nil {
		return bad
	}
	var used usage
	defer func() { // also when the answer is cut off by a panic
		x.used, x.spent = used, cost(price, used)
		s.ledger.settle(hold, sum(o.asked.requests, used, price))
		s.metrics.tokens.add(used)
	}()
	return s.forward(w, r, x, o, most, &used)
}

func sum(requests int64, u usage, p specs.Price) amount {
	return amount{Requests: requests, Input: u.input(), Output: u.Output, Money: cost(p, u)}
}
