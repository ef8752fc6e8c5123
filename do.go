package gabion

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/clock"
	"github.com/gabion-go/gabion/policy"
)

// Do calls a dependency: it runs work, again if that is right, within the
// policy's bounds, and returns the result of the last attempt. On failure the
// error is an [*Error], and the result is whatever the last attempt returned with
// it.
//
// Work is repeated only if its failure is transient and repeating it is safe:
// declared by the policy or an option, covered by a key, or the attempt provably
// never left. The context that work sees ends with the attempt; a result that
// needs it for longer, as a response body does, wants [Open].
//
// Do returns when work returns: work must honour its context. If work panics or
// calls runtime.Goexit, everything it held is given back and the panic goes on.
func Do[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), opts ...CallOption) (T, error) {
	var zero T
	if err := admissible(ctx, d, work == nil); err != nil {
		return zero, err
	}
	if d.hedges() {
		v, _, err := race(ctx, d, opts, work, false)
		return v, err
	}
	v, _, err := serial(ctx, d, opts, work, false)
	return v, err
}

// hedges reports whether some call of d's may need the racing driver.
func (d *Dependency) hedges() bool { return d.state.Rules().Policy.Hedge.Max > 0 }

// Run is [Do] for work without a result. It never hedges, since two attempts at
// once could only tell their results apart by value.
func (d *Dependency) Run(ctx context.Context, work func(context.Context) error, opts ...CallOption) error {
	if err := admissible(ctx, d, work == nil); err != nil {
		return err
	}
	var s sending[struct{}]
	s.work = func(ctx context.Context) (struct{}, error) { return struct{}{}, work(ctx) }
	if err := s.prepare(ctx, d, opts); err != nil {
		return err
	}
	s.o.NoHedge, s.o.discard = true, nil
	_, _, err := s.drive()
	return err
}

// Open is [Do] for results that outlive the call, such as a response body or
// rows: the attempt that brought the result stays open, with its slot, its
// timeout and its context, until [Attempt.Close]. The verdict on the attempt was
// given when work returned. The attempt is nil if none brought a result.
func Open[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), opts ...CallOption) (T, *Attempt, error) {
	var zero T
	if err := admissible(ctx, d, work == nil); err != nil {
		return zero, nil, err
	}
	if d.hedges() {
		return race(ctx, d, opts, work, true)
	}
	return serial(ctx, d, opts, work, true)
}

// admissible refuses calls that can't be meant, and touches nothing.
func admissible(ctx context.Context, d *Dependency, noWork bool) error {
	switch {
	case d == nil || d.state == nil:
		return &Error{Dependency: "gabion", Reason: Invalid, Err: errNoDependency}
	case ctx == nil:
		return &Error{Dependency: d.name, Reason: Invalid, Err: errNoContext}
	case noWork:
		return &Error{Dependency: d.name, Reason: Invalid, Err: errNoWork}
	}
	if err := ctx.Err(); err != nil {
		return &Error{Dependency: d.name, Reason: contextReason(err), Err: context.Cause(ctx)}
	}
	return nil
}

var (
	errNoDependency = errors.New("the dependency is nil, or not made by New")
	errNoContext    = errors.New("the context is nil")
	errNoWork       = errors.New("the function to call is nil")
	errNoKey        = errors.New("the policy requires an idempotency key: pass gabion.WithKey with one that is stored with the intent")
)

func contextReason(err error) Reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return CallTimeout
	}
	return Canceled
}

// runner drives one call's machine: the part that does not know the result's type.
type runner struct {
	call  policy.Call
	ctx   context.Context // the caller's; a runner lives no longer than the call
	d     *Dependency
	o     callOptions
	first *attemptContext // also wakes the call, so one that waits has it before it sends
	log   *policy.Log
	id    uint64
}

// prepare reads the options. The dependency is not touched yet.
func (r *runner) prepare(ctx context.Context, d *Dependency, opts []CallOption) error {
	r.ctx, r.d = ctx, d
	r.o.discard = d.discard
	r.o.collect(opts)
	return r.o.settleKey(d)
}

// begin starts the call.
func (r *runner) begin() clock.Instant {
	d, p := r.d, &r.o.Params
	now := d.now()
	p.Shard = shardOf(r)
	p.Safe = p.Safe || r.o.key != ""
	if deadline, ok := r.ctx.Deadline(); ok {
		p.Deadline = nonzero(d.instant(deadline))
	}
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
	p.Partition = r.call.Partition() // what events say: bounded, unlike what callers say
	return now
}

// wakeable gives the call what wakes it, when it waits for the first time, and
// reports whether this was it.
func (r *runner) wakeable() bool {
	if r.o.Waker != nil {
		return false
	}
	if r.first == nil {
		r.first = &attemptContext{Context: r.ctx, d: r.d, key: r.o.key}
	}
	r.o.Waker = r.first
	r.call.SetWaker(r.first)
	return true
}

// shardOf picks a shard by where the call's memory is: the same goroutine usually
// gets the same one, and two that run at once different ones.
func shardOf(r *runner) uint32 {
	const page = 13 // the least that two goroutines' memory is apart, as a power of two
	at := uint64(uintptr(unsafe.Pointer(r))) >> page
	return uint32(at * 0x9e3779b97f4a7c15 >> 32)
}

// nonzero keeps an instant from meaning "none".
func nonzero(t clock.Instant) clock.Instant {
	if t == 0 {
		return -1
	}
	return t
}

