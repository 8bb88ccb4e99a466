package proxy

import (
	"net/http"
	"strings"
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

var plain = []string{"identity"}

// requestHeader is what goes on of the client's header. Values are as they came.
func requestHeader(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for name, values := range in {
		if forwards(name) {
			out[name] = values
		}
	}
	out["Accept-Encoding"] = plain // usage is read on the way back
	return out
}

// responseHeader puts what goes back of the upstream's header into out:
// nothing that belongs to the connection, that sets state in a client for the
// proxy's address, or that holds one of the secrets.
func responseHeader(out, in http.Header, secrets []string) {
	var named map[string]bool
	for _, v := range in["Connection"] {
		if named == nil {
			named = map[string]bool{}
		}
		for _, n := range strings.Split(v, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(n))] = true
		}
	}
	for name, values := range in {
		if named[name] || staysUpstream(name) || holdsAny(values, secrets) {
			continue
		}
		out[name] = values
	}
}

func staysUpstream(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Alt-Svc", "Clear-Site-Data", "Location", "Nel", "Refresh", "Report-To", "Set-Cookie", "Set-Cookie2", "Strict-Transport-Security", "Www-Authenticate":
		return true
	}
	return false
}

func holdsAny(values, secrets []string) bool {
	for _, v := range values {
		for _, s := range secrets {
			if strings.Contains(v, s) {
				return true
			}
		}
	}
	return false
}
