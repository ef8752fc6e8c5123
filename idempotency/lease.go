package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gabion-go/gabion/chance"
)

// Why the context of a run ends before its handler does (see [context.Cause]).
var (
	errFenced  = errors.New("idempotency: the lease could not be extended in time")
	errOverran = errors.New("idempotency: the handler ran longer than it may")
)

// A heartbeat extends a run's lease every third of it, give or take a tenth so that
// runs that began together spread out. It is one timer, which costs a short handler
// next to nothing.
//
// It trusts no more than it knows: the lease began before the claim was sent.
// When it can't be extended in time, the run is cancelled a margin before others
// may think it lost.
type heartbeat struct {
	c     *core
	x     *run
	until time.Time // what we know of the lease's end
	last  time.Time // when the run must be over

	mu      sync.Mutex // guards all below
	timer   *time.Timer
	beats   uint64
	stopped bool
	fenced  bool // the run was cancelled
}

func (b *heartbeat) start(c *core, x *run, begun time.Time) {
	b.c, b.x = c, x
	b.until, b.last = begun.Add(c.terms.Lease), begun.Add(c.terms.MaxExecution)
	b.mu.Lock()
	b.timer = time.AfterFunc(b.pause(begun), b.fire)
	b.mu.Unlock()
}

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
		b.fence(errOverran, Overran)
		return
	}
	edge := b.until.Add(-b.margin())
	ctx := newBounded(b.x, edge)
	err := b.c.store.Apply(ctx, b.x.ref, Change{Event: Extend, Lease: b.c.terms.Lease})
	ctx.stop()
	if b.isStopped() {
		return // the run ended meanwhile: whatever the answer, it is of no interest
	}
	switch {
	case err == nil:
		b.until = now.Add(b.c.terms.Lease)
		b.again(false)
	case errors.Is(err, ErrLeaseLost):
		b.fence(ErrLeaseLost, LeaseLost)
	case !time.Now().Before(edge):
		b.fence(errFenced, LeaseLost)
	default:
		b.c.tell(b.x, Notice{Signal: ExtendFailed, ID: b.x.ref.ID, Err: err})
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

func (b *heartbeat) fence(why error, signal Signal) {
	b.mu.Lock()
	stopped := b.stopped
	b.stopped, b.fenced = true, !stopped
	b.mu.Unlock()
	if stopped {
		return
	}
	b.x.cancel(why)
	b.c.tell(b.x, Notice{Signal: signal, ID: b.x.ref.ID, Err: why})
}

func (b *heartbeat) isStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// stop ends the beats and reports whether the run had been cancelled.
func (b *heartbeat) stop() (fenced bool) {
	b.mu.Lock()
	b.stopped = true
	fenced = b.fenced
	b.mu.Unlock()
	b.timer.Stop()
	return fenced
}

// A bounded context has the values of another and ends at a moment, whenever that
// other ends. Unlike that of context.WithDeadline it arms a timer only when somebody
// asks to be told, which a store in memory never does.
type bounded struct {
	values context.Context
	end    time.Time
	mu     sync.Mutex // guards armed and cancel
	armed  context.Context
	cancel context.CancelFunc
}

func newBounded(values context.Context, end time.Time) *bounded {
	return &bounded{values: values, end: end}
}

func (c *bounded) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		c.armed, c.cancel = context.WithDeadline(context.WithoutCancel(c.values), c.end)
	}
	return c.armed
}

// Deadline implements [context.Context].
func (c *bounded) Deadline() (time.Time, bool) {
	return c.end, true
}

// Value implements [context.Context].
func (c *bounded) Value(key any) any { return c.values.Value(key) }

// Done implements [context.Context].
func (c *bounded) Done() <-chan struct{} { return c.arm().Done() }

// Err implements [context.Context].
func (c *bounded) Err() error { return c.arm().Err() }

// stop frees the timer, if there is one.
func (c *bounded) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}
