package gabion

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// attemptContext is the context that the work of one attempt sees. It has the
// attempt's deadline from the start, but no timer: most work finishes without
// ever asking for Done, and a timer with its cancel tree costs ten times as much
// as everything else that gabion does. When Done is asked for, a context of the
// standard library takes over, so that children, causes and AfterFunc behave as
// everywhere else.
//
// It is the one allocation of a call that nothing goes wrong with, and fills a
// cache line.
type attemptContext struct {
	context.Context // the caller's
	d               *Dependency
	deadline        clock.Instant // when the attempt must have ended; Never = no limit of ours
	marks           atomic.Uint32
	cause           policy.Reason // whose deadline that is
	number          uint8
	inner           innerContext // written once, by the goroutine that set arming
}

// keyedContext is the context of an attempt whose call has a key.
type keyedContext struct {
	attemptContext
	key string
}

// openContext is the context of an attempt whose result may outlive its call, and which is the caller's then.
type openContext struct {
	attemptContext
	attempt Attempt
}

// What becomes true of an attemptContext and stays so.
const (
	ended    = 1 << iota // the attempt is over
	arming               // inner is being written, by the goroutine that set this
	ticking              // inner is there, and stays as it is
	watched              // a watch keeps its time, and inner has no timer
	struck               // a limit of ours ended it: the reason is in the upper bits
	freed                // the verdict is given: the attempt's deadline counts no more
	noted                // a call that is part of the attempt has ended
	used                 // the key was read
	partial              // the attempt is that of a call that is part of another attempt
	whyShift = 16
)

// set makes it the context of that attempt. Parent is the caller's, or what a Tracer made of it.
func (a *attemptContext) set(parent context.Context, d *Dependency, t *machine.Ticket) {
	a.Context, a.d, a.deadline, a.number, a.cause = parent, d, t.Deadline, t.Attempt, t.Cause()
}

func (a *attemptContext) is(mark uint32) bool { return a.marks.Load()&mark != 0 }

type innerContext struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline implements context.Context: the earliest of ours and the caller's.
func (a *attemptContext) Deadline() (time.Time, bool) {
	if at, ours := a.ownDeadline(); ours {
		return at, true
	}
	return a.Context.Deadline()
}

// ownDeadline is the attempt's deadline if it comes before the caller's. The
// caller's own context ends at the caller's, with the caller's cause.
func (a *attemptContext) ownDeadline() (time.Time, bool) {
	if a.deadline == clock.Never || a.is(freed) {
		return time.Time{}, false
	}
	at := a.d.date(a.deadline)
	theirs, ok := a.Context.Deadline()
	return at, !ok || at.Before(theirs)
}

// Done implements context.Context.
func (a *attemptContext) Done() <-chan struct{} { return a.arm().Done() }

// Err implements context.Context.
func (a *attemptContext) Err() error {
	if a.is(ticking|ended|struck) || a.Context.Err() != nil || a.overdue() {
		return a.armedErr() // from now on there is one answer
	}
	return nil
}

func (a *attemptContext) overdue() bool {
	return a.deadline != clock.Never && !a.is(freed) && a.d.now() >= a.deadline
}

// armedErr is the answer of the context that keeps time. Where a watch does, the end
// of its time reaches that context as a cancel, whose cause tells.
func (a *attemptContext) armedErr() error {
	in := a.arm()
	err := in.Err()
	if err == context.Canceled && a.is(watched) {
		if _, ours := context.Cause(in.Context).(policy.Reason); ours {
			return context.DeadlineExceeded
		}
	}
	return err
}

// Value implements context.Context. Once armed it asks the armed context, which
// is how the standard library finds the cause and hangs children into its tree.
func (a *attemptContext) Value(key any) any {
	switch key.(type) {
	case attemptKey, adapter.EnderKey:
		return a
	case callKey:
		return nil // not that of a call around this one
	}
	if a.is(ticking) {
		return a.inner.Value(key)
	}
	return a.Context.Value(key)
}

