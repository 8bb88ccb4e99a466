package gitgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aicodesit/cordon/specs"
)

// The API of Git LFS: docs/api/batch.md and basic-transfers.md of its sources.
const (
	lfsType      = "application/vnd.git-lfs+json"
	maxBatch     = 1 << 20   // a batch or its answer, in bytes
	maxHref      = 16 << 10  // an action's address, in bytes
	maxVerify    = 64 << 10  // the body of a verification, in bytes
	sealedPrefix = "sealed/" // below info/lfs/
)

func lfsMessage(text string) string {
	b, err := json.Marshal(map[string]string{"message": text})
	if err != nil { // no string has any
		return "{}"
	}
	return string(b)
}

// lfs answers what is asked for below info/lfs/.
func (v *visit) lfs(what, query string) *refusal {
	segment, isSealed := strings.CutPrefix(what, sealedPrefix)
	switch {
	case query != "" && what != "locks":
	case what == "objects/batch" && v.r.Method == http.MethodPost:
		return v.batch()
	case isSealed:
		return v.transfer(segment)
	case what == "locks" || strings.HasPrefix(what, "locks/"):
		return v.locks(what, query)
	}
	return &refusal{http.StatusNotFound, "path", "there is nothing here but the batch API of Git LFS"}
}

// batch is a request of the batch API; what else one may hold is left out.
type batch struct {
	Operation string   `json:"operation"`
	Transfers []string `json:"transfers"`
	Objects   []object `json:"objects"`
	HashAlgo  string   `json:"hash_algo,omitempty"`
	Ref       *ref     `json:"ref,omitempty"`
}

type ref struct {
	Name string `json:"name"`
}

type object struct {
	OID     string          `json:"oid"`
	Size    int64           `json:"size"`
	Actions map[string]link `json:"actions,omitempty"`
	Error   *lfsError       `json:"error,omitempty"`
}

type link struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header,omitempty"`
}

type lfsError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// batched is the answer.
type batched struct {
	Transfer string   `json:"transfer,omitempty"`
	Objects  []object `json:"objects"`
}

