package idempotency

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
)

// Why the context of a run ends before its handler does (see [context.Cause]).
var (
	errFenced  = errors.New("idempotency: the lease could not be extended in time")
	errOverran = errors.New("idempotency: the handler ran longer than it may")
)

// A heartbeat extends a run's lease every third of it, give or take a tenth so that
// runs that began together spread out. It is one timer, which costs a short handler
// next to nothing, as it is used again by later runs; but not in a bubble of
// testing/synctest, since its timer is of no use outside of that.
//
// It trusts no more than it knows: the lease began before the claim was sent.
// When it can't be extended in time, the run is cancelled a margin before others
// may think it lost.
type heartbeat struct {
	c     *core
	x     *execution
	until time.Time // what we know of the lease's end
	last  time.Time // when the run must be over

	mu      sync.Mutex // guards all below
	timer   *time.Timer
	beats   uint64
	stopped bool
	fenced  bool // the run was cancelled
}

func (c *core) startBeat(x *execution, begun time.Time) *heartbeat {
	var b *heartbeat
	if !bubbled(begun) {
		b, _ = c.beats.Get().(*heartbeat)
	}
	if b == nil {
		b = &heartbeat{c: c}
	}
	b.x, b.until, b.last = x, begun.Add(c.terms.Lease), begun.Add(c.terms.MaxExecution)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beats, b.stopped = 0, false
	if pause := b.pause(begun) - time.Since(begun); b.timer == nil { // the claim may have taken long
		b.timer = time.AfterFunc(pause, b.fire)
	} else {
		b.timer.Reset(pause)
	}
	return b
}

// bubbled reports whether t was read in a bubble of testing/synctest: only there it has
// no reading of the monotonic clock.
func bubbled(t time.Time) bool { return t == t.Round(0) } //nolint:staticcheck // whether it has a monotonic part is the question

// pause returns how long to wait for the next beat. The caller holds mu.
func (b *heartbeat) pause(now time.Time) time.Duration {
	third := b.c.terms.Lease / 3
	b.beats++
	u := chance.U(uint64(b.x.ref.Token), b.beats, 0, chance.Backoff)
	spread := time.Duration(float64(third/5) * u)
	return max(0, min(third-third/10+spread, b.last.Sub(now)))
}

// margin is how long before the end of its lease a run fences itself: what its
// handler needs to notice.
func (b *heartbeat) margin() time.Duration { return min(2*time.Second, b.c.terms.Lease/10) }

func (b *heartbeat) fire() {
	now := time.Now()
	if b.isStopped() {
		return
	}
	if !now.Before(b.last) {
		b.fence(errOverran, eventAbandoned)
		return
	}
	edge := b.until.Add(-b.margin())
	ctx := &lateContext{Context: &b.x.run, edge: edge}
	err := b.c.store.Apply(ctx, b.x.ref, Change{State: StateRunning, Lease: b.c.terms.Lease})
	ctx.end(nil)
	if b.isStopped() {
		return // the run has ended: the answer does not matter
	}
	switch {
	case err == nil:
		b.until = now.Add(b.c.terms.Lease)
		b.again(false)
	case errors.Is(err, ErrLeaseLost):
		b.fence(ErrLeaseLost, eventLeaseLost)
	case !time.Now().Before(edge):
		b.fence(errFenced, eventLeaseLost)
	default:
		b.c.tell(&b.x.run, Event{Kind: eventExtendFailed, ID: b.x.ref.ID, Err: err})
		b.again(true)
	}
}

// again arms the timer: sooner after a failure, and never after the edge.
func (b *heartbeat) again(failed bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	pause := b.pause(now)
	if failed {
		pause = min(pause/4, max(0, b.until.Add(-b.margin()).Sub(now)))
	}
	b.timer.Reset(pause)
}

func (b *heartbeat) fence(why error, kind EventKind) {
	b.mu.Lock()
	stopped := b.stopped
	b.stopped, b.fenced = true, !stopped
	b.mu.Unlock()
	if stopped {
		return
	}
	b.x.life.end(why)
	b.c.tell(&b.x.run, Event{Kind: kind, ID: b.x.ref.ID, Err: why})
}

func (b *heartbeat) isStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// stop ends the beats and reports whether the run had been cancelled. The heartbeat
// is not to be used any more: if it never beat it is another run's from now on.
func (b *heartbeat) stop() (fenced bool) {
	b.mu.Lock()
	b.stopped = true
	fenced = b.fenced
	first := b.beats == 1
	b.mu.Unlock()
	if b.timer.Stop() && first && !bubbled(b.last) {
		b.x = nil
		b.c.beats.Put(b)
	}
	return fenced
}

// An endless context has the values of another and no end, as that of context.WithoutCancel.
// It needs no memory of its own.
type endless struct{ context.Context }

// Deadline implements [context.Context].
func (*endless) Deadline() (at time.Time, ends bool) { return at, false }

// Done implements [context.Context].
func (*endless) Done() <-chan struct{} { return nil }

// Err implements [context.Context].
func (*endless) Err() error { return nil }

// A lateContext has the values of another context and an end of its own. What ends it is made on
// the first call for its end, which most handlers and a store in memory never make. It then is
// the standard library's, so that causes, children and AfterFunc behave as everywhere else. The
// zero one, with values, lives until it is ended.
type lateContext struct {
	context.Context               // the values; without a limit it is one that never ends
	limit           time.Duration // from the first question for the end, unless edge is set; 0 means none

	mu     sync.Mutex // guards all below
	edge   time.Time  // when it ends; zero means never, or not known yet
	armed  context.Context
	cancel context.CancelCauseFunc
	cause  error // why it was ended; nil until then
}

// ending is when the context ends, and whether it does by itself. The caller holds mu.
func (l *lateContext) ending() (time.Time, bool) {
	if l.edge.IsZero() && l.limit > 0 {
		l.edge = time.Now().Add(l.limit)
	}
	return l.edge, !l.edge.IsZero()
}

func (l *lateContext) arm() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.armed == nil {
		if at, ends := l.ending(); ends {
			ctx, cancel := context.WithDeadline(context.WithoutCancel(l.Context), at)
			l.armed, l.cancel = ctx, func(error) { cancel() }
		} else {
			l.armed, l.cancel = context.WithCancelCause(l.Context)
		}
		if l.cause != nil {
			l.cancel(l.cause)
		}
	}
	return l.armed
}

// untouched reports whether the context was neither ended nor asked for its end.
func (l *lateContext) untouched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.armed == nil && l.cause == nil
}

// end ends the context; the first cause counts. Nil is [context.Canceled].
func (l *lateContext) end(cause error) {
	l.mu.Lock()
	l.cause = cmp.Or(l.cause, cause, context.Canceled)
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// Deadline implements [context.Context].
func (l *lateContext) Deadline() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ending()
}

// Done implements [context.Context].
func (l *lateContext) Done() <-chan struct{} { return l.arm().Done() }

// Err implements [context.Context].
func (l *lateContext) Err() error {
	if _, ends := l.Deadline(); !ends && l.untouched() {
		return nil
	}
	return l.arm().Err()
}

// Value implements [context.Context]. Once the end was asked for, or came, the
// standard library finds its cause here.
func (l *lateContext) Value(key any) any {
	if l.untouched() {
		return l.Context.Value(key)
	}
	return l.arm().Value(key)
}
