package loop

import (
	"math/rand/v2"
	"time"

	"github.com/aicodesit/cordon/reconciler"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute

	// A resource that had to be repaired this often within the window is fought
	// over, until it has stayed as it is for as long.
	fightAfter  = 5
	fightWindow = 10 * time.Minute
	firstTruce  = time.Second

	// settle is how long what comes and goes with sessions is left to those who
	// run them, after the last that came or went; at most longSettle. Many that
	// start at once don't wait for the loop again and again.
	settle     = 300 * time.Millisecond
	longSettle = 5 * time.Second
)

// backoff is how long to wait after n failures, one after the other.
func backoff(n int) time.Duration { return jitter(doubled(firstRetry, n), 20) }

// doubled is d for n = 1, 2*d for 2 and so on, up to lastRetry.
func doubled(d time.Duration, n int) time.Duration {
	for ; n > 1 && d < lastRetry; n-- {
		d *= 2
	}
	return min(d, lastRetry)
}

// jitter is d give or take some percent.
func jitter(d time.Duration, percent int64) time.Duration {
	span := int64(d) / 100 * percent
	return d - time.Duration(span) + time.Duration(rand.Int64N(2*span+1))
}

// track is what is known of a resource that differs, or did of late.
type track struct {
	seen     time.Time // since when the change has been planned; zero: it is as desired
	drift    bool      // it had been as desired, at this revision
	told     bool      // that it drifted
	settling bool      // sessions come or go: it is left alone for a moment

	why   string    // it is not to be changed now; "": it is
	until time.Time // when that is over; zero: not by time alone

	failures int       // one after the other
	retry    time.Time // after the last
	err      string    // of the last; "": none, or it waits for another
	waits    string    // for what it waited in vain

	unsure  bool // it was changed, and not seen as desired since
	repairs []time.Time
	fight   *Fight
}

// forgive lets everything be tried at once: the specs are others.
func (t *track) forgive() {
	t.failures, t.retry, t.err, t.repairs = 0, time.Time{}, "", nil
	t.unsure, t.drift, t.told = false, false, false
	t.seen = time.Time{}
}

// made counts a repair, and tells whether a fight begins with it.
func (t *track) made(addr reconciler.Addr, now time.Time) (fights bool) {
	repair := t.drift || t.unsure
	t.failures, t.retry, t.err, t.waits = 0, time.Time{}, "", ""
	t.seen, t.unsure = time.Time{}, true
	if !repair {
		return false
	}
	t.prune(now)
	t.repairs = append(t.repairs, now)
	if t.fight == nil {
		if len(t.repairs) < fightAfter {
			return false
		}
		t.fight = &Fight{Addr: addr, Since: now}
		fights = true
	}
	t.fight.Repairs++
	t.fight.Next = now.Add(jitter(doubled(firstTruce, t.fight.Repairs), 10))
	return fights
}

// prune forgets repairs that are long past.
func (t *track) prune(now time.Time) {
	for len(t.repairs) > 0 && now.Sub(t.repairs[0]) > fightWindow {
		t.repairs = t.repairs[1:]
	}
}

// clean notes that the resource is as desired, and tells whether a fight ended
// and whether the track may be forgotten.
func (t *track) clean(now time.Time) (peace, done bool) {
	t.prune(now)
	peace = t.fight != nil && len(t.repairs) == 0
	if peace {
		t.fight = nil
	}
	*t = track{repairs: t.repairs, fight: t.fight}
	return peace, len(t.repairs) == 0
}

// failed notes that the change could not be made.
func (t *track) failed(err error, now time.Time) (news bool) {
	news = t.err != err.Error()
	t.failures++
	t.err, t.waits, t.retry = err.Error(), "", now.Add(backoff(t.failures))
	t.until = t.retry
	return news
}
