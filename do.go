package gabion

import (
	"context"
	"errors"

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
// calls runtime.Goexit, everything it held is given back and the panic goes on. A panic in
// an attempt that another one has beaten, where the policy hedges, goes to the log instead.
// So does runtime.Goexit in a hedge that was beaten. In the first attempt it ends the caller's
// goroutine even then, since Go can't hold it up: the result is discarded, and Totals have
// the success.
//
// Within an attempt of d, so with the context that work got, another call of d is part of
// that attempt: it takes no slot, waits for nothing, is not repeated and counts nowhere, and
// what it came to decides about the attempt. It has the attempt's time, breaker and key,
// whatever partition it names. See docs/http.md.
func Do[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), opts ...CallOption) (T, error) {
	v, _, err := call(ctx, d, opts, work)
	return v, err
}

// call picks the driver. Had says that v is a result that work returned without an
// error, also where the call failed because a classifier took it for a failure.
func call[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error)) (v T, had bool, err error) {
	if work == nil || mistaken(ctx, d) || ctx.Err() != nil {
		return v, false, inadmissible(ctx, d, work == nil)
	}
	at := attemptOf(ctx)
	if r := d.state.Rules(); at == nil && r.Short() {
		if a := d.audience.Load(); a == nil || a.tallies {
			p := plain[T]{ctx: ctx, d: d, heard: a}
			if len(opts) == 0 {
				if d.judge == nil || reads[T](d.judge) {
					return p.drive(r, nil, work)
				}
			} else {
				var o callOptions
				if o.plainly(d, opts) && readable[T](o.judge, d.judge) {
					return p.drive(r, &o, work)
				}
			}
		}
	}
	of := partOf(d, at)
	if of == nil && d.hedges() {
		v, had, _, err = race(ctx, d, opts, work, false)
		return v, had, err
	}
	var s sending[T]
	s.ctx, s.d, s.part = ctx, d, of
	if err := prepare[T](&s.runner, opts); err != nil {
		return v, false, err
	}
	s.o.NoHedge = true // a reload may have come since the driver was chosen
	v, err = s.drive(work)
	return v, s.have && s.err == nil, err
}

// hedges reports whether some call of d's may need the racing driver.
func (d *Dependency) hedges() bool { return d.state.Rules().Policy.Hedge.Max > 0 }

// Run is [Do] for work without a result. It never hedges: its work leaves what it
// found in variables outside, and two attempts at once would both write them.
func (d *Dependency) Run(ctx context.Context, work func(context.Context) error, opts ...CallOption) error {
	if work == nil || mistaken(ctx, d) || ctx.Err() != nil {
		return inadmissible(ctx, d, work == nil)
	}
	at, resultless := attemptOf(ctx), func(ctx context.Context) (struct{}, error) { return struct{}{}, work(ctx) }
	if r := d.state.Rules(); at == nil && r.Short() {
		var o callOptions
		if a := d.audience.Load(); (a == nil || a.tallies) && o.plainly(d, opts) && readable[struct{}](o.judge, d.judge) {
			o.discard = nil
			p := plain[struct{}]{ctx: ctx, d: d, heard: a}
			_, _, err := p.drive(r, &o, resultless)
			return err
		}
	}
	var s sending[struct{}]
	s.ctx, s.d, s.part = ctx, d, partOf(d, at)
	if err := prepare[struct{}](&s.runner, opts); err != nil {
		return err
	}
	s.o.NoHedge, s.o.discard = true, nil
	_, err := s.drive(resultless)
	return err
}

// Open is [Do] for results that outlive the call, such as a response body or rows.
// The verdict on the attempt is given when work returns, and with it the attempt's
// timeout and the call's deadline end: the context that work saw goes on until
// [Attempt.Close], or until the caller's own ends. The slot goes back at Close, or
// when the time that the attempt had is over. timeout.body bounds the result as a
// whole, and timeout.idle its silence between [Attempt.Expect] and [Attempt.Arrived].
// The attempt is nil if none brought a result; else it must be closed.
func Open[T any](ctx context.Context, d *Dependency, work func(context.Context) (T, error), opts ...CallOption) (T, *Attempt, error) {
	var zero T
	if work == nil || mistaken(ctx, d) || ctx.Err() != nil {
		return zero, nil, inadmissible(ctx, d, work == nil)
	}
	of := partOf(d, attemptOf(ctx))
	if of == nil && d.hedges() {
		v, _, a, err := race(ctx, d, opts, work, true)
		return v, a, err
	}
	return serialOpen(ctx, d, of, opts, work)
}

// mistaken reports whether a call is a mistake, whatever its work is.
func mistaken(ctx context.Context, d *Dependency) bool {
	return d == nil || d.state == nil || ctx == nil
}

// inadmissible is the error of a call that is a mistake, or whose context has ended. Nothing was touched.
func inadmissible(ctx context.Context, d *Dependency, noWork bool) error {
	switch {
	case d == nil || d.state == nil:
		return &Error{Dependency: "gabion", Reason: policy.Invalid, Err: errNoDependency}
	case ctx == nil:
		return &Error{Dependency: d.name, Reason: policy.Invalid, Err: errNoContext}
	case noWork:
		return &Error{Dependency: d.name, Reason: policy.Invalid, Err: errNoWork}
	}
	return &Error{Dependency: d.name, Reason: contextReason(ctx.Err()), Err: context.Cause(ctx)}
}

var (
	errNoDependency = errors.New("the dependency is nil, or not made by New")
	errNoContext    = errors.New("the context is nil")
	errNoWork       = errors.New("the function to call is nil")
	errElsewhere    = errors.New("the dependency was made outside of this synctest bubble: make it inside, for its time and its timers are not the bubble's")
	errNoAnswer     = errors.New("the fallback's Answer is nil")
	errNoReasons    = errors.New("the fallback names no reasons, so that it never answers: On: gabion.Unavailable() are those of a dependency that could not be had")
	errNoKey        = errors.New("the policy requires an idempotency key: pass one that is stored with the intent, with gabion.WithKey or as the header Idempotency-Key")
)

func contextReason(err error) Reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return policy.CallTimeout
	}
	return policy.Canceled
}
