package gabion

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// runner drives one call's machine: the part that does not know the result's type.
type runner struct {
	call  machine.Call
	ctx   context.Context // the caller's; a runner lives no longer than the call
	d     *Dependency
	o     callOptions
	waker waker
	log   *machine.Log
	id    uint64
	began clock.Instant
}

// prepare readies a call whose result is a T. The dependency is not touched yet.
func prepare[T any](ctx context.Context, r *runner, d *Dependency, opts []CallOption) error {
	if err := r.read(ctx, d, opts); err != nil {
		return err
	}
	return suits[T](r)
}

// read reads the clock and the options.
func (r *runner) read(ctx context.Context, d *Dependency, opts []CallOption) error {
	r.ctx, r.d, r.began = ctx, d, d.now()
	if r.began < 0 { // only from bubble to bubble does time go back
		return &Error{Dependency: d.name, Reason: policy.Invalid, Err: errElsewhere}
	}
	if d.discard != nil {
		r.o.discard = d.discard
	}
	r.o.judge = d.judge
	r.o.collect(opts)
	if err := r.o.problem(); err != nil {
		return d.turnAway(ctx, r.o.operation, &Error{Dependency: d.name, Reason: policy.Invalid, Err: err})
	}
	if deadline, ok := ctx.Deadline(); ok {
		r.o.Deadline = nonzero(d.instant(deadline))
	}
	if err := r.o.settleKey(d); err != nil {
		return d.turnAway(ctx, r.o.operation, err)
	}
	return nil
}

// begin starts the call.
func (r *runner) begin() clock.Instant {
	d, p, now := r.d, &r.o.Params, r.began
	p.Shard = shardOf(r, now)
	p.Safe = p.Safe || r.o.key != ""
	if d.observer != nil {
		r.log = d.log()
		r.id = d.calls.Add(1)
		p.Log = r.log
	}
	if d.tracked {
		d.used.Store(int64(now))
		d.out.Add(1)
	}
	r.call.Begin(d.state, now, p)
	if r.log != nil { // events say the partition that it is: bounded, unlike what callers say
		p.Partition = r.call.Partition()
	}
	return now
}

// waker wakes a call that waits. It never blocks and takes no lock; a nil one
// wakes nobody.
type waker chan struct{}

// Wake implements bulkhead.Waker.
func (w waker) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// wakeable gives the call what wakes it, when it waits for the first time, and
// reports whether this was it.
func (r *runner) wakeable() bool {
	if r.waker != nil {
		return false
	}
	r.wakeBy(make(waker, 1))
	return true
}

func (r *runner) wakeBy(w waker) {
	r.waker = w
	r.call.SetWaker(w)
}

// shardOf picks a shard by where the call's memory is: the same goroutine usually
// gets the same one, and two that run at once different ones. Two that get the same
// one, and so get into each other's way, get others a millisecond later.
func shardOf(r *runner, now clock.Instant) uint32 {
	const page = 13  // the least that two goroutines' memory is apart, as a power of two
	const while = 20 // how long a goroutine keeps its shard, as a power of two of nanoseconds
	at := uint64(uintptr(unsafe.Pointer(r)))>>page ^ uint64(now)>>while<<32
	at *= 0x9e3779b97f4a7c15
	at ^= at >> 32
	return uint32(at * 0xd6e8feb86659fd93 >> 32)
}

// nonzero keeps an instant from meaning "none".
func nonzero(t clock.Instant) clock.Instant {
	if t == 0 {
		return -1
	}
	return t
}

// context makes the context of an attempt: as the runner holds it, and as work
// sees it. Open says that its result may live on, and that a watch keeps its time.
func (r *runner) context(t *machine.Ticket, open bool) (*attemptContext, context.Context) {
	var a *attemptContext
	var seen context.Context
	if r.o.key == "" {
		a = new(attemptContext)
		seen = a
	} else {
		k := &keyedContext{key: r.o.key}
		a, seen = &k.attemptContext, k
	}
	a.Context, a.d, a.deadline, a.number = r.ctx, r.d, t.Deadline, t.Attempt
	if open {
		a.marks.Store(watched)
	}
	a.cause = policy.AttemptTimeout
	if t.Final() {
		a.cause = policy.CallTimeout
	}
	return a, seen
}