// arm makes the context that keeps time, once.
func (a *attemptContext) arm() *innerContext {
	if marks := a.marks.Load(); marks&ticking != 0 {
		if marks&(ended|struck) != 0 { // the goroutine that armed it may not have cancelled it yet
			a.inner.cancel()
		}
		return &a.inner
	}
	var in innerContext
	if a.is(watched) {
		in = a.watchedContext()
	} else if at, ours := a.ownDeadline(); ours && !a.is(ended) {
		in.Context, in.cancel = context.WithDeadlineCause(a.Context, at, a.cause)
	} else {
		in.Context, in.cancel = context.WithCancel(a.Context)
	}
	if !a.keep(in) {
		in.cancel()
	}
	if a.is(ended | struck) { // end may have looked before
		a.inner.cancel()
	}
	return &a.inner
}

// watchedContext is the context of an attempt whose result may outlive its verdict, and
// its deadline: no context of the standard library can do that, so that a watch ends
// it, with the limit that was hit as its cause.
func (a *attemptContext) watchedContext() innerContext {
	ctx, cancel := context.WithCancelCause(a.Context)
	return innerContext{ctx, func() { cancel(a.why()) }}
}

// why is the limit that ended the attempt, or nil.
func (a *attemptContext) why() error {
	if marks := a.marks.Load(); marks&struck != 0 {
		return policy.Reason(marks >> whyShift)
	}
	return nil
}

// strike ends the attempt by a limit of ours. Only the first end counts.
func (a *attemptContext) strike(why policy.Reason) {
	marks := a.marks.Load()
	for marks&(ended|struck) == 0 && !a.marks.CompareAndSwap(marks, marks|struck|uint32(why)<<whyShift) {
		marks = a.marks.Load()
	}
	if marks&ticking != 0 {
		a.inner.cancel()
	}
}

// keep makes in the one that keeps time, unless one does already. The contexts are made before,
// since that runs code of the caller's context: between the two marks are two stores, so a wait for
// the second is short.
func (a *attemptContext) keep(in innerContext) bool {
	if a.marks.Or(arming)&arming != 0 {
		for !a.is(ticking) {
			runtime.Gosched()
		}
		return false
	}
	a.inner = in
	a.marks.Or(ticking)
	return true
}

// end ends the attempt: its context is canceled for all who still hold it.
func (a *attemptContext) end() {
	if a.marks.Load() == 0 && a.marks.CompareAndSwap(0, ended) {
		return
	}
	marks := a.marks.Or(ended)
	if marks&ticking != 0 {
		a.inner.cancel()
	}
	if marks&noted != 0 {
		a.d.notes.Delete(a)
	}
}

// End implements [adapter.Ender].
func (a *attemptContext) End() { a.end() }

// Value implements context.Context.
func (k *keyedContext) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return k // a string would be allocated anew
	}
	return k.attemptContext.Value(key)
}

// attemptKey finds the attempt in a context.
type attemptKey struct{}

// callKey finds it if its call has an idempotency key.
type callKey struct{}

// attemptOf finds the attempt that ctx belongs to, or nil.
func attemptOf(ctx context.Context) *attemptContext {
	a, _ := ctx.Value(attemptKey{}).(*attemptContext)
	return a
}

// Key returns the idempotency key of the call that ctx belongs to, the same on
// every attempt, or "" if it has none. To read it is to use it: an attempt that did not is
// not repeated because of the key. See [WithKey].
func Key(ctx context.Context) string {
	k := keyOf(ctx)
	if k == nil {
		return ""
	}
	k.use()
	return k.key
}

// keyOf finds the attempt with the key of the call that ctx belongs to, or nil.
func keyOf(ctx context.Context) *keyedContext {
	k, _ := ctx.Value(callKey{}).(*keyedContext)
	return k
}

// use notes that the key was read, for a part also in the attempt around it from which it has
// the key.
func (k *keyedContext) use() {
	for at := k; at != nil && at.key == k.key; at = keyOf(at.Context) {
		if !at.is(used) {
			at.marks.Or(used)
		}
		if !at.is(partial) {
			return
		}
	}
}

// sends implements adapter.Sends.
func sends(ctx context.Context, key string) {
	if k := keyOf(ctx); k != nil && k.key == key {
		k.use()
	}
}

// AttemptNumber returns which attempt of its call ctx belongs to: 1 for the
// first, 0 outside of one. In a call that is part of an attempt it is that attempt's.
func AttemptNumber(ctx context.Context) int {
	a := attemptOf(ctx)
	for a != nil && a.is(partial) {
		a = attemptOf(a.Context)
	}
	if a == nil {
		return 0
	}
	return int(a.number)
}
