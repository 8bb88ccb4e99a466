package proxy

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/specs"
)

// message is a request for a message with more fields in front.
func withFields(fields string) string {
	return strings.Replace(simple, "{", "{"+fields+",", 1)
}

func content(blocks string) string {
	return `{"model":"claude-test-1","max_tokens":100,"messages":[{"role":"user","content":[` + blocks + `]}]}`
}

// inspect looks at a body with a policy.
func inspect(text []byte, c class, model string, p specs.BodyPolicy) (asked, *refusal) {
	return (&Server{policy: p}).inspect(text, c, model)
}

func TestPolicy(t *testing.T) {
	open := specs.BodyPolicy{ServerTools: []string{"web_search"}, URLSources: true, MCPServers: true, Files: true, Batches: true}
	capped := specs.BodyPolicy{Models: []string{"claude-test-*"}, MaxTokens: 100}
	var kept inspection // looks at all, one after the other
	type result int
	const (
		ok result = iota
		forbid
		bad
	)
	for _, tt := range []struct {
		name, body string
		policy     specs.BodyPolicy
		want       result
	}{
		{"plain", simple, specs.BodyPolicy{}, ok},
		{"not JSON", `{`, open, bad},
		{"not an object", `[]`, open, bad},
		{"two models", withFields(`"model":"a"`), open, bad},
		{"two models, one escaped", withFields(`"mode\u006c":"a"`), open, bad},
		{"no model", `{"max_tokens":1,"messages":[]}`, open, bad},
		{"a model in capitals only", `{"Model":"claude-test-1","max_tokens":1}`, open, bad},
		{"model is no text", `{"model":["claude-test-1"],"max_tokens":1}`, open, bad},
		{"model of the declared", simple, capped, ok},
		{"another model", strings.Replace(simple, "claude-test-1", "claude-other-1", 1), capped, forbid},
		{"max_tokens above", strings.Replace(simple, "100", "101", 1), capped, forbid},
		{"max_tokens missing", strings.Replace(simple, `"max_tokens":100,`, "", 1), capped, forbid},
		{"max_tokens null", strings.Replace(simple, "100", "null", 1), capped, forbid},
		{"max_tokens as a power", strings.Replace(simple, "100", "1e9", 1), capped, bad},
		{"max_tokens as text", strings.Replace(simple, "100", `"100"`, 1), capped, bad},
		{"max_tokens negative", strings.Replace(simple, "100", "-1", 1), capped, bad},
		{"max_tokens beyond 64 bits", strings.Replace(simple, "100", "18446744073709551617", 1), capped, bad},
		{"max_completion_tokens above", withFields(`"max_completion_tokens":101`), capped, forbid},
		{"many answers", withFields(`"n":1000`), specs.BodyPolicy{}, bad},

		{"tool of the client", withFields(`"tools":[{"name":"Bash"},{"type":"custom","name":"x"},{"type":"bash_20250124"},{"type":"text_editor_20250728"}]`), specs.BodyPolicy{}, ok},
		{"web search", withFields(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), specs.BodyPolicy{}, forbid},
		{"web search, declared", withFields(`"tools":[{"type":"web_search_20250305","name":"web_search"}]`), open, ok},
		{"web fetch", withFields(`"tools":[{"name":"a"},{"type":"web_fetch_20250910","name":"web_fetch"}]`), open, forbid},
		{"code execution", withFields(`"tools":[{"type":"code_execution_20250825"}]`), open, forbid},
		{"a tool nobody knows yet", withFields(`"tools":[{"type":"teleport_20300101"}]`), open, forbid},
		{"a type that is no text", withFields(`"tools":[{"type":["web_search_20250305"]}]`), open, bad},
		{"toolset of an MCP server", withFields(`"tools":[{"type":"mcp_toolset","mcp_server_name":"x"}]`), specs.BodyPolicy{}, forbid},
		{"web_search_options", withFields(`"web_search_options":{}`), specs.BodyPolicy{}, forbid},
		{"schema with a source", withFields(`"tools":[{"name":"x","input_schema":{"properties":{"source":{"type":"url"}}}}]`), specs.BodyPolicy{}, ok},

		{"MCP servers", withFields(`"mcp_servers":[{"type":"url","url":"https://x","name":"x"}]`), specs.BodyPolicy{}, forbid},
		{"MCP servers, declared", withFields(`"mcp_servers":[{"type":"url","url":"https://x","name":"x"}]`), open, ok},
		{"no MCP servers", withFields(`"mcp_servers":[ ]`), specs.BodyPolicy{}, ok},
		{"MCP servers as an object", withFields(`"mcp_servers":{}`), specs.BodyPolicy{}, forbid},
		{"container", withFields(`"container":"container_1"`), specs.BodyPolicy{}, forbid},
		{"container null", withFields(`"container":null`), specs.BodyPolicy{}, ok},
		{"another's response", withFields(`"previous_response_id":"resp_1"`), specs.BodyPolicy{}, forbid},
		{"background", withFields(`"background":true`), specs.BodyPolicy{}, forbid},

		{"image", content(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`), specs.BodyPolicy{}, ok},
		{"image by URL", content(`{"type":"image","source":{"type":"url","url":"http://169.254.169.254/"}}`), specs.BodyPolicy{}, forbid},
		{"image by URL, declared", content(`{"type":"image","source":{"type":"url","url":"https://x"}}`), open, ok},
		{"image by URL, the type last", content(`{"source":{"url":"http://x","ty\u0070e":"url"},"type":"image"}`), specs.BodyPolicy{}, forbid},
		{"image by URL in a tool's result", content(`{"type":"tool_result","content":[{"type":"image","source":{"type":"url","url":"http://x"}}]}`), specs.BodyPolicy{}, forbid},
		{"document by URL in the system", withFields(`"system":[{"type":"document","source":{"type":"url","url":"http://x"}}]`), specs.BodyPolicy{}, forbid},
		{"a source nobody knows yet", content(`{"type":"image","source":{"type":"s3","uri":"s3://x"}}`), specs.BodyPolicy{}, forbid},
		{"file", content(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`), specs.BodyPolicy{}, forbid},
		{"file, declared", content(`{"type":"document","source":{"type":"file","file_id":"file_1"}}`), open, ok},
		{"upload to a container", content(`{"type":"container_upload","file_id":"file_1"}`), specs.BodyPolicy{}, forbid},
		{"what a tool was called with", content(`{"type":"tool_use","input":{"source":{"type":"url","url":"http://x"},"file_id":"f"}}`), specs.BodyPolicy{}, ok},
		{"search result with a source", content(`{"type":"search_result","source":"https://x","content":[]}`), specs.BodyPolicy{}, ok},
		{"text that looks like it", content(`{"type":"text","text":"{\"source\":{\"type\":\"url\"}}"}`), specs.BodyPolicy{}, ok},
		{"OpenAI image by URL", content(`{"type":"image_url","image_url":{"url":"https://x"}}`), specs.BodyPolicy{}, forbid},
		{"OpenAI image by URL, short", content(`{"type":"input_image","image_url":"https://x"}`), specs.BodyPolicy{}, forbid},
		{"OpenAI image", content(`{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`), specs.BodyPolicy{}, ok},
		{"OpenAI file by URL", `{"model":"m","input":[{"type":"input_file","file_url":"https://x"}]}`, specs.BodyPolicy{}, forbid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fresh, refusal := inspect([]byte(tt.body), classMessages, "", tt.policy)
			again, same := kept.inspect([]byte(tt.body), classMessages, "", &tt.policy)
			if again != fresh || !reflect.DeepEqual(same, refusal) {
				t.Errorf("after others: %+v %v, want %+v %v", again, same, fresh, refusal)
			}
			if !reflect.DeepEqual(kept, inspection{}) {
				t.Errorf("of the body is kept: %+v", kept)
			}
			got := ok
			switch {
			case refusal != nil && refusal.status == 403:
				got = forbid
			case refusal != nil && refusal.status == 400:
				got = bad
			}
			if got != tt.want {
				t.Errorf("got %v (%v), want %v: %s", got, refusal, tt.want, tt.body)
			}
		})
	}
}

