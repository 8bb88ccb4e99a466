package proxy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aicodesit/cordon/internal/leanhttp"
	"github.com/aicodesit/cordon/internal/llmtest"
	"github.com/aicodesit/cordon/specs"
)

// Only the declared host with a certificate that is trusted gets the key.
func TestCertificate(t *testing.T) {
	var came atomic.Int32
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		_, _ = io.WriteString(w, r.Proto)
	}))
	defer up.Close()
	up.Config.ErrorLog = log.New(io.Discard, "", 0)
	trusting := &leanhttp.Transport{TLS: up.Client().Transport.(*http.Transport).TLSClientConfig}
	_, port, _ := strings.Cut(strings.TrimPrefix(up.URL, "https://"), ":")
	for _, tt := range []struct {
		name, url string
		transport *leanhttp.Transport
		status    int
	}{
		{"trusted", up.URL, trusting, 200},
		{"not trusted", up.URL, &leanhttp.Transport{}, 502},
		{"another name", "https://localhost:" + port, trusting, 502},
	} {
		before := came.Load()
		r := newRig(t, func(o *Options) { o.Proxy.Upstream, o.Transport = tt.url, tt.transport })
		status, body := r.do(r.post(simple))
		if status != tt.status || (came.Load() != before) != (status == 200) {
			t.Errorf("%s: %d %s, %d came", tt.name, status, body, came.Load()-before)
		}
		if status == 200 && body != "HTTP/1.1" {
			t.Errorf("%s: spoken to in %s", tt.name, body)
		}
	}
}

// The credential is read for each request, and its absence is no request.
func TestCredentialAtTheMomentOfUse(t *testing.T) {
	value, failure := realKey, error(nil)
	r := newRig(t, func(o *Options) {
		o.Secret = func(name string) (string, error) {
			if name != "anthropic" {
				t.Errorf("asked for %s", name)
			}
			return value, failure
		}
	})
	for _, v := range []string{"first", "second"} {
		value, r.up.Key = v, v
		if status, body := r.do(r.post(simple)); status != 200 {
			t.Errorf("%s: %d %s", v, status, body)
		}
	}
	for _, v := range []string{"a\r\nX-Other: b", "a\x00", "é"} {
		value = v
		status, body := r.do(r.post(simple))
		refused(t, status, body, 502, "api_error")
	}
	failure = errors.New("open /etc/cordon/secret: permission denied")
	status, body := r.do(r.post(simple))
	refused(t, status, body, 502, "api_error")
	if strings.Contains(body, "/etc/cordon") || len(r.up.Requests()) != 2 {
		t.Errorf("%s; %d came", body, len(r.up.Requests()))
	}
}

func TestInjectsABearer(t *testing.T) {
	for value, want := range map[string]string{"abc": "Bearer abc", "Basic abc": "Basic abc"} {
		r := newRig(t, func(o *Options) {
			o.Proxy.Inject = map[string]string{"authorization": "x"}
			o.Secret = func(string) (string, error) { return value, nil }
		})
		r.up.Key = ""
		if status, body := r.do(r.post(simple)); status != 200 {
			t.Fatal(status, body)
		}
		if got := r.up.Requests()[0].Header; got.Get("Authorization") != want || got["X-Api-Key"] != nil {
			t.Errorf("%v", got)
		}
	}
}

func TestBasePath(t *testing.T) {
	r := newRig(t, nil)
	behind := newRig(t, func(o *Options) { o.Proxy.Upstream = r.upURL + "/team%2Fa/api/" })
	if status, body := behind.do(behind.post(simple)); status != 200 {
		t.Fatal(status, body)
	}
	if got := r.up.Requests()[0].URI; got != "/team%2Fa/api/v1/messages?beta=true" {
		t.Error(got)
	}
}

