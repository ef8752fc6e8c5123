package gabion

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// A watch keeps the time of one attempt whose result may outlive its call: until the
// verdict the attempt's own, and from then on that of the result. One timer rings for
// what is due first. If it rings too early, or when the watch has another attempt, it
// finds nothing due. So the timer is not stopped when an attempt ends, and the next
// attempt mostly finds it set.
type watch struct {
	d     *Dependency
	timer *time.Timer

	mu    sync.Mutex    // guards what follows
	rings clock.Instant // when the timer does; Never = it is not set
	at    *attemptContext
	ends  clock.Instant // of the attempt, before its verdict
	open  *Attempt      // whose result lives on; nil before
	lasts machine.Limits
	waits clock.Instant // since when the caller waits for more of it; Never means that it does not
}

// timed keeps the time of an attempt from now on.
func (a *attemptContext) timed(now clock.Instant) *watch {
	w, ok := a.d.watches.Get().(*watch)
	if !ok {
		w = &watch{d: a.d, rings: clock.Never}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.open, w.ends, w.waits = a, nil, a.deadline, clock.Never
	w.set(now)
	return w
}

// keep keeps the time of the attempt's result from now on. The attempt has its verdict,
// so its own time does not count any more.
func (w *watch) keep(now clock.Instant, a *Attempt, l machine.Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a.at.marks.Or(freed)
	w.open, w.ends, w.lasts = a, clock.Never, l
	w.set(now)
}

// verdict ends the attempt's own time. The caller does not have the result yet.
func (w *watch) verdict() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at.marks.Or(freed)
	w.ends = clock.Never
}

// release ends the watch. It is the last use of it.
func (w *watch) release() {
	w.mu.Lock()
	w.at, w.open, w.ends, w.waits = nil, nil, clock.Never, clock.Never
	w.mu.Unlock()
	w.d.watches.Put(w)
}

// expect and arrived say that the caller waits for more of a's result, and no longer.
func (w *watch) expect(a *Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == a && w.lasts.Idle > 0 {
		w.waits = w.d.now()
		w.set(w.waits)
	}
}

func (w *watch) arrived(a *Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == a {
		w.waits = clock.Never
	}
}

// hold says that a's result has its slot, and goes on, until it is closed.
func (w *watch) hold(a *Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == a {
		w.lasts.Slot, w.lasts.Body, w.lasts.Idle = clock.Never, clock.Never, 0
	}
}

// next is when the watch has something to do.
func (w *watch) next() clock.Instant {
	switch {
	case w.at == nil:
		return clock.Never
	case w.open == nil:
		return w.ends
	}
	return min(w.lasts.Slot, w.lasts.Body, w.silent())
}

// silent is when the result will have been silent for too long.
func (w *watch) silent() clock.Instant {
	if w.waits == clock.Never {
		return clock.Never
	}
	return w.waits.Add(w.lasts.Idle)
}

// set makes the timer ring in time, unless it rings before that anyway.
func (w *watch) set(now clock.Instant) {
	next := w.next()
	if next >= w.rings {
		return
	}
	w.rings = next
	wait := max(next.Sub(now), 0)
	if w.timer == nil {
		w.timer = time.AfterFunc(wait, w.ring)
		return
	}
	w.timer.Reset(wait)
}

// ring runs on the timer's goroutine. What it finds is done without the lock, since
// observers are told of it.
func (w *watch) ring() {
	w.mu.Lock()
	w.rings = clock.Never
	now := w.d.now()
	a, why, waited := w.due(now)
	w.set(now)
	w.mu.Unlock()
	if a == nil {
		return
	}
	defer a.drop()
	if why == policy.None {
		a.outlive()
	} else {
		a.strike(why, waited)
	}
}

// due takes what is due now. An attempt that is returned was taken, and must be
// dropped: its result ran into the limit that is named, or outlived its slot.
func (w *watch) due(now clock.Instant) (a *Attempt, why policy.Reason, waited bool) {
	waited = w.waits != clock.Never
	switch {
	case w.at == nil || now < w.next():
		return nil, policy.None, false
	case w.open == nil:
		w.ends = clock.Never
		w.at.strike(w.at.cause)
		return nil, policy.None, false
	case now >= w.lasts.Body:
		why = policy.BodyTimeout
	case now >= w.silent():
		why = policy.IdleTimeout
	}
	w.lasts.Slot = clock.Never
	if why != policy.None {
		w.waits, w.lasts.Body, w.lasts.Idle = clock.Never, clock.Never, 0
	}
	if !w.open.take() {
		return nil, policy.None, false
	}
	return w.open, why, waited
}

// overran is the error of an attempt whose context was ended by a limit of ours, where
// the work reports that as a cancel: a context derived from the attempt's knows no
// better. The caller did not cancel, so it must not look as if.
type overran struct{ err error }

func (e overran) Error() string { return context.DeadlineExceeded.Error() + ": " + e.err.Error() }

// Is hides the cancel and shows the deadline in its place.
func (e overran) Is(target error) bool {
	switch target {
	case context.Canceled:
		return false
	case context.DeadlineExceeded:
		return true
	}
	return errors.Is(e.err, target)
}

func (e overran) As(target any) bool { return errors.As(e.err, target) }

// told returns err as the attempt's caller should see it.
func (a *attemptContext) told(err error) error {
	if err == nil || !a.is(struck) || !errors.Is(err, context.Canceled) {
		return err
	}
	return overran{err}
}
