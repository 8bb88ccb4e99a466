package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/aicodesit/cordon/internal/strictjson"
	"github.com/aicodesit/cordon/specs"
)

// How many tokens things are taken for, before the upstream has counted.
const (
	imageTokens   = 5_000
	documentMax   = 300_000
	contextTokens = 1_000_000 // no model takes more
	outputTokens  = 32_000    // where a request need not say
)

// asked is what a body asks for.
type asked struct {
	model    string
	requests int64 // more than one in a batch
	input    int64 // tokens at most
	output   int64 // tokens at most, of all requests
}

// inspection looks at bodies, one after the other. Of one it keeps nothing for
// the next but memory.
type inspection struct {
	walker strictjson.Walker
	finding
}

// finding is what is known of the body at hand.
type finding struct {
	policy *specs.BodyPolicy
	class  class
	asked  asked

	texts  int64  // bytes that are not base64 data
	data   int64  // bytes of data of the source at hand
	kind   []byte // of the source at hand, and
	media  []byte // what its data is; both are part of the body
	blobs  int64  // tokens of the sources so far
	models int64  // requests that name a model
	caps   int64  // requests that say how much to answer
	copies int64  // answers to one request
}

// inspect checks a body against the policy. model is the one that the path
// names, "" when the body must.
func (s *Server) inspect(text []byte, c class, model string) (asked, *refusal) {
	i, ok := s.looks.Get().(*inspection)
	if !ok {
		i = &inspection{}
	}
	a, bad := i.inspect(text, c, model, &s.policy)
	s.looks.Put(i)
	return a, bad
}

func (i *inspection) inspect(text []byte, c class, model string, p *specs.BodyPolicy) (asked, *refusal) {
	i.finding = finding{policy: p, class: c, texts: int64(len(text)), copies: 1}
	defer func() { i.finding = finding{} }()
	if model != "" {
		if bad := i.model([]byte(model)); bad != nil {
			return asked{}, bad
		}
	}
	if err := i.walker.Walk(text, i); err != nil {
		if bad, ok := err.(*refusal); ok { // as Visit made it
			return asked{}, bad
		}
		return asked{}, malformed(err.Error())
	}
	return i.result()
}

func (i *inspection) result() (asked, *refusal) {
	if i.class != classBatches {
		i.asked.requests = 1
	}
	if i.models < i.asked.requests && i.class != classOther {
		return asked{}, malformed("model: is missing")
	}
	missing := i.asked.requests - i.caps
	if i.class == classMessages || i.class == classBatches {
		if missing > 0 && i.policy.MaxTokens > 0 {
			return asked{}, forbidden("policy", fmt.Sprintf("max_tokens must be given, at most %d", i.policy.MaxTokens))
		}
		i.asked.output += missing * outputTokens
	}
	i.asked.output *= i.copies
	i.asked.input = min(i.texts, contextTokens*max(1, i.asked.requests)) + i.blobs
	return i.asked, nil
}

// Visit is called for each value. Paths are those of a request for a
// message; in a batch they stand below requests.[].params.
func (i *inspection) Visit(path strictjson.Path, v strictjson.Value) error {
	if i.class == classBatches {
		if path.Is("requests", "[]") {
			i.asked.requests++
		}
		if !path.Begins("requests", "[]", "params") || len(path) == 3 {
			return nil
		}
		path = path[3:]
	}
	var bad *refusal
	switch {
	case len(path) == 0:
		if v.Kind != strictjson.Object {
			bad = malformed("the body must be an object")
		}
	case len(path) == 1:
		bad = i.top(path[0], v)
	default:
		bad = i.below(path, v)
	}
	if bad != nil {
		return bad
	}
	return nil
}

// below looks at a value inside of a field of the request.
func (i *inspection) below(path strictjson.Path, v strictjson.Value) *refusal {
	switch string(path[0]) {
	case "tools":
		return i.tool(path, v)
	case "messages":
		if path.Begins("messages", "[]", "content", "[]", "input") { // what a tool was called with is nobody's to fetch
			return nil
		}
		return i.content(path, v)
	case "system", "input":
		return i.content(path, v)
	}
	return nil
}

// top looks at a field of the request itself.
func (i *inspection) top(field []byte, v strictjson.Value) *refusal {
	switch string(field) {
	case "model":
		return i.model(v.Text())
	case "max_completion_tokens", "max_output_tokens":
		if i.class == classBatches { // or one request with two bounds would pass for two with one each
			return malformed(string(field) + ": is not accepted in a batch")
		}
		return i.maxTokens(field, v)
	case "max_tokens":
		return i.maxTokens(field, v)
	case "n":
		return i.several(v)
	case "mcp_servers":
		return i.only(i.policy.MCPServers || empty(v), "mcp_servers", "mcp_servers")
	case "container", "previous_response_id", "conversation", "prompt":
		return i.only(i.policy.Files || empty(v), string(field), "files")
	case "background":
		return i.only(i.policy.Batches || string(v.Raw) == "false" || empty(v), "background", "batches")
	case "web_search_options":
		return i.only(slices.Contains(i.policy.ServerTools, "web_search") || empty(v), "web_search_options", `server_tools "web_search"`)
	}
	return nil
}

func empty(v strictjson.Value) bool {
	return v.Kind == strictjson.Null || v.Kind == strictjson.Array && len(bytes.Trim(v.Raw, "[] \t\r\n")) == 0
}

