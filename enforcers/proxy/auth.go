package proxy

import (
	"net/http"
	"strings"
	"time"

	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/stricthttp"
)

// carried returns the one token that the request carries: as x-api-key, as a
// bearer, or as both when they agree.
func carried(h httphead.Header) (string, *refusal) {
	var keys, auths int
	var got, auth string
	for _, f := range h {
		switch f.Name {
		case "X-Api-Key":
			keys, got = keys+1, f.Value
		case "Authorization":
			auths, auth = auths+1, f.Value
		}
	}
	if keys > 1 || auths > 1 {
		return "", malformed("a credential is there twice")
	}
	if auths == 1 {
		scheme, value, _ := strings.Cut(auth, " ")
		if !httphead.Is(scheme, "bearer") {
			return "", malformed("authorization must be a bearer token")
		}
		if keys == 1 && value != got {
			return "", malformed("x-api-key and authorization differ")
		}
		got = value
	}
	if got == "" {
		return "", &refusal{status: http.StatusUnauthorized, kind: "authentication_error", reason: "token", message: "no token: send the session's as x-api-key or as a bearer"}
	}
	return got, nil
}

// authorize checks that the request carries the session's own token for this
// proxy, while it is valid. It does not tell why a token is none.
func authorize(h httphead.Header, session *Session, proxy string, now time.Time) *refusal {
	got, bad := carried(h)
	if bad != nil {
		return bad
	}
	if !session.Token.Is(got) {
		return forbidden("token", "this is not a token of this session")
	}
	return valid(session, proxy, now)
}

// valid checks that the session has a token for this proxy, and that it has
// not come to its end.
func valid(session *Session, proxy string, now time.Time) *refusal {
	t := session.Token
	if t.Hash == "" {
		return forbidden("token", "the session's token was revoked: start a new session")
	}
	if t.Proxy != proxy {
		return forbidden("token", "this is not a token of this session")
	}
	if !now.Before(t.Expires) {
		return forbidden("expired", "the session's token has expired: start a new session")
	}
	if session.Alive.Err() != nil {
		return forbidden("ended", "the session has ended")
	}
	return nil
}

// form refuses what the proxy never speaks: switching protocols, headers
// dropped or named by the connection, a query that carries a credential.
// What the handler never sees is refused by internal/stricthttp.
func form(r *stricthttp.Request) *refusal {
	for _, f := range r.Header {
		switch f.Name {
		case "Upgrade", "Http2-Settings", "Te", "Trailer", "Proxy-Authorization", "Proxy-Connection":
			return malformed(strings.ToLower(f.Name) + " is not accepted")
		case "Connection":
			if bad := options(f.Value); bad != nil {
				return bad
			}
		}
	}
	return query(r.URL.RawQuery)
}

// options refuses what a connection is not to be.
func options(text string) *refusal {
	for option := range strings.SplitSeq(text, ",") {
		if o := strings.Trim(option, " \t"); o != "" && !httphead.Is(o, "keep-alive") && !httphead.Is(o, "close") {
			return malformed("connection may only be keep-alive or close")
		}
	}
	return nil
}

// query refuses parameters with which APIs take credentials.
func query(raw string) *refusal {
	if raw == "" || raw == "beta=true" {
		return nil
	}
	for _, pair := range strings.FieldsFunc(raw, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "%+") || credentialLike(name) || strings.HasPrefix(strings.ToLower(name), "x-amz-") {
			return malformed("a parameter of the query is not accepted")
		}
	}
	return nil
}
