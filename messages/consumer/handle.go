package consumer

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// Handle runs the work of a message unless it was done before, and returns what to tell
// the broker. Tell it after Handle has returned. Where there are Letters, a message that is
// to be a dead letter has been put there by then.
//
// The context of the work ends with ctx, at the attempt's timeout, at the message's
// deadline, and when the message could not be kept from other consumers. [MessageFrom]
// and [Onward] work with it, and all that package inbox says of the context of its work.
func (c *Consumer) Handle(ctx context.Context, m Message, work func(context.Context) error) inbox.Disposition {
	var begun time.Time
	told := c.told()
	if told {
		begun = time.Now()
	}
	h := c.handling(&m)
	h.caller, h.work = ctx, work
	d := h.handle()
	h.spare()
	if told {
		c.tell(ctx, &d, time.Since(begun))
	}
	return d
}

// A handling is a message while it is handled.
type handling struct {
	c       *Consumer
	running func(context.Context) error                     // is run
	judging func(error, int) (time.Duration, policy.Reason) // is judge
	going   func()                                          // is goes
	ended   chan error                                      // gets the end of the work; nil until the first run
	timer   *time.Timer                                     // likewise

	first  *working // the context of the work's first run, which may outlive the handling
	m      *Message // of first
	caller context.Context
	alive  context.Context // ends with the caller's, and when the message is not kept
	work   func(context.Context) error
	again  bool          // it is a letter that is redriven: the store learns of its end by other means
	lease  time.Duration // of that letter
	before int           // runs of it whose outcome an operator has resolved

	attempt *gabion.Attempt
	now     *working // the context of the run
	left    *leftRun // of a run that was left
	ran     bool
	local   bool          // a dependency of the work's refused it: that is no run
	hurried bool          // the message's deadline ended it before it had time enough
	begun   time.Time     // of the run
	took    time.Duration // of a run that failed
}

// handling returns memory for one message.
func (c *Consumer) handling(m *Message) *handling {
	h, ok := c.spares.Get().(*handling)
	if !ok {
		h = &handling{c: c}
		h.running, h.judging, h.going = h.run, h.judge, h.goes
	}
	h.first = &working{message: *m}
	h.m = &h.first.message
	return h
}

// spare gives the memory back. Under Tx a store may have left a run behind.
func (h *handling) spare() {
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.left != nil || h.c.options.Inbox.Guarantee == idempotency.GuaranteeTx || !h.begun.IsZero() && bubbled(h.begun) {
		return
	}
	if h.attempt != nil {
		adapter.Spare(h.attempt)
	}
	c := h.c
	*h = handling{c: c, running: h.running, judging: h.judging, going: h.going, ended: h.ended, timer: h.timer}
	c.spares.Put(h)
}

func (h *handling) handle() inbox.Disposition {
	if d, waits := h.buried(); waits {
		return d
	}
	h.alive = h.caller
	if h.m.Extend != nil { // from the start: an attempt may wait for its slot
		var stop func()
		o := &h.c.options.Inbox
		h.alive, stop = inbox.KeepVisible(h.caller, inbox.Visibility{Timeout: cmp.Or(h.lease, cmp.Or(h.m.Visibility, o.Visibility)), Max: o.MaxExecution}, h.m.Extend)
		defer stop()
	}
	a, err := gabion.Begin(h.alive, h.c.d, h.options()...)
	if err != nil {
		return h.refused(err)
	}
	h.attempt = a
	defer func() {
		if h.left == nil { // else who left it
			a.Close(nil)
		}
	}()
	in := h.m.Message
	in.Extend, in.Judge = nil, h.judging
	d := h.c.inbox.Handle(h.caller, in, h.running)
	if h.settle(&d); h.left == nil {
		a.Close(nil) // letters are no part of the work
	}
	return h.keep(d)
}

// strict has room for no other: who appends to it gets a slice of his own.
var strict = []gabion.CallOption{adapter.Strict.(gabion.CallOption)}