// The model that a request asks for is the one allocation that looking at it takes.
func TestInspectAllocations(t *testing.T) {
	var in inspection
	p := &specs.BodyPolicy{Models: []string{"claude-test-*"}, MaxTokens: 100}
	text := []byte(content(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`))
	if n := testing.AllocsPerRun(100, func() {
		if _, bad := in.inspect(text, classMessages, "", p); bad != nil {
			t.Error(bad)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// The name of the model outlives the body, whose memory other requests get.
func TestModelOutlivesBody(t *testing.T) {
	text := []byte(simple)
	a, bad := inspect(text, classMessages, "", specs.BodyPolicy{})
	clear(text)
	if bad != nil || a.model != "claude-test-1" {
		t.Errorf("%q %v", a.model, bad)
	}
}

// What is left of a tool's type is what a regular expression leaves.
func TestUndated(t *testing.T) {
	dated := regexp.MustCompile(`_\d{8}$`)
	check := func(kind string) {
		t.Helper()
		if got, want := string(undated([]byte(kind))), dated.ReplaceAllString(kind, ""); got != want {
			t.Errorf("%q: %q, want %q", kind, got, want)
		}
	}
	for _, kind := range []string{"", "_", "bash", "bash_20250124", "_20250124", "20250124", "bash_2025012", "bash_202501240", "bash20250124", "a_20250124_20250124", "a_20250124\n", "a_２０２５０１２４"} {
		check(kind)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		kind := make([]byte, r.IntN(14))
		for i := range kind {
			kind[i] = "0123456789_a"[r.IntN(12)]
		}
		check(string(kind))
	}
}

// Refused bodies don't come to the upstream; the session learns why.
func TestPolicyAtTheProxy(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Proxy.Policy = &specs.BodyPolicy{Models: []string{"claude-test-1"}} })
	status, body := r.do(r.post(withFields(`"mcp_servers":[{"url":"https://x"}]`)))
	refused(t, status, body, 403, "permission_error")
	if !strings.Contains(body, "mcp_servers") || len(r.up.Requests()) != 0 {
		t.Errorf("%s, %d came", body, len(r.up.Requests()))
	}
	status, body = r.do(r.post(""))
	refused(t, status, body, 400, "invalid_request_error")
}

// The model of the path and that of the body, and those of a batch, are one:
// it is what the price and the budget go by.
func TestOneModel(t *testing.T) {
	for _, tt := range []struct {
		name, body, path string
		class            class
		ok               bool
	}{
		{"path alone", `{"max_tokens":1}`, "m", classMessages, true},
		{"the same in both", `{"model":"m","max_tokens":1}`, "m", classMessages, true},
		{"different", `{"model":"dear","max_tokens":1}`, "m", classMessages, false},
		{"two in a batch", `{"requests":[{"params":{"model":"m","max_tokens":1}},{"params":{"model":"dear","max_tokens":1}}]}`, "", classBatches, false},
	} {
		if a, bad := inspect([]byte(tt.body), tt.class, tt.path, specs.BodyPolicy{}); (bad == nil) != tt.ok || tt.ok && a.model != "m" {
			t.Errorf("%s: %+v %v", tt.name, a, bad)
		}
	}
}

func TestBatches(t *testing.T) {
	declared := specs.BodyPolicy{Models: []string{"m"}, MaxTokens: 10, Batches: true}
	one := func(params string) string { return `{"custom_id":"1","params":` + params + `}` }
	good := one(`{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"x"}]}`)
	for _, tt := range []struct {
		name, body string
		ok         bool
	}{
		{"two", good + "," + good, true},
		{"one without a model", good + "," + one(`{"max_tokens":10}`), false},
		{"one without a bound", good + "," + one(`{"model":"m"}`), false},
		{"one above", good + "," + one(`{"model":"m","max_tokens":11}`), false},
		{"one with a server's tool", good + "," + one(`{"model":"m","max_tokens":1,"tools":[{"type":"web_fetch_20250910"}]}`), false},
		{"one with another bound", good + "," + one(`{"model":"m","max_completion_tokens":1,"max_output_tokens":1}`) + "," + one(`{"model":"m"}`), false},
	} {
		a, bad := inspect([]byte(`{"requests":[`+tt.body+`]}`), classBatches, "", declared)
		if (bad == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, bad)
		}
		if tt.ok && (a.requests != 2 || a.output != 20) {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
}

// What is reserved is no less than what the upstream will count.
func TestEstimate(t *testing.T) {
	image := content(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + strings.Repeat("A", 1<<20) + `"}}`)
	pdf := content(`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + strings.Repeat("A", 20<<10) + `"}}`)
	text := content(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"` + strings.Repeat("a ", 50_000) + `"}}`)
	posing := strings.Replace(text, "text/plain", "image/png", 1)
	inline := content(`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}}`)
	for _, tt := range []struct {
		name, body string
		min, max   int64
	}{
		{"text in a source", text, 100_000, 101_000},
		{"text that says it is an image", posing, 100_000, 101_000},
		{"image of the other API", inline, imageTokens, imageTokens + 1000},
		{"text", simple, int64(len(simple)), int64(len(simple))},
		{"image", image, imageTokens, imageTokens + 1000},
		{"document", pdf, 20 << 10, 20<<10 + imageTokens + 1000},
	} {
		a, bad := inspect([]byte(tt.body), classMessages, "", specs.BodyPolicy{})
		if bad != nil || a.input < tt.min || a.input > tt.max || a.output != 100 {
			t.Errorf("%s: %+v %v", tt.name, a, bad)
		}
	}
}

// What is let through names one allowed model as encoding/json reads it, and
// reserves something.
func FuzzInspect(f *testing.F) {
	f.Add([]byte(simple))
	f.Add([]byte(withFields(`"mcp_servers":[]`)))
	f.Add([]byte(content(`{"type":"image","source":{"type":"base64","data":"AA"}}`)))
	f.Add([]byte(`{"model":"m","Model":"x","max_tokens":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, bad := inspect(text, classMessages, "", specs.BodyPolicy{Models: []string{"claude-test-1"}, MaxTokens: 100})
		if bad != nil {
			return
		}
		var got map[string]json.RawMessage // its names are compared exactly
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("accepted %q: %v", text, err)
		}
		var model string
		if json.Unmarshal(got["model"], &model) != nil || model != "claude-test-1" || a.model != model {
			t.Errorf("accepted the model %s", got["model"])
		}
		if len(got["mcp_servers"]) > 0 && string(got["mcp_servers"]) != "null" && got["mcp_servers"][0] != '[' {
			t.Errorf("accepted %s", got["mcp_servers"])
		}
		if a.input < 0 || a.output < 0 || a.requests != 1 {
			t.Errorf("%+v for %q", a, text)
		}
	})
}