// context makes the context of an attempt.
func (r *runner) context(t *policy.Ticket) *attemptContext {
	a := r.first
	if a == nil || t.Attempt > 1 {
		a = &attemptContext{Context: r.ctx, d: r.d, key: r.o.key}
	}
	if r.first == nil {
		r.first = a
	}
	a.number, a.deadline = t.Attempt, t.Deadline
	a.cause = AttemptTimeout
	if t.Final() {
		a.cause = CallTimeout
	}
	return a
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

// publish tells the observer what the last verb decided.
func (r *runner) publish() {
	if r.log == nil {
		return
	}
	for _, e := range r.log.Drain() {
		r.tell(e)
	}
	r.d.deliver(r.ctx)
}

func (r *runner) tell(e Event) {
	e.Operation, e.Call, e.Partition = r.o.operation, r.id, r.o.Partition
	r.d.publish(r.ctx, e)
}

// sleep waits for a wake-up, the caller's end or the time to look again.
func (r *runner) sleep(now, until clock.Instant) {
	wait := until.Sub(now)
	if wait <= 0 {
		return
	}
	done := r.ctx.Done()
	if r.ctx.Err() != nil {
		done = nil // its end has been seen: a deadline's leaves a moment for work to come home
	}
	timer := r.d.timer(wait)
	select {
	case <-timer.C:
	case <-*r.first.waking():
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
	r.sleep(now, until)
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
	v := r.call.Verdict()
	if v.Reason == policy.None {
		return last // nil, unless a classifier called an error a success
	}
	if r.ctx.Err() != nil {
		last = withCause(last, context.Cause(r.ctx))
	}
	return &Error{
		Dependency: r.d.name, Reason: v.Reason, Effect: v.Effect,
		Attempts: v.Attempts, RetryAfter: v.RetryAfter, Err: last,
	}
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

// serial drives a call that has one attempt out at a time: no lock, no goroutine,
// and no timer unless the call waits.
func serial[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error), keep bool) (T, *Attempt, error) {
	var s sending[T]
	s.work, s.keep = work, keep
	if err := s.prepare(ctx, d, opts); err != nil {
		return s.value, nil, err
	}
	return s.drive()
}

func (s *sending[T]) drive() (T, *Attempt, error) {
	now := s.begin()
	for {
		s.call.NextInto(now, &s.step)
		s.publish()
		switch s.step.Verb {
		case policy.Send:
			now = s.send(now)
		case policy.Wait:
			s.supersede(now, nil)
			now = s.pause(now, s.step.Again)
		case policy.Return:
			return s.answer()
		}
	}
}

// sending is a serial call and what its last attempt brought home.
type sending[T any] struct {
	runner
	work   func(context.Context) (T, error)
	keep   bool // results outlive the call
	have   bool // value and err are an attempt's
	value  T
	err    error
	step   policy.Step
	ticket policy.Ticket // of the attempt that is out, or was last
	at     *attemptContext
}

// send runs one attempt. Its deferred half runs also when work panics or leaves
// by Goexit: then the attempt settles as crashed and the panic goes on up.
func (s *sending[T]) send(now clock.Instant) (after clock.Instant) {
	s.supersede(now, &s.step.Ticket)
	s.ticket = s.step.Ticket
	s.at = s.context(&s.ticket)
	crashed := true
	defer func() {
		if crashed {
			s.crash()
		}
	}()
	s.value, s.err = s.work(s.at)
	s.have = true
	home := outcome(s.d, s.o.judge, s.value, s.err)
	crashed = false
	return s.home(home)
}

func (s *sending[T]) home(o policy.Outcome) clock.Instant {
	now := s.d.now()
	o.Open = s.keep && s.err == nil
	if !o.Open {
		s.at.end()
	}
	if o.Class != policy.Success && s.canceled() {
		s.call.Cancel(now)
	}
	s.call.Settle(now, s.ticket, o)
	s.publish()
	return now
}

// crash ends the call because a user's code left it: work, while an attempt is
// out, or Discard, also between two.
func (s *sending[T]) crash() {
	now := s.d.now()
	s.at.end()
	if s.canceled() {
		s.call.Cancel(now)
	}
	s.call.Settle(now, s.ticket, policy.Outcome{Class: policy.Crashed, Effect: policy.UnknownEffect})
	s.call.Cancel(now) // with nothing out, what was reserved for the retry goes back
	s.publish()
	s.finish()
	s.d.putLog(s.log)
}

// supersede lets go of the result of an attempt that is about to be repeated. The
// ticket of the one that repeats it, if it is out already, must come home too if
// Discard panics.
func (s *sending[T]) supersede(now clock.Instant, next *policy.Ticket) {
	if !s.have {
		return
	}
	s.have = false
	defer s.at.end() // after Discard: draining a body needs its context
	if s.keep && s.err == nil {
		s.call.Release(now, s.ticket, false)
	}
	if next != nil {
		s.ticket = *next
	}
	var lost T
	lost, s.value = s.value, lost
	if s.err == nil && s.o.discard != nil {
		s.discard(lost)
	}
}

func (s *sending[T]) discard(lost T) {
	crashed := true
	defer func() {
		if crashed {
			s.crash()
		}
	}()
	s.o.discard(lost)
	crashed = false
}

// answer ends the call for its caller.
func (s *sending[T]) answer() (T, *Attempt, error) {
	err := s.failure(s.err)
	if s.keep && s.have && s.err == nil {
		return s.value, s.opened(s.at, s.ticket), err
	}
	s.finish()
	s.d.putLog(s.log)
	return s.value, nil, err
}