// options are those of the attempt.
func (h *handling) options() []gabion.CallOption {
	opts := strict
	if h.m.repeated() {
		opts = append(opts, adapter.Repeat.(gabion.CallOption))
	}
	if h.m.Tenant != "" {
		opts = append(opts, gabion.WithTenant(h.m.Tenant))
	}
	return opts
}

// run runs the work in the inbox's context, and ends it with the attempt's.
func (h *handling) run(ctx context.Context) error {
	seen := h.first
	if h.ran { // under Tx it may run again, and what the run before left behind still has its context
		seen = &working{message: *h.m}
	}
	seen.Context.Context, seen.Other = ctx, h.attempt.Context()
	h.ran, h.local, h.hurried, h.begun = true, false, false, time.Now()
	err := h.await(seen)
	if err == nil {
		return nil
	}
	h.took, h.local = time.Since(h.begun), h.c.refusal(err)
	h.hurried = seen.Err() != nil && errors.Is(context.Cause(seen), inbox.ErrExpired) && h.took < h.c.due()
	return err
}

// due is the least time that a run must have had for its end at the message's deadline to
// say something about others: that of a call's attempt.
func (c *Consumer) due() time.Duration {
	t := &c.seen.PolicyInForce().Timeout
	due := max(t.Margin, 0)
	if t.Attempt > 0 {
		due = min(due, t.Attempt)
	}
	return due
}

// judge decides what becomes of the message after a run that failed. A refusal is no run.
func (h *handling) judge(err error, runs int) (wait time.Duration, why policy.Reason) {
	var o policy.Outcome
	if errors.Is(err, inbox.ErrNeverEnded) { // which says nothing to a classifier of the user's
		runs -= h.before
		o.Class = policy.ClassCrashed
	} else {
		o = h.c.means(err)
	}
	if !h.local {
		return h.c.seen.Redelivery(&o, runs, h.seed())
	}
	wait = h.c.seen.PutOff(1, h.seed())
	if o.HasAfter {
		wait += o.After
	}
	return wait, policy.BreakerOpen
}

// means reads an error as the dependency does. A classifier that panics has not classified: the
// message is as one whose work panicked.
func (c *Consumer) means(err error) (o policy.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			c.logger().Error("the classifier panicked", slog.String("dependency", c.d.Name()), slog.Any("panic", v))
			o = policy.Failed(policy.ClassCrashed)
		}
	}()
	return c.seen.Means(err)
}

// seed names the message for draws.
func (h *handling) seed() uint64 {
	id := h.c.letter(h.m)
	var b [8]byte
	if _, err := hex.Decode(b[:], []byte(id[:16])); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(b[:])
}

// settle tells the dependency how the attempt came out.
func (h *handling) settle(d *inbox.Disposition) {
	if !h.ran {
		adapter.Unspent(h.attempt) // what never ran is no repeat
		if d.Cause == inbox.CauseStoreUnavailable {
			d.After = max(d.After, h.c.seen.PutOffRefused(h.seed()))
		}
	}
	o, known := h.outcome(d)
	switch {
	case h.left != nil:
		h.c.lend(h.left, h.attempt, o)
	case known:
		_ = h.attempt.SettleOutcome(o, d.Err)
	}
}

// outcome is what the attempt shows of the dependency. It is not known where the result says nothing
// about whether messages can be worked on: another consumer has the message, or it was done before.
func (h *handling) outcome(d *inbox.Disposition) (o policy.Outcome, known bool) {
	switch {
	case d.Cause == inbox.CauseDone:
		return policy.Succeeded(), true
	case d.Cause == inbox.CauseStoreUnavailable, d.Cause == inbox.CauseNotRecorded, d.Cause == inbox.CauseCommitUnknown:
		return policy.Failed(policy.ClassNetwork), true
	case h.left != nil:
		return (&abandoned{}).Outcome(), true
	case !h.ran, d.Err == nil, h.hurried:
		return o, false
	}
	if o = h.c.means(d.Err); o.Class == policy.ClassRejected {
		o.Class, o.Alone = policy.ClassServer, true // it does not work, and others may do without what refused
	}
	return o, true
}

