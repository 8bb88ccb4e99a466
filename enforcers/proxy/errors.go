package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/aicodesit/cordon/internal/stricthttp"
)

// refusal is an answer of the proxy's own, in the shape of the API's errors.
// Statuses are those at which clients give up, where another try can't help:
// they repeat 400, 401 and 5xx, and stop at 402, 403 and 404.
type refusal struct {
	status  int
	kind    string        // the API's name for it
	reason  string        // for the audit and the metrics: one of a few words
	message string        // for the client; holds nothing secret
	retry   time.Duration // when to try again; 0 says nothing
}

func (r *refusal) Error() string { return r.message }

func forbidden(reason, message string) *refusal {
	return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: reason, message: message}
}

func malformed(message string) *refusal {
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "malformed", message: message}
}

func tooLarge(message string) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", reason: "size", message: message}
}

func tooMany(reason, message string, retry time.Duration) *refusal {
	return &refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", reason: reason, message: message, retry: retry}
}

func overloaded(message string) *refusal {
	return &refusal{status: statusOverloaded, kind: "overloaded_error", reason: "memory", message: message, retry: time.Second}
}

func badGateway(reason, message string) *refusal {
	return &refusal{status: http.StatusBadGateway, kind: "api_error", reason: reason, message: message}
}

// statusOverloaded is what the API answers when it has too much to do.
const statusOverloaded = 529

// writeText answers with the refusal as git shows it to its user.
func (r *refusal) writeText(w *stricthttp.Response) error {
	w.Add("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(r.status)
	_, err := w.Write([]byte("cordon: " + r.message + "\n"))
	return err
}

// write answers with the refusal. The API's own form is {"type":"error",…};
// what other APIs need, an "error" with a message, is in it.
func (r *refusal) write(w *stricthttp.Response) error {
	body, err := json.Marshal(map[string]any{
		"type":  "error",
		"error": map[string]any{"type": r.kind, "message": "cordon: " + r.message},
	})
	if err != nil {
		return err
	}
	w.Add("Content-Type", "application/json")
	w.Add("Content-Length", strconv.Itoa(len(body)))
	if r.retry > 0 {
		seconds := int64((r.retry + time.Second - 1) / time.Second)
		w.Add("Retry-After", strconv.FormatInt(seconds, 10))
	}
	w.WriteHeader(r.status)
	_, err = w.Write(body)
	return err
}
