package loop

import (
	"errors"
	"fmt"
	"time"
)

// Pause keeps the Loop from changing anything until p ends or Resume. It still
// looks, and shows what it would change. A pause must end by itself.
func (l *Loop) Pause(p Pause) error {
	p.Since = time.Now()
	switch {
	case p.Reason == "":
		return errors.New("a pause needs a reason, for others to read")
	case !p.Until.After(p.Since):
		return fmt.Errorf("a pause must end in the future, not at %s", p.Until.Format(time.RFC3339))
	}
	if err := l.setPaused(&p); err != nil {
		return fmt.Errorf("not paused, for it would not outlast a restart: %w", err)
	}
	l.Emit(Event{Kind: PauseBegan, By: p.By, Text: fmt.Sprintf("%s (until %s)", p.Reason, p.Until.Format(time.RFC3339))})
	l.Wake()
	ring(l.kick)
	return nil
}

// Resume ends a pause. It returns an error when there is none.
func (l *Loop) Resume(by string) error { return l.resume(by, "") }

func (l *Loop) resume(by, why string) error {
	l.mu.Lock()
	paused := l.memory.Paused
	l.mu.Unlock()
	if paused == nil {
		return errors.New("it is not paused")
	}
	if err := l.setPaused(nil); err != nil {
		l.log.Error("the end of the pause will not outlast a restart", "error", err)
	}
	l.Emit(Event{Kind: PauseEnded, By: by, Text: why})
	l.Wake()
	ring(l.kick)
	return nil
}

// setPaused remembers p. The end of a pause counts even if it can't be
// written: then it is over once more after a restart.
func (l *Loop) setPaused(p *Pause) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.memory
	m.Paused = p
	err := l.remember(m)
	if err == nil || p == nil {
		l.memory = m
	}
	return err
}

// lookAgain is how long a pause is waited for without looking at the clock,
// which may be set meanwhile.
const lookAgain = time.Minute

// expiry receives when the pause may be over; nil: there is none.
func (l *Loop) expiry() <-chan time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory.Paused == nil {
		return nil
	}
	return time.After(min(time.Until(l.memory.Paused.Until.Round(0)), lookAgain))
}

// expire ends a pause whose time is over.
func (l *Loop) expire() {
	p := l.paused()
	if p == nil || time.Now().Before(p.Until.Round(0)) { // by the wall's clock
		return
	}
	_ = l.resume(daemon, "its time is over") // it says so itself when the memory can't be written
}

// paused returns the pause that is in force.
func (l *Loop) paused() *Pause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.Paused
}