var plainHost = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.:-]{1,255}$`) })

var lfsOID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

func (v *visit) batch() *refusal {
	var b batch
	if err := decode(&patient{v: v, from: v.r.Body}, &b); err != nil {
		return &refusal{http.StatusUnprocessableEntity, "malformed", "not a batch: " + err.Error()}
	}
	switch {
	case b.Operation == "upload" && len(v.git.Push) == 0:
		return &refusal{http.StatusForbidden, "push", "this session may fetch, and not push"}
	case b.Operation != "upload" && b.Operation != "download":
		return &refusal{http.StatusUnprocessableEntity, "malformed", "the operation is neither upload nor download"}
	}
	for i, o := range b.Objects {
		if !lfsOID().MatchString(o.OID) || o.Size < 0 {
			return &refusal{http.StatusUnprocessableEntity, "malformed", "an object must have a SHA-256 and a size"}
		}
		b.Objects[i] = object{OID: o.OID, Size: o.Size}
	}
	b.Transfers = []string{"basic"}
	var got batched
	return v.exchange("/info/lfs/objects/batch", &b, &got, func() *refusal { return v.sealBatch(&got, b) })
}

// sealBatch makes the answer to asked one that leads through the gate.
func (v *visit) sealBatch(got *batched, asked batch) *refusal {
	if got.Transfer != "" && got.Transfer != "basic" {
		return &refusal{http.StatusBadGateway, "upstream", "what answers is not a host of Git LFS's basic transfers"}
	}
	for i, o := range got.Objects {
		if !slices.ContainsFunc(asked.Objects, func(a object) bool { return a.OID == o.OID }) {
			return &refusal{http.StatusBadGateway, "upstream", "the host answers about an object that was not asked for"}
		}
		if bad := v.sealAll(&got.Objects[i], asked.Operation); bad != nil {
			return bad
		}
	}
	return nil
}

// exchange asks the host with the JSON of question, or without a body for nil,
// reads what it answers into answer, and passes on what change leaves of that.
func (v *visit) exchange(service string, question, answer any, change func() *refusal) *refusal {
	var body io.Reader
	var length int64
	if question != nil {
		text, err := json.Marshal(question)
		if err != nil {
			return &refusal{http.StatusUnprocessableEntity, "malformed", "what is asked can't be passed on"}
		}
		body, length = bytes.NewReader(text), int64(len(text))
	}
	out := v.request(service, body, length)
	out.Header.Set("Content-Type", lfsType)
	out.Header.Set("Accept", lfsType)
	secrets, bad := v.login(out)
	if bad != nil {
		return bad
	}
	resp, bad := v.ask(out)
	if bad != nil {
		return bad
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return v.failed(resp.StatusCode)
	}
	if err := decode(resp.Body, answer); err != nil {
		return &refusal{http.StatusBadGateway, "upstream", "what answers is not a host of Git LFS"}
	}
	if bad := change(); bad != nil {
		return bad
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return &refusal{http.StatusBadGateway, "upstream", "the host's answer can't be passed on"}
	}
	v.report(http.StatusOK, "")
	v.w.Header().Set("Content-Type", lfsType)
	m := newMask(v.w, escaped(secrets))
	if _, err := m.Write(text); err != nil || m.flush() != nil {
		v.abort(http.StatusOK)
	}
	return nil
}

// escaped adds to secrets how they stand in JSON.
func escaped(secrets []string) []string {
	for _, s := range slices.Clone(secrets) {
		if text, err := json.Marshal(s); err == nil {
			secrets = append(secrets, string(text[1:len(text)-1]))
		}
	}
	return secrets
}

// sealAll puts the gate in the place of where an object is transferred with.
func (v *visit) sealAll(o *object, operation string) *refusal {
	if o.Error != nil { // the host's words are its own
		o.Error.Message = "the host answers: " + strings.ToLower(http.StatusText(o.Error.Code))
	}
	links := map[string]link{}
	for kind, l := range o.Actions {
		if kind != operation && (operation != "upload" || kind != "verify") {
			continue
		}
		if !v.mayLead(l.Href) {
			v.Log.Warn("an object of Git LFS is on a host that is not declared", "project", v.caller.Project, "host", hostOf(l.Href))
			return &refusal{http.StatusForbidden, "host", "the objects are on " + hostOf(l.Href) + ", which is not among the project's lfs_hosts"}
		}
		segment, err := v.sealed(action{Kind: kind, Href: l.Href, Header: l.Header, Size: o.Size}, v.caller)
		if err != nil {
			return &refusal{http.StatusBadGateway, "upstream", "the host's answer can't be passed on"}
		}
		links[kind] = link{Href: "http://" + v.r.Host + specs.GitPrefix + v.host + v.path + "/info/lfs/" + sealedPrefix + segment}
	}
	o.Actions = links
	return nil
}

// mayLead tells whether objects may be transferred with an address.
func (v *visit) mayLead(href string) bool {
	u, err := url.Parse(href)
	if err != nil || len(href) > maxHref || u.Scheme != "https" || u.User != nil || u.Host == "" {
		return false
	}
	return u.Host == v.host || slices.Contains(v.git.LFSHosts, strings.TrimSuffix(u.Host, ":443"))
}

// hostOf names a host for a message, if it has a plain name.
func hostOf(href string) string {
	u, err := url.Parse(href)
	if err != nil || !plainHost().MatchString(u.Host) {
		return "another host"
	}
	return u.Scheme + "://" + u.Host
}

// transfer does what a sealed action says.
func (v *visit) transfer(segment string) *refusal {
	a, err := v.unsealed(segment, v.caller)
	if err != nil {
		return &refusal{http.StatusForbidden, "token", err.Error()}
	}
	method := map[string]string{"download": http.MethodGet, "upload": http.MethodPut, "verify": http.MethodPost}[a.Kind]
	if v.r.Method != method || !v.mayLead(a.Href) || a.Kind != "download" && len(v.git.Push) == 0 {
		return &refusal{http.StatusForbidden, "path", "this is not what the action is for"}
	}
	switch {
	case a.Kind == "upload" && v.r.ContentLength != a.Size:
		return &refusal{http.StatusUnprocessableEntity, "size", fmt.Sprintf("the object must be sent whole, with its length, %d bytes", a.Size)}
	case a.Kind == "verify" && (v.r.ContentLength < 0 || v.r.ContentLength > maxVerify):
		return &refusal{http.StatusRequestEntityTooLarge, "size", "a verification is not that long"}
	}
	return v.carry(a)
}

func (v *visit) carry(a action) *refusal {
	var body io.Reader
	if a.Kind != "download" {
		body = v.r.Body
	}
	out := v.request("", body, v.r.ContentLength)
	target, err := url.Parse(a.Href)
	if err != nil {
		return &refusal{http.StatusBadGateway, "upstream", "the host's answer can't be passed on"}
	}
	out.URL, out.Host = target, target.Host
	if ranges := v.r.Header["Range"]; len(ranges) == 1 && a.Kind == "download" {
		out.Header["Range"] = ranges
	}
	var secrets []string
	if target.Host == v.host {
		var bad *refusal
		if secrets, bad = v.login(out); bad != nil {
			return bad
		}
	}
	for name, value := range a.Header {
		name = http.CanonicalHeaderKey(name)
		if !slices.Contains([]string{"Connection", "Content-Length", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}, name) {
			out.Header[name] = []string{value} // also another Authorization than ours
		}
		if name == "Authorization" {
			secrets = append(secrets, value)
		}
	}
	return v.passObject(out, secrets)
}

func (v *visit) passObject(out *http.Request, secrets []string) *refusal {
	resp, bad := v.ask(out)
	if bad != nil {
		return bad
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return v.failed(resp.StatusCode)
	}
	h := v.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	if values := resp.Header["Content-Range"]; len(values) == 1 {
		h["Content-Range"] = values
	}
	if resp.ContentLength >= 0 {
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	v.pass(resp, secrets)
	return nil
}

// decode reads one JSON value of bounded length.
func decode(from io.Reader, into any) error {
	b, err := io.ReadAll(io.LimitReader(from, maxBatch+1))
	switch {
	case err != nil:
		return errors.New("it broke off")
	case len(b) > maxBatch:
		return fmt.Errorf("it has more than %d bytes", maxBatch)
	case json.Unmarshal(b, into) != nil:
		return errors.New("it is not in its form")
	}
	return nil
}
