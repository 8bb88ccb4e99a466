package source

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxHookBody = 1 << 20 // bytes; nothing of it is used but its signature
	hookBurst   = 10      // calls at once
	hookRefill  = time.Second
)

// Hook is the handler of POST /hook: a git server's word that there may be
// something new. It only wakes the poll; nothing of the message is believed.
type Hook struct {
	secret func() (string, error)
	wake   func()
	log    *slog.Logger
	now    func() time.Time

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

// NewHook returns a Hook. The secret is read at each call; an empty one lets
// nobody in.
func NewHook(secret func() (string, error), wake func(), log *slog.Logger) *Hook {
	return &Hook{secret: secret, wake: wake, log: log, now: time.Now, tokens: hookBurst}
}

func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	if !h.take() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many calls", http.StatusTooManyRequests)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHookBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the body can't be read", status)
		return
	}
	secret, err := h.secret()
	if err != nil {
		h.log.Error("webhook: its secret can't be read", "error", err)
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	if !authentic(r.Header, body, secret) {
		h.log.Warn("webhook: refused, the signature is missing or wrong", "from", r.RemoteAddr)
		http.Error(w, "the signature is missing or wrong", http.StatusForbidden)
		return
	}
	h.wake()
	w.WriteHeader(http.StatusAccepted)
}

// take is a token bucket for all callers together: who has no secret can't
// make the host compute, and who has it can't make it poll all the time.
func (h *Hook) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if !h.at.IsZero() {
		h.tokens = min(hookBurst, h.tokens+now.Sub(h.at).Seconds()/hookRefill.Seconds())
	}
	h.at = now
	if h.tokens < 1 {
		return false
	}
	h.tokens--
	return true
}

// authentic tells whether who sent the body knows the secret: GitHub and those
// that follow it send "sha256=" and an HMAC in X-Hub-Signature-256, Gitea the
// bare HMAC in X-Gitea-Signature, GitLab the secret itself in X-Gitlab-Token.
// The first that is there decides, so that none can stand in for another.
func authentic(header http.Header, body []byte, secret string) bool {
	if secret == "" {
		return false
	}
	if v := header.Get("X-Hub-Signature-256"); v != "" {
		sum, ok := strings.CutPrefix(v, "sha256=")
		return ok && signed(sum, body, secret)
	}
	if v := header.Get("X-Gitea-Signature"); v != "" {
		return signed(v, body, secret)
	}
	// Equal lengths are compared, so that the time tells nothing.
	got, want := sha256.Sum256([]byte(header.Get("X-Gitlab-Token"))), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func signed(sum string, body []byte, secret string) bool {
	got, err := hex.DecodeString(sum)
	if err != nil {
		return false
	}
	m := hmac.New(sha256.New, []byte(secret))
	_, _ = m.Write(body)
	return hmac.Equal(got, m.Sum(nil))
}