// canceled reports whether the caller gave up. Its deadline is not a cancel: that
// is folded into the call's. But one that it kept to itself, or that passed well
// before the call's by another clock, is.
func (r *runner) canceled() bool {
	err := r.ctx.Err()
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err != nil
	}
	return r.call.Deadline().Sub(r.d.now()) > time.Millisecond
}

// gone is canceled for calls that a user's code has left already: another panic, of
// the caller's own context, must not keep them from giving back.
func (r *runner) gone() (gone bool) {
	defer func() { _ = recover() }()
	return r.canceled()
}

// publish tells the observer what the last verb decided.
func (r *runner) publish() {
	if r.log != nil {
		r.tellAll()
	}
}

// start dates the attempt that is about to be made after what its observers took.
func (r *runner) start(now clock.Instant, t *machine.Ticket) clock.Instant {
	if r.log != nil {
		now = r.d.now()
		r.call.Start(now, t)
	}
	return now
}

func (r *runner) tellAll() {
	for _, e := range r.log.Drain() {
		r.tell(e)
	}
	r.d.deliver(r.ctx)
}

func (r *runner) tell(e Event) {
	e.Operation, e.Call, e.Partition = r.o.operation, r.id, r.o.Partition
	r.d.publish(r.ctx, e)
}

// sleep waits for a wake-up, the caller's end or the time to look again. It reads the
// clock itself: observers may have been told since anybody did.
func (r *runner) sleep(until clock.Instant) {
	wait := until.Sub(r.d.now())
	if wait <= 0 {
		return
	}
	done := r.ctx.Done()
	if r.ctx.Err() != nil {
		if r.canceled() { // since the last look: nothing is worth waiting for
			return
		}
		done = nil // its deadline passed, which leaves a moment for work to come home
	}
	timer := r.d.timer(wait)
	select {
	case <-timer.C:
	case <-r.waker:
	case <-done:
	}
	r.d.park(timer)
}

// pause sleeps, and returns the time it is then. A call that could not be woken
// is asked again first: it may have wanted to queue.
func (r *runner) pause(now, until clock.Instant) clock.Instant {
	if r.wakeable() {
		return now
	}
	r.sleep(until)
	now = r.d.now()
	if r.canceled() {
		r.call.Cancel(now)
		r.publish()
	}
	return now
}

// finish is the end of the call for whoever waits for its dependency to be idle.
func (r *runner) finish() {
	if r.d.tracked {
		r.d.out.Add(-1)
	}
}

// failure makes the error that the caller sees, or nil.
func (r *runner) failure(last error) error {
	if r.call.Succeeded() {
		return last // nil, unless a classifier called an error a success
	}
	return r.failed(r.call.End(), last)
}

func (r *runner) failed(v machine.End, last error) error {
	if v.Reason == policy.None { // it has not ended
		return last
	}
	if r.ended(v.Reason) {
		last = withCause(last, context.Cause(r.ctx))
	}
	return &Error{
		Dependency: r.d.name, Reason: v.Reason, Effect: v.Effect,
		Attempts: v.Attempts, RetryAfter: v.RetryAfter, Cause: v.Cause, Numbers: v.Numbers, Err: last,
	}
}

// patience is how long the end of a call waits for the end of the caller's context,
// once its deadline has passed.
const patience = 10 * time.Millisecond

// ended reports whether the caller's context has ended. Where its deadline ended the
// call, its own timer may ring a moment after ours, and only then does it tell why.
func (r *runner) ended(why Reason) bool {
	if r.ctx.Err() != nil {
		return true
	}
	if why != policy.CallTimeout || r.o.Deadline == 0 || r.call.Deadline() != r.o.Deadline {
		return false
	}
	timer := r.d.timer(patience)
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
	r.d.park(timer)
	return r.ctx.Err() != nil
}

// withCause adds why the caller's context ended to the last real error, unless
// that tells it already.
func withCause(last, cause error) error {
	switch {
	case last == nil:
		return cause
	case errors.Is(last, cause) || cause == context.Canceled || cause == context.DeadlineExceeded:
		return last
	}
	return fmt.Errorf("%w (%w)", last, cause)
}
