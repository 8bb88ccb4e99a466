package proxy

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/aicodesit/cordon/specs"
)

// class is what a path is for: it decides how a body is looked at.
type class int

const (
	classOther class = iota
	classMessages
	classCount   // counting tokens: no answer is made
	classModels  // listing models
	classBatches // many requests for messages, answered later
	classFiles   // data stored upstream
)

// route is one method and path that may be asked for.
type route struct {
	method    string
	segments  []string // of the escaped path; "{…}" stands for any one
	class     class
	kind      string
	upstreams []*upstream // in the order to try them
}

// routes are all that may be asked for.
type routes []*route

// newRoutes makes the table of ups.
func newRoutes(ups []*upstream) (routes, error) {
	var table routes
	for _, up := range ups {
		paths := up.Paths
		if paths == nil {
			paths = defaultPaths(up.Kind)
		}
		for _, p := range paths {
			if err := table.add(up, p); err != nil {
				return nil, fmt.Errorf("upstream %s: path %q: %w", up.Name, p, err)
			}
		}
	}
	return table, nil
}

func (t *routes) add(up *upstream, declared string) error {
	method, path, ok := strings.Cut(declared, " ")
	if !ok {
		method, path = "", declared
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#* ") {
		return fmt.Errorf("must be [METHOD ]/PATH")
	}
	c := classify(path)
	if method == "" {
		method = defaultMethod(c)
	}
	segments := strings.Split(path, "/")
	for _, have := range *t {
		if have.method == method && strings.Join(have.segments, "/") == path {
			if have.kind != up.Kind {
				return fmt.Errorf("is of upstreams of two kinds, %s and %s", have.kind, up.Kind)
			}
			have.upstreams = append(have.upstreams, up)
			return nil
		}
	}
	*t = append(*t, &route{method: method, segments: segments, class: c, kind: up.Kind, upstreams: []*upstream{up}})
	return nil
}

// defaultPaths are what a kind needs for messages.
func defaultPaths(kind string) []string {
	switch kind {
	case specs.UpstreamBedrock:
		return []string{"POST /model/{model}/invoke", "POST /model/{model}/invoke-with-response-stream"}
	case specs.UpstreamVertex:
		base := "POST /v1/projects/{project}/locations/{location}/publishers/anthropic/models/"
		return []string{base + "{model:rawPredict}", base + "{model:streamRawPredict}"}
	case specs.UpstreamOpenAI:
		return []string{"POST /v1/chat/completions", "POST /v1/responses", "GET /v1/models"}
	}
	return []string{"POST /v1/messages", "POST /v1/messages/count_tokens", "GET /v1/models"}
}

func classify(path string) class {
	has := func(part string) bool { return strings.Contains(path+"/", "/"+part+"/") }
	switch {
	case has("files"):
		return classFiles
	case has("batches"):
		return classBatches
	case has("count_tokens"):
		return classCount
	case strings.HasSuffix(path, "/messages"), strings.HasSuffix(path, "/chat/completions"), strings.HasSuffix(path, "/responses"),
		strings.Contains(path, "{model"):
		return classMessages
	case has("models"):
		return classModels
	}
	return classOther
}

func defaultMethod(c class) string {
	if c == classModels {
		return http.MethodGet
	}
	return http.MethodPost
}

// match finds the route of a method and an escaped path, and what stands for
// its {model}. Bytes are compared: what is escaped in another way is another path.
func (t routes) match(method, path string) (r *route, model string) {
	for _, r := range t {
		if r.method != method {
			continue
		}
		if model, ok := matchPath(r.segments, path); ok {
			return r, model
		}
	}
	return nil, ""
}

func matchPath(segments []string, path string) (model string, ok bool) {
	for i, want := range segments {
		got, rest, more := strings.Cut(path, "/")
		if more != (i < len(segments)-1) {
			return "", false
		}
		path = rest
		if !strings.HasPrefix(want, "{") {
			if got != want {
				return "", false
			}
			continue
		}
		name, verb, hasVerb := strings.Cut(strings.Trim(want, "{}"), ":")
		if hasVerb {
			if got, ok = strings.CutSuffix(got, ":"+verb); !ok {
				return "", false
			}
		}
		value, ok := variable(got)
		if !ok {
			return "", false
		}
		if name == "model" {
			model = value
		}
	}
	return model, true
}

// variable reads a segment that stands for a {…}: letters, digits and
// ._~:@-, the colon escaped or not, and not only dots.
func variable(segment string) (string, bool) {
	value := strings.ReplaceAll(strings.ReplaceAll(segment, "%3A", ":"), "%3a", ":")
	if strings.Trim(value, ".") == "" {
		return "", false
	}
	for _, c := range []byte(value) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && strings.IndexByte("._~:@-", c) < 0 {
			return "", false
		}
	}
	return value, true
}

func (r *route) pattern() string { return r.method + " " + strings.Join(r.segments, "/") }
