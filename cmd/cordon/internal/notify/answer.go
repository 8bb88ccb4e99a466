package notify

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// judge tells from an answer whether the message was taken; if not, how long
// to wait before it is sent again, at least: a negative time means never.
func judge(resp *http.Response) (took bool, after time.Duration, err error) {
	code, header := resp.StatusCode, resp.Header
	err = fmt.Errorf("it answered %d", code)
	switch {
	case code >= 200 && code < 300:
		return true, 0, nil
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500, limited(resp):
		return false, max(retryAfter(header.Get("Retry-After")), reset(header)), err
	case code >= 300 && code < 400:
		return false, -1, fmt.Errorf("it answered %d: redirects are not followed, name the address that it leads to", code)
	}
	return false, -1, err
}

// limited tells GitHub's other way to say that it was asked too often.
func limited(resp *http.Response) bool {
	return resp.StatusCode == http.StatusForbidden && (resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-RateLimit-Remaining") == "0")
}

// reset is how long GitHub takes no more requests.
func reset(header http.Header) time.Duration {
	at, err := strconv.ParseInt(header.Get("X-RateLimit-Reset"), 10, 64)
	if err != nil || header.Get("X-RateLimit-Remaining") != "0" {
		return 0
	}
	return believable(time.Until(time.Unix(at, 0)))
}

// retryAfter is how long to wait, as HTTP has it: seconds or a date.
func retryAfter(s string) time.Duration {
	if n, err := strconv.Atoi(s); err == nil {
		return believable(time.Duration(min(n, int(longestAsk/time.Second))) * time.Second)
	}
	if t, err := http.ParseTime(s); err == nil {
		return believable(time.Until(t))
	}
	return 0
}

func believable(d time.Duration) time.Duration { return max(0, min(d, longestAsk)) }
