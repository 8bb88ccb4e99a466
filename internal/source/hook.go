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

	called, failed bucket // calls by who knows the secret, and by others
}

// NewHook returns a Hook. The secret is read at each call; an empty one lets
// nobody in.
func NewHook(secret func() (string, error), wake func(), log *slog.Logger) *Hook {
	return &Hook{secret: secret, wake: wake, log: log, now: time.Now}
}

func (h *Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
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
		if h.failed.take(h.now()) { // who calls is not known
			h.log.Error("webhook: its secret can't be read", "error", err)
		}
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	known := authentic(r.Header, body, secret)
	limit := &h.failed
	if known {
		limit = &h.called
	}
	if !limit.take(h.now()) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many calls", http.StatusTooManyRequests)
		return
	}
	if !known {
		h.log.Warn("webhook: refused, the signature is missing or wrong", "from", r.RemoteAddr)
		http.Error(w, "the signature is missing or wrong", http.StatusForbidden)
		return
	}
	h.wake()
	w.WriteHeader(http.StatusAccepted)
}

// bucket bounds how often something happens. Who knows the secret can't make the
// host poll all the time; who does not fills no log, and takes nothing of what the
// others may. The zero bucket is full.
type bucket struct {
	mu    sync.Mutex
	taken float64
	at    time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = max(0, b.taken-now.Sub(b.at).Seconds()/hookRefill.Seconds())
	b.at = now
	if b.taken > hookBurst-1 {
		return false
	}
	b.taken++
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