func TestFailover(t *testing.T) {
	second := &llmtest.Upstream{Key: "second-key"}
	standby := httptest.NewServer(second)
	defer standby.Close()
	var forgotten []string
	r := newRig(t, func(o *Options) {
		o.Proxy.Upstreams = []specs.Upstream{{Name: "standby", Kind: specs.UpstreamAnthropic, URL: standby.URL, Inject: map[string]string{"x-api-key": "second"}}}
		o.Secret = func(name string) (string, error) {
			return map[string]string{"anthropic": realKey, "second": "second-key"}[name], nil
		}
		o.Forget = func(name string) { forgotten = append(forgotten, name) }
	})
	wellAgain := func() {
		for _, up := range r.server.routes[0].upstreams {
			up.failed.Store(0)
		}
	}
	both := func() [2]int { return [2]int{len(r.up.Requests()), len(second.Requests())} }
	step := func(what string, body string, status int, want [2]int) {
		t.Helper()
		if got, text := r.do(r.post(body)); got != status || both() != want {
			t.Errorf("%s: %d %s; requests %v, want %v", what, got, text, both(), want)
		}
	}
	step("well", simple, 200, [2]int{1, 0})
	for i, status := range []int{429, 500, 502, 503, 504, 529} {
		wellAgain()
		r.up.Reply = func(llmtest.Request) llmtest.Reply { return llmtest.Reply{Status: status} }
		step(fmt.Sprint(status), streamed, 200, [2]int{2 + i, 1 + i})
	}
	step("the one that failed a moment ago rests", simple, 200, [2]int{7, 7})
	wellAgain()
	r.up.Reply = func(llmtest.Request) llmtest.Reply { return llmtest.Reply{Status: 400} }
	step("a request that is wrong is so everywhere", simple, 400, [2]int{8, 7})
	r.up.Reply, r.up.Key = nil, "changed"
	step("a credential that is refused", simple, 200, [2]int{9, 8})
	if !slices.Equal(forgotten, []string{"anthropic"}) {
		t.Errorf("forgotten: %v", forgotten)
	}
	if got := second.Requests()[0]; string(got.Body) != streamed || got.Header.Get("X-Api-Key") != "second-key" {
		t.Errorf("the other got %s %v", got.Body, got.Header)
	}
	wellAgain()
	second.Reply = func(llmtest.Request) llmtest.Reply { return llmtest.Reply{Status: 529} }
	step("none is well: the last one's answer", simple, 529, [2]int{10, 9})
}

func TestFailoverFromOneThatIsGone(t *testing.T) {
	r := newRig(t, nil)
	gone := httptest.NewServer(nil)
	gone.Close()
	before := newRig(t, func(o *Options) {
		o.Proxy.Upstream = gone.URL
		o.Proxy.Upstreams = []specs.Upstream{{Name: "standby", Kind: specs.UpstreamAnthropic, URL: r.upURL, Inject: map[string]string{"x-api-key": "a"}}}
	})
	if status, body := before.do(before.post(simple)); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	alone := newRig(t, func(o *Options) { o.Proxy.Upstream = gone.URL })
	status, body := alone.do(alone.post(simple))
	refused(t, status, body, 502, "api_error")
	if strings.Contains(body, gone.URL) {
		t.Errorf("it tells where: %s", body)
	}
}