// only refuses what is not declared.
func (i *inspection) only(allowed bool, what, declared string) *refusal {
	if allowed {
		return nil
	}
	return forbidden("policy", fmt.Sprintf("%s: the proxy's policy does not declare %s", what, declared))
}

func (i *inspection) model(name []byte) *refusal {
	if len(name) == 0 {
		return malformed("model: must be a name")
	}
	i.models++
	if i.asked.model == "" {
		i.asked.model = string(name) // which is kept longer than the body
	}
	if i.asked.model != string(name) {
		return malformed("model: must be one")
	}
	if i.policy.Models == nil || slices.ContainsFunc(i.policy.Models, func(pattern string) bool { return specs.MatchName(pattern, i.asked.model) }) {
		return nil
	}
	return forbidden("policy", fmt.Sprintf("model %.100q is not among those declared", i.asked.model))
}

func (i *inspection) maxTokens(name []byte, v strictjson.Value) *refusal {
	if v.Kind == strictjson.Null {
		return nil
	}
	n, err := strconv.ParseInt(string(v.Raw), 10, 32)
	if err != nil || n < 0 {
		return malformed(string(name) + ": must be a whole number")
	}
	if i.policy.MaxTokens > 0 && n > int64(i.policy.MaxTokens) {
		return forbidden("policy", fmt.Sprintf("%s: at most %d are declared", name, i.policy.MaxTokens))
	}
	i.caps++
	i.asked.output += n
	return nil
}

func (i *inspection) several(v strictjson.Value) *refusal {
	if v.Kind == strictjson.Null {
		return nil
	}
	n, err := strconv.ParseInt(string(v.Raw), 10, 8)
	if err != nil || n < 1 {
		return malformed("n: must be a small whole number")
	}
	i.copies = n
	return nil
}

// tool looks at the types of the tools: those that the upstream runs must be declared.
func (i *inspection) tool(path strictjson.Path, v strictjson.Value) *refusal {
	if !path.Is("tools", "[]", "type") {
		return nil
	}
	if v.Kind != strictjson.String {
		return malformed("tools: a type must be a text")
	}
	kind := string(undated(v.Text()))
	switch kind {
	case "custom", "function", // run by the client
		"bash", "text_editor", "computer", "memory",
		"tool_search_tool_regex", "tool_search_tool_bm25": // look at the request alone
		return nil
	case "mcp", "mcp_toolset":
		return i.only(i.policy.MCPServers, "tools", "mcp_servers")
	}
	return i.only(slices.Contains(i.policy.ServerTools, kind), "tools", fmt.Sprintf("server_tools %.100q", kind))
}

// undated returns a server-side tool's type without the date of its version,
// an underscore and eight digits.
func undated(kind []byte) []byte {
	name := bytes.TrimRight(kind, "0123456789")
	if len(kind)-len(name) != 8 {
		return kind
	}
	if bare, ok := bytes.CutSuffix(name, []byte("_")); ok {
		return bare
	}
	return kind
}

// content looks at a value inside of what is said.
func (i *inspection) content(path strictjson.Path, v strictjson.Value) *refusal {
	field, in := path[len(path)-1], path[len(path)-2]
	if string(in) == "source" {
		switch string(field) {
		case "type":
			return i.sourceType(v.Text())
		case "media_type":
			i.media = v.Text()
		case "data":
			i.data = int64(len(v.Raw))
		}
	}
	switch string(field) {
	case "source":
		if v.Kind == strictjson.Object {
			i.source()
		}
	case "url":
		if string(in) == "image_url" {
			return i.inline(v)
		}
	case "image_url", "file_data":
		return i.inline(v)
	case "file_url":
		return i.only(i.policy.URLSources || empty(v), "file_url", "url_sources")
	case "file_id":
		return i.only(i.policy.Files || empty(v), "file_id", "files")
	}
	return nil
}

func (i *inspection) sourceType(kind []byte) *refusal {
	i.kind = kind
	switch string(kind) {
	case "base64", "text", "content":
		return nil
	case "file":
		return i.only(i.policy.Files, "source", "files")
	}
	return i.only(i.policy.URLSources, "source", "url_sources")
}

// source is at the end of a source.
func (i *inspection) source() {
	if string(i.kind) == "base64" {
		i.blob(i.media, i.data)
	}
	i.data, i.kind, i.media = 0, nil, nil
}

// blob takes an image or a document out of the text: its length tells nothing
// of its tokens. Data of any other type is text.
func (i *inspection) blob(media []byte, size int64) {
	pdf := string(media) == "application/pdf"
	if !pdf && !bytes.HasPrefix(media, []byte("image/")) {
		return
	}
	i.texts -= size
	i.blobs += imageTokens
	if pdf {
		i.blobs += min(size, documentMax)
	}
}

// inline is an image or a file of the OpenAI kind: data, or a URL.
func (i *inspection) inline(v strictjson.Value) *refusal {
	if v.Kind != strictjson.String {
		return nil // the object around a url
	}
	if rest, ok := bytes.CutPrefix(v.Text(), []byte("data:")); ok {
		media, _, _ := bytes.Cut(rest, []byte(";"))
		i.blob(media, int64(len(rest)))
		return nil
	}
	return i.only(i.policy.URLSources, "image_url", "url_sources")
}
