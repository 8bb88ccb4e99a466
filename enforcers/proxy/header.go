package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/aicodesit/cordon/internal/httphead"
	"github.com/aicodesit/cordon/internal/stricthttp"
)

// forwards tells whether a header of the client's, in canonical form, goes on
// to the upstream: those known to be harmless. All others are left out, so a
// credential has no way under whatever name, and neither has a header that
// belongs to the connection.
func forwards(name string) bool {
	switch name {
	case "Accept", "Accept-Language", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "Idempotency-Key", "Openai-Beta", "User-Agent", "X-App", "X-Client-Request-Id":
		return true
	}
	for _, prefix := range []string{"Anthropic-", "X-Stainless-", "X-Claude-Code-", "X-Amzn-Bedrock-"} {
		if strings.HasPrefix(name, prefix) {
			return !credentialLike(name)
		}
	}
	return false
}

func credentialLike(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"auth", "cookie", "credential", "key", "password", "secret", "token"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// requestHeader appends what goes on of the client's header to out. Values are as
// they came.
func requestHeader(out, in httphead.Header) httphead.Header {
	for _, f := range in {
		if forwards(f.Name) {
			out = append(out, f)
		}
	}
	return out.Set("Accept-Encoding", "identity") // usage is read on the way back
}

// responseHeader puts what goes back of the upstream's header into w: nothing
// that belongs to the connection, that sets state in a client for the proxy's
// address, or that holds one of the secrets.
func responseHeader(w *stricthttp.Response, in httphead.Header, secrets []string) {
	named := ofConnection(in)
	for _, f := range in {
		if !named[f.Name] && !staysUpstream(f.Name) && !holdsAny(f.Value, secrets) {
			w.Add(f.Name, f.Value)
		}
	}
}

// ofConnection are the headers that belong to the connection as it says itself.
func ofConnection(in httphead.Header) (names map[string]bool) {
	for v := range in.All("Connection") {
		for name := range strings.SplitSeq(v, ",") {
			if names == nil { // as seldom it is not
				names = map[string]bool{}
			}
			names[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return names
}

func staysUpstream(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Alt-Svc", "Clear-Site-Data", "Location", "Nel", "Refresh", "Report-To", "Set-Cookie", "Set-Cookie2", "Strict-Transport-Security", "Www-Authenticate":
		return true
	}
	return false
}

func holdsAny(value string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(value, s) })
}