// Each kind has its own paths and signs in its own way.
func TestBedrock(t *testing.T) {
	const credential = `{"Version":1,"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY","SessionToken":"session-token"}`
	var problem string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		problem = verifyAWS(r, body, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
		if r.Header.Get("X-Amz-Security-Token") != "session-token" {
			problem += " no session token"
		}
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = io.WriteString(w, frame(dataOf(startEvent))+frame(dataOf(lastEvent)))
	}))
	defer up.Close()
	r := newRig(t, func(o *Options) {
		o.Proxy.Upstream = ""
		o.Proxy.Policy = &specs.BodyPolicy{Models: []string{"anthropic.claude-*"}}
		o.Proxy.Upstreams = []specs.Upstream{{Name: "aws", Kind: specs.UpstreamBedrock, URL: up.URL, Region: "eu-central-1", Credential: "aws"}}
		o.Secret = func(string) (string, error) { return credential, nil }
	})
	ask := func(model string) (int, string) {
		req := r.post(`{"anthropic_version":"bedrock-2023-05-31","max_tokens":10,"messages":[]}`, "X-Amz-Date", "20200101T000000Z", "X-Amz-Security-Token", "stolen")
		req.URL.RawPath, req.URL.RawQuery = "/model/"+model+"/invoke-with-response-stream", ""
		req.URL.Path = strings.ReplaceAll(req.URL.RawPath, "%3A", ":")
		req.Header.Del("X-Api-Key")
		req.Header.Set("Authorization", "Bearer "+r.token)
		return r.do(req)
	}
	status, body := ask("anthropic.claude-3%3A0")
	if status != 200 || problem != "" || !strings.Contains(body, ":event-type") {
		t.Errorf("%d %s: %s", status, body, problem)
	}
	eventually(t, "the usage is read", func() bool { return strings.Contains(r.audit.String(), `"output_tokens":42`) })
	status, body = ask("meta.llama")
	refused(t, status, body, 403, "permission_error")
}

// What goes out of a query is what was signed, whatever the client makes of it.
func TestBedrockSignsTheQuery(t *testing.T) {
	var problem, target string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		problem, target = verifyAWS(r, body, "wJalrXUtnFEMI"), r.RequestURI
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	defer up.Close()
	r := newRig(t, func(o *Options) {
		o.Proxy.Upstream = ""
		o.Proxy.Upstreams = []specs.Upstream{{Name: "aws", Kind: specs.UpstreamBedrock, URL: up.URL + "/base", Region: "eu-central-1", Credential: "aws"}}
		o.Secret = func(string) (string, error) {
			return `{"Version":1,"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"wJalrXUtnFEMI"}`, nil
		}
	})
	for query, want := range map[string]string{
		"": "", "?": "?", "?beta=true": "?beta=true", "?b=2&a=1": "?a=1&b=2", "?a=b+c": "?a=b%20c", "?flag": "?flag=", "?a=%2f": "?a=%2F",
		"?a=1#c": "?a=1%23c", "?a=1;b=2": "", "?a=%zz": "", // what is no query is neither signed nor sent
	} {
		problem, target = "did not come", ""
		body := `{"anthropic_version":"bedrock-2023-05-31","max_tokens":10,"messages":[]}`
		status, _ := r.raw("POST /model/anthropic.claude-3%3A0/invoke" + query + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + r.token +
			fmt.Sprintf("\r\nX-Stainless-A: 1\r\nX-Stainless-A: 2\r\nContent-Length: %d\r\n\r\n", len(body)) + body)
		if status != 200 || problem != "" || target != "/base/model/anthropic.claude-3%3A0/invoke"+want {
			t.Errorf("%q: %d, sent is %q: %s", query, status, target, problem)
		}
	}
}

// A port that goes without saying is not said: AWS's signer leaves it out.
func TestOrigin(t *testing.T) {
	for url, want := range map[string]leanhttp.Origin{
		"https://a.example":          {Scheme: "https", Host: "a.example"},
		"https://a.example:443/b":    {Scheme: "https", Host: "a.example"},
		"https://a.example:80":       {Scheme: "https", Host: "a.example:80"},
		"https://a.example:4430":     {Scheme: "https", Host: "a.example:4430"},
		"https://a.example:":         {Scheme: "https", Host: "a.example"},
		"https://[2001:db8::443]":    {Scheme: "https", Host: "[2001:db8::443]"},
		"https://[2001:db8::1]:443/": {Scheme: "https", Host: "[2001:db8::1]"},
		"http://127.0.0.1:80":        {Scheme: "http", Host: "127.0.0.1"},
		"http://127.0.0.1:443":       {Scheme: "http", Host: "127.0.0.1:443"},
	} {
		up, err := newUpstream(specs.Upstream{Name: "a", Kind: specs.UpstreamAnthropic, URL: url}, Options{})
		if err != nil || up.origin != want {
			t.Errorf("%s: %+v %v, want %+v", url, up, err, want)
		}
	}
}