// refused decides about a message whose work was not admitted. It does not count as a run.
func (h *handling) refused(err error) inbox.Disposition {
	if h.caller.Err() != nil {
		return inbox.Disposition{Cause: inbox.CauseStopped, Err: context.Cause(h.caller)}
	}
	after := h.c.seen.PutOffRefused(h.seed())
	var e *gabion.Error
	if errors.As(err, &e) {
		after += max(e.RetryAfter, 0)
	}
	return inbox.Disposition{Cause: inbox.CauseRefused, After: max(after, time.Millisecond), Err: err}
}

// keep writes down what is to be known of a message that failed, and puts it away if it is
// to be a dead letter.
func (h *handling) keep(d inbox.Disposition) inbox.Disposition {
	letters := h.c.options.Letters
	if letters == nil || h.again {
		return d
	}
	var err error
	switch {
	case d.Verb == inbox.DeadLetter:
		if err = h.bounded(func(ctx context.Context) error { return putAway(ctx, letters, h.dead(&d)) }); err != nil {
			err = errors.Join(err, d.Err)
			d = inbox.Disposition{Cause: inbox.CauseNotPutAway, Attempt: d.Attempt, Err: err, After: h.c.seen.PutOff(max(h.m.Delivery, 1), h.seed())}
		}
	case d.Cause == inbox.CauseFailed && h.ran:
		err = h.bounded(func(ctx context.Context) error { return letters.Fail(ctx, h.c.letter(h.m), h.failure(&d)) })
	case d.Cause == inbox.CauseDone && (d.Attempt > 1 || h.m.repeated()),
		d.Cause == inbox.CauseDuplicate && d.Attempt > 1: // who did it may not have come so far
		err = h.bounded(func(ctx context.Context) error { return letters.Forget(ctx, h.c.letter(h.m)) })
	}
	if err != nil {
		h.c.logger().LogAttrs(h.caller, slog.LevelWarn, "the store of dead letters failed",
			slog.String("group", h.c.options.Group), slog.String("letter", string(h.c.letter(h.m))), slog.Any("error", err))
	}
	return d
}

// bounded uses the letters also where the caller's context has ended: what happened is to be
// written down.
func (h *handling) bounded(use func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.caller), h.c.options.LetterTimeout)
	defer cancel()
	return unpanicked(func() error { return use(ctx) })
}

// dead is the letter that the message becomes.
func (h *handling) dead(d *inbox.Disposition) deadletter.Letter {
	m, now := h.m, time.Now()
	l := deadletter.Letter{
		ID: h.c.letter(m), Group: h.c.options.Group, Key: m.ID, Source: m.Source, Position: m.Position, Order: m.Order,
		Headers: m.Headers, Payload: m.Payload, Reason: string(d.Cause), Attempts: d.Attempt, First: now, Last: now,
	}
	if d.Err != nil {
		l.Failures = []deadletter.Failure{h.failure(d)}
	}
	return l
}

func (h *handling) failure(d *inbox.Disposition) deadletter.Failure {
	f := deadletter.Failure{At: time.Now(), Took: h.took, Attempt: d.Attempt, Reason: string(d.Cause)}
	if d.Err != nil {
		o := h.c.means(d.Err)
		f.Class, f.Message = o.Class.String(), fmt.Sprint(d.Err) // which bears an Error that panics, as of a nil pointer
	}
	return f
}

// told reports whether anything observes what became of messages.
func (c *Consumer) told() bool { return c.stream != nil || c.seen.Observed() }

// tell tells observers what became of a message.
func (c *Consumer) tell(ctx context.Context, d *inbox.Disposition, took time.Duration) {
	e := policy.Event{
		Kind: policy.KindMessageDisposed, Dependency: c.d.Name(), At: policy.Instant(time.Since(c.made)),
		Code: d.Verb.String() + "/" + string(d.Cause), Attempt: uint8(min(d.Attempt, 255)), Took: took,
	}
	c.seen.Tell(ctx, e)
	if c.stream != nil {
		defer func() { _ = recover() }() // it takes nothing from the message
		c.stream.Observe(ctx, e)
	}
}
