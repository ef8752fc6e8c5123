package inbox

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime/debug"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/policy"
)

// Handle runs the work of a message unless it was done before, and returns what to
// tell the broker. Tell it after Handle has returned: by then all that Ack promises
// is committed.
//
// The work may use idempotency.Token, Attempt, DeriveKey, NoEffect and Phase, and
// under Tx the transaction that its store hands out. Its context ends with ctx, when
// the lease is lost, when MaxExecution has passed, and when the message could not be
// kept from others. A panic of it is an error ([PanicError]).
func (in *Inbox) Handle(ctx context.Context, m Message, work func(context.Context) error) Disposition {
	if in.options.Stream == nil {
		return in.handle(ctx, m, work)
	}
	begun := time.Now()
	d := in.handle(ctx, m, work)
	in.disposed(ctx, d, begun)
	return d
}

// disposed tells Stream what became of a message.
func (in *Inbox) disposed(ctx context.Context, d Disposition, begun time.Time) {
	defer func() { _ = recover() }() // it takes nothing from the message
	in.options.Stream.Observe(ctx, policy.Event{
		Kind: policy.KindMessageDisposed, Dependency: in.options.Name, At: policy.Instant(time.Since(in.made)),
		Code: d.Verb.String() + "/" + string(d.Reason), Attempt: uint8(min(d.Attempt, 255)), Took: time.Since(begun),
	})
}

func (in *Inbox) handle(ctx context.Context, m Message, work func(context.Context) error) Disposition {
	switch {
	case m.ID == "":
		return Disposition{Verb: DeadLetter, Reason: reasonNoID}
	case ctx.Err() != nil:
		return Disposition{Reason: reasonStopped, Err: context.Cause(ctx)}
	}
	h := handling{in: in, m: m, id: idempotency.IDOf(in.scope, m.ID), caller: ctx, alive: ctx, work: work}
	if m.Extend != nil {
		var stop func()
		h.alive, stop = KeepVisible(ctx, Visibility{Timeout: in.options.Visibility, Max: in.options.MaxExecution}, m.Extend)
		defer stop()
	}
	a, err := in.runner.Do(ctx, h.id, idempotency.Fingerprint(in.options.Secret, m.Payload), h.run)
	return h.dispose(a, err)
}

// A handling is a message while it is handled.
type handling struct {
	in     *Inbox
	m      Message
	id     idempotency.ID
	caller context.Context
	alive  context.Context // ends with the caller's, and when the message is not kept
	work   func(context.Context) error

	ran     bool
	attempt int
	err     error  // of the work
	why     Reason // what becomes of a message whose work failed
}

// run runs the work. What it did when it failed is unknown.
func (h *handling) run(ctx context.Context) (idempotency.Result, idempotency.Outcome) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.alive, func() { cancel(context.Cause(h.alive)) })()
	h.ran, h.attempt = true, idempotency.Attempt(ctx)
	h.err = guarded(ctx, h.work)
	switch h.why = h.reason(); {
	case h.err == nil:
		return idempotency.Result{}, idempotency.OutcomeSucceeded
	case h.why == reasonPermanent, h.why == reasonAttemptsExhausted:
		return idempotency.Result{}, idempotency.OutcomeGivenUp // it may be mended and sent again
	}
	return idempotency.Result{}, idempotency.OutcomeUnknown
}

func guarded(ctx context.Context, work func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return work(ctx)
}

func (h *handling) dispose(a idempotency.Answer, err error) Disposition {
	if err != nil {
		return h.unanswered(err)
	}
	switch a.Decision {
	case idempotency.DecisionRun:
		return h.ended(a.Record.State)
	case idempotency.DecisionReplay:
		return Disposition{Verb: Ack, Reason: reasonDuplicate, Attempt: a.Record.Attempt}
	case idempotency.DecisionInProgress:
		return Disposition{Reason: reasonInProgress, After: min(max(a.Left, time.Second), 5*time.Second)}
	case idempotency.DecisionMismatch:
		return Disposition{Verb: DeadLetter, Reason: reasonMismatch}
	}
	return Disposition{Verb: DeadLetter, Reason: reasonUnknown, Attempt: a.Record.Attempt}
}

// unanswered decides when the store did not take the end of the work, or not even
// its beginning. Nothing of that is on record, so nothing is acknowledged.
func (h *handling) unanswered(err error) Disposition {
	switch {
	case errors.Is(err, idempotency.ErrUnknown):
		return h.retry(reasonCommitUnknown, err)
	case errors.Is(err, idempotency.ErrUnreadable):
		return h.retry(reasonRecordUnreadable, err)
	case !h.ran:
		return h.retry(reasonStoreUnavailable, err)
	case h.in.options.Guarantee != idempotency.GuaranteeTx:
		return h.retry(reasonNotRecorded, errors.Join(err, h.err))
	case h.err == nil:
		h.err = err // the database refused to commit: that can be the message's fault
	}
	return h.failed()
}

// ended decides by what the work's end made of the record.
func (h *handling) ended(s idempotency.State) Disposition {
	switch s {
	case idempotency.StateDone:
		return Disposition{Verb: Ack, Reason: reasonDone, Attempt: h.attempt}
	case idempotency.StateUnknown:
		return Disposition{Verb: DeadLetter, Reason: reasonUnknown, Attempt: h.attempt, Err: h.err}
	}
	return h.failed()
}

// reason says what becomes of a message whose work failed, by the attempts that are known.
func (h *handling) reason() Reason {
	var p permanent
	switch most := h.in.options.MaxAttempts; {
	case errors.As(h.err, &p):
		return reasonPermanent
	case h.caller.Err() != nil:
		return reasonStopped // not the message's fault
	case most > 0 && h.attempt >= most:
		return reasonAttemptsExhausted
	}
	return reasonFailed
}

// failed decides after an error of the work that left no effect, or may be repeated
// nevertheless.
func (h *handling) failed() Disposition {
	if h.in.failures != nil {
		h.countFailure()
		h.why, h.attempt = h.reason(), max(h.attempt, 1)
	}
	if h.why == reasonPermanent || h.why == reasonAttemptsExhausted {
		return Disposition{Verb: DeadLetter, Reason: h.why, Attempt: h.attempt, Err: h.err}
	}
	return h.retry(h.why, h.err)
}

// countFailure learns which attempt a failed run under Tx was: of those nothing is left in
// the message's record, so they are counted in one beside it, which a dead letter clears.
// Where the store does not answer it is none of the last.
func (h *handling) countFailure() {
	if h.reason() == reasonStopped {
		return
	}
	h.attempt = 0
	id := idempotency.IDOf(h.in.scope+failures, h.m.ID)
	_, _ = h.in.failures.Do(h.caller, id, [32]byte{}, func(ctx context.Context) (idempotency.Result, idempotency.Outcome) {
		h.attempt = idempotency.Attempt(ctx)
		if why := h.reason(); why == reasonPermanent || why == reasonAttemptsExhausted {
			return idempotency.Result{}, idempotency.OutcomeGivenUp
		}
		return idempotency.Result{}, idempotency.OutcomeFailed
	})
}

// retry asks for another delivery: the later, the more there were.
func (h *handling) retry(why Reason, err error) Disposition {
	n := max(h.attempt, h.m.Delivery, 1)
	u := chance.U(binary.BigEndian.Uint64(h.id[:]), uint64(n), 0, chance.Backoff)
	return Disposition{Reason: why, After: h.in.options.Backoff.Delay(n-1, 0, u), Attempt: h.attempt, Err: err}
}
