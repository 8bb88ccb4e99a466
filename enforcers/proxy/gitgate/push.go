package gitgate

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// push reads the commands of a push and passes it on, if each is for a ref
// that the session may push to.
func (v *visit) push() *refusal {
	if len(v.git.Push) == 0 {
		return &refusal{http.StatusForbidden, "push", "this session may fetch, and not push"}
	}
	if bad := v.form(receivePack); bad != nil {
		return bad
	}
	var body io.Reader = &patient{v: v, from: v.r.Body}
	length := v.r.ContentLength
	if v.r.Header.Get("Content-Encoding") != "" {
		length = -1
		plain, err := gzip.NewReader(body)
		if err != nil {
			return &refusal{http.StatusBadRequest, "malformed", "the body is not in gzip's form"}
		}
		body = plain
	}
	c, err := readCommands(body)
	if err != nil {
		return &refusal{http.StatusBadRequest, "malformed", "push: " + err.Error()}
	}
	if why := v.against(c); len(why) > 0 {
		return v.reject(body, c, why)
	}
	out := v.request("/"+receivePack, io.MultiReader(bytes.NewReader(c.raw), body), length)
	return v.forward(out, "application/x-"+receivePack+"-result")
}

// against returns what is against a push, for each of its refs; nothing when
// it may go on.
func (v *visit) against(c commands) []string {
	if c.has("push-options") {
		return slices.Repeat([]string{"options of a push are not passed on"}, len(c.refs))
	}
	bad := false
	why := make([]string, len(c.refs))
	for i, ref := range c.refs {
		why[i] = "not pushed, for another ref of this push is refused"
		if !v.git.Pushes(ref) {
			bad = true
			why[i] = "not among " + strings.Join(v.git.Push, " ")
		}
	}
	if !bad {
		return nil
	}
	return why
}

// reject answers as a host does that takes no ref of the push. What the client
// still sends is read, or it would not listen.
func (v *visit) reject(rest io.Reader, c commands, why []string) *refusal {
	v.Log.Info("push refused", "session", v.caller.Session, "project", v.caller.Project, "refs", len(c.refs))
	if !c.has("report-status") && !c.has("report-status-v2") {
		return &refusal{http.StatusForbidden, "push", "pushes go to " + strings.Join(v.git.Push, " ") + " only, without options"}
	}
	if _, err := io.CopyBuffer(io.Discard, rest, make([]byte, bufferSize)); err != nil {
		return &refusal{http.StatusBadRequest, "malformed", "push: the pack broke off"}
	}
	var report []byte
	report = packet(report, "unpack ok\n")
	for i, ref := range c.refs {
		report = packet(report, fmt.Sprintf("ng %s cordon: %s\n", ref, why[i]))
	}
	report = append(report, flushPacket...)
	if c.has("side-band-64k") {
		var banded []byte
		for chunk := range slices.Chunk(report, maxPacket-5) {
			banded = packet(banded, "\x01"+string(chunk))
		}
		report = append(banded, flushPacket...)
	}
	v.report(http.StatusOK, "push")
	v.w.Header().Set("Content-Type", "application/x-"+receivePack+"-result")
	v.w.Header().Set("Cache-Control", "no-cache")
	_ = v.rc.SetWriteDeadline(time.Now().Add(patience))
	_, _ = v.w.Write(report)
	return nil
}