// verifyAWS signs the request that came once more, after the description of
// Signature Version 4 in AWS's documentation, and compares.
func verifyAWS(r *http.Request, body []byte, secret string) string {
	auth := r.Header.Get("Authorization")
	var scope, names, signature string
	for _, part := range strings.Split(strings.TrimPrefix(auth, "AWS4-HMAC-SHA256 "), ", ") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "Credential":
			_, scope, _ = strings.Cut(value, "/")
		case "SignedHeaders":
			names = value
		case "Signature":
			signature = value
		}
	}
	var headers strings.Builder
	for _, name := range strings.Split(names, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	path := strings.ReplaceAll(r.URL.EscapedPath(), "%", "%25") // escaped twice, but for S3
	sum := sha256.Sum256(body)
	canonical := strings.Join([]string{r.Method, path, r.URL.RawQuery, headers.String(), names, hex.EncodeToString(sum[:])}, "\n")
	sum = sha256.Sum256([]byte(canonical))
	toSign := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(sum[:])
	key := []byte("AWS4" + secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	if want := hex.EncodeToString(mac(key, toSign)); want != signature {
		return fmt.Sprintf("signature %s, want %s of\n%s", signature, want, canonical)
	}
	if !strings.HasSuffix(scope, "/eu-central-1/bedrock/aws4_request") || !strings.Contains(names, "host") {
		return "scope " + scope
	}
	return ""
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func TestVertex(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	broken := false
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		if broken || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || strings.Count(form.Get("assertion"), ".") != 2 {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"ya29.token","token_type":"Bearer","expires_in":3600}`)
	}))
	defer tokens.Close()
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b", "private_key": string(key), "token_uri": tokens.URL})
	if err != nil {
		t.Fatal(err)
	}
	secret := string(account)
	var got []string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization")+" "+r.RequestURI)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"input_tokens":1,"output_tokens":2}}`)
	}))
	defer up.Close()
	r := newRig(t, func(o *Options) {
		o.Proxy.Upstream = ""
		o.Proxy.Upstreams = []specs.Upstream{{Name: "google", Kind: specs.UpstreamVertex, URL: up.URL, Credential: "sa"}}
		o.Secret = func(string) (string, error) { return secret, nil }
	})
	const path = "/v1/projects/p/locations/europe-west1/publishers/anthropic/models/claude-x@20250101:streamRawPredict"
	ask := func() (int, string) {
		req := r.post(`{"anthropic_version":"vertex-2023-10-16","max_tokens":10,"messages":[]}`)
		req.URL.Path, req.URL.RawQuery = path, ""
		return r.do(req)
	}
	for range 2 {
		if status, body := ask(); status != 200 {
			t.Fatal(status, body)
		}
	}
	if want := "Bearer ya29.token " + path; !slices.Equal(got, []string{want, want}) || asked.Load() != 1 {
		t.Errorf("%q; %d tokens were asked for", got, asked.Load())
	}
	secret, broken = strings.Replace(secret, "a@b", "c@d", 1), true
	status, body := ask()
	refused(t, status, body, 502, "api_error")
	secret = "not a key file"
	status, body = ask()
	refused(t, status, body, 502, "api_error")
	if len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestOpenAI(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Proxy.Upstreams = []specs.Upstream{{Name: "openai", Kind: specs.UpstreamOpenAI, URL: o.Proxy.Upstream, Inject: map[string]string{"authorization": "openai"}, Paths: []string{"/v1/chat/completions"}}}
	})
	req := r.post(streamed)
	req.URL.Path, req.URL.RawQuery = "/v1/chat/completions", ""
	status, body := r.do(req)
	if status != 200 || !strings.Contains(body, "data: [DONE]") {
		t.Fatal(status, body)
	}
	if got := r.up.Requests()[0].Header; got.Get("Authorization") != "Bearer "+realKey || got["X-Api-Key"] != nil {
		t.Errorf("%v", got)
	}
	eventually(t, "the usage is read", func() bool { return strings.Contains(r.audit.String(), `"output_tokens":2`) })
}
