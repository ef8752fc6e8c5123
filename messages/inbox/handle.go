package inbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/messages/internal/joined"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// Handle runs the work of a message unless it was done before, and returns what to
// tell the broker. Tell it after Handle has returned: by then all that Ack promises
// is committed.
//
// The work may use idempotency.Token, Attempt, StepKey, NoEffect and Phase, and
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
		Code: d.Verb.String() + "/" + string(d.Cause), Attempt: uint8(min(d.Attempt, 255)), Took: time.Since(begun),
	})
}

func (in *Inbox) handle(ctx context.Context, m Message, work func(context.Context) error) Disposition {
	if d, refused := in.unfit(ctx, &m); refused {
		return d
	}
	h := in.handling()
	h.m, h.id, h.caller, h.alive, h.work = m, idempotency.IDOf(in.scope, m.ID), ctx, ctx, work
	if m.Extend != nil {
		var stop func()
		h.alive, stop = KeepVisible(ctx, Visibility{Timeout: in.options.Visibility, Max: in.options.MaxExecution}, m.Extend)
		defer stop()
	}
	var d Disposition
	if in.failures != nil && (m.Delivery > 2 || m.Delivery == 0) { // a broker that does not count says nothing of the runs before
		d = h.watched()
	} else {
		d = h.do()
	}
	h.spare()
	return d
}

// handling returns memory for one message.
func (in *Inbox) handling() *handling {
	if h, ok := in.spares.Get().(*handling); ok {
		return h
	}
	h := &handling{in: in}
	h.running = h.run
	return h
}

// spare gives the memory back. What the work may have kept is not part of it. Under Tx a
// store may have left a run behind.
func (h *handling) spare() {
	in := h.in
	if in.failures != nil {
		return
	}
	*h = handling{in: in, running: h.running}
	in.spares.Put(h)
}

func (h *handling) do() Disposition {
	a, err := h.in.runner.Do(h.caller, h.id, idempotency.Fingerprint(h.in.options.Secret, h.m.Payload), h.running)
	return h.dispose(a, err)
}

// watched is do under Tx for a message that came often, or may have. A run that takes its process with
// it leaves nothing of a transaction, so this run is counted before it begins, in the
// record beside the message's, which it holds until it has ended.
func (h *handling) watched() (d Disposition) {
	a, err := h.in.failures.Do(h.caller, h.counter(), [32]byte{}, func(ctx context.Context) (idempotency.Result, idempotency.Ending) {
		h.counted, h.age = idempotency.Attempt(ctx), idempotency.Age(ctx)
		switch d = h.do(); {
		case d.Verb != Retry:
			return idempotency.Result{}, idempotency.EndingGivenUp // the next begins anew
		case !h.ran, d.Cause == CauseRefused, h.patient:
			return idempotency.Result{}, idempotency.EndingRefused
		}
		return idempotency.Result{}, idempotency.EndingFailed
	})
	switch {
	case h.counted > 0:
		return d
	case err != nil:
		return h.retry(CauseStoreUnavailable, err)
	}
	return h.dispose(a, nil)
}

// counter names the record in which failed runs under Tx are counted.
func (h *handling) counter() idempotency.ID { return idempotency.IDOf(h.in.scope+failures, h.m.ID) }

// unfit returns what becomes of messages that can't be handled at all.
func (in *Inbox) unfit(ctx context.Context, m *Message) (d Disposition, refused bool) {
	switch {
	case m.ID == "":
		return Disposition{Verb: DeadLetter, Cause: CauseNoID}, true
	case len(m.Payload) > in.options.MaxPayload:
		return Disposition{Verb: DeadLetter, Cause: CauseTooLarge,
			Err: fmt.Errorf("inbox: the payload has %d bytes, and %d are the most", len(m.Payload), in.options.MaxPayload)}, true
	case ctx.Err() != nil:
		return Disposition{Cause: CauseStopped, Err: context.Cause(ctx)}, true
	}
	if err := m.Headers.Check(); errors.Is(err, message.ErrVersion) {
		return Disposition{Verb: DeadLetter, Cause: CauseUnknownVersion, Err: err}, true
	} else if err != nil {
		return Disposition{Verb: DeadLetter, Cause: CauseHeaderUnreadable, Err: err}, true
	}
	return Disposition{}, false
}

// A handling is a message while it is handled.
type handling struct {
	in      *Inbox
	running func(context.Context) (idempotency.Result, idempotency.Ending) // is run

	m      Message
	id     idempotency.ID
	caller context.Context
	alive  context.Context // ends with the caller's, and when the message is not kept
	work   func(context.Context) error

	ran     bool
	counted int           // which run it is, by the record beside the message's; zero if that was not asked
	age     time.Duration // since the first run, or the first that failed
	patient bool          // its runs are used up, and it is tried on
	attempt int
	err     error         // of the work
	why     Cause         // what becomes of a message whose work failed
	after   time.Duration // with CauseFailed: until the next delivery
}

// run runs the work. What it did when it failed is unknown.
func (h *handling) run(ctx context.Context) (idempotency.Result, idempotency.Ending) {
	h.ran, h.attempt, h.age = true, max(idempotency.Attempt(ctx), h.counted), max(idempotency.Age(ctx), h.age)
	begun := time.Now()
	defer func() { h.age += time.Since(begun) }()
	if h.hopeless() {
		h.ran = false
		idempotency.NoEffect(ctx)
		return idempotency.Result{}, idempotency.EndingGivenUp
	}
	until := &joined.Context{Context: ctx, Other: h.alive, Unread: true, Cause: ErrExpired}
	until.At, _ = h.m.Headers.Deadline()
	defer until.End()
	h.err = guarded(until, h.work)
	switch h.why = h.reason(); {
	case h.err == nil:
		return idempotency.Result{}, idempotency.EndingSucceeded
	case errors.Is(h.err, ErrAbandoned) && !(h.why == CauseAttemptsExhausted && h.in.options.Guarantee == idempotency.GuaranteeReexecute):
		return idempotency.Result{}, idempotency.EndingAbandoned
	case h.why == CausePermanent, h.why == CauseAttemptsExhausted:
		return idempotency.Result{}, idempotency.EndingGivenUp // it may be mended and sent again
	case h.why == CauseRefused, h.patient:
		return idempotency.Result{}, idempotency.EndingRefused // no run, and those before count
	}
	return idempotency.Result{}, idempotency.EndingUnknown
}

// hopeless reports whether there is no point in another run: the deadline has passed, or the
// runs before were lost with their processes.
func (h *handling) hopeless() bool {
	h.why = ""
	if end, _ := h.m.Headers.Deadline(); !end.IsZero() && !time.Now().Before(end) {
		h.why, h.err = CauseExpired, fmt.Errorf("%w %v ago", ErrExpired, time.Since(end).Round(time.Millisecond))
		return true
	}
	if h.attempt > 1 {
		var why policy.Reason
		judge := h.m.Judge // which is asked again about the run's own error
		h.judged(func() { _, why = h.judge(ErrNeverEnded, h.attempt-1) })
		h.m.Judge = judge
		if why == policy.AttemptsExhausted {
			h.why, h.err = CauseAttemptsExhausted, fmt.Errorf("%w: there were %d runs", ErrNeverEnded, h.attempt-1)
			h.attempt--
			return true
		}
	}
	return false
}

// judged asks an error what it means, or the Judge: both are the user's. A panic
// there counts as a panic of the work, and Options.Retry decides about it.
func (h *handling) judged(ask func()) {
	defer func() {
		if v := recover(); v != nil {
			h.m.Judge = nil
			h.err = fmt.Errorf("%w, when its error was judged: %v", &PanicError{Value: v, Stack: debug.Stack()}, h.err) //nolint:errorlint // it is not to be asked again
			ask()
		}
	}()
	ask()
}

// judge asks who decides for the message.
func (h *handling) judge(err error, runs int) (time.Duration, policy.Reason) {
	if h.m.Judge != nil {
		return h.m.Judge(err, runs)
	}
	o := classify.Error(err)
	return machine.Redelivery(&h.in.options.Retry, &o, runs, h.seed())
}

// seed names the message for draws: its waits are the same wherever it is handled.
func (h *handling) seed() uint64 { return binary.BigEndian.Uint64(h.id[:]) }

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
		if h.why == CauseExpired {
			return h.expired()
		}
		return h.ended(a.Record.State)
	case idempotency.DecisionReplay:
		return Disposition{Verb: Ack, Cause: CauseDuplicate, Attempt: a.Record.Attempt}
	case idempotency.DecisionInProgress:
		return Disposition{Cause: CauseInProgress, After: machine.AskAgain(a.Left)}
	case idempotency.DecisionMismatch:
		return Disposition{Verb: DeadLetter, Cause: CauseMismatch}
	}
	return Disposition{Verb: DeadLetter, Cause: CauseUnknown, Attempt: a.Record.Attempt}
}

// unanswered decides when the store did not take the end of the work, or not even
// its beginning. Nothing of that is on record, so nothing is acknowledged.
func (h *handling) unanswered(err error) Disposition {
	switch {
	case errors.Is(err, idempotency.ErrUnknown):
		return h.retry(CauseCommitUnknown, err)
	case errors.Is(err, idempotency.ErrUnreadable):
		return h.retry(CauseRecordUnreadable, err)
	case !h.ran:
		return h.retry(CauseStoreUnavailable, err)
	case h.in.options.Guarantee != idempotency.GuaranteeTx:
		return h.retry(CauseNotRecorded, errors.Join(err, h.err))
	case h.err == nil:
		h.err = err // the database refused to commit: that can be the message's fault
	}
	return h.failed()
}

// ended decides by what the work's end made of the record.
func (h *handling) ended(s idempotency.State) Disposition {
	switch s {
	case idempotency.StateDone:
		return Disposition{Verb: Ack, Cause: CauseDone, Attempt: h.attempt}
	case idempotency.StateUnknown:
		return Disposition{Verb: DeadLetter, Cause: CauseUnknown, Attempt: h.attempt, Err: h.err}
	}
	return h.failed()
}

// stopped reports whether a context has ended. Others may have acted on its deadline a
// moment before its own timer does.
func stopped(ctx context.Context) bool {
	at, ends := ctx.Deadline()
	return ctx.Err() != nil || ends && !time.Now().Before(at)
}

// expired decides about a message whose deadline has passed.
func (h *handling) expired() Disposition {
	d := Disposition{Verb: DeadLetter, Cause: CauseExpired, Attempt: h.attempt - 1, Err: h.err}
	if h.in.options.DropExpired {
		d.Verb = Ack
	}
	return d
}

// reason says what becomes of a message whose work failed, by the runs that are known.
func (h *handling) reason() (why Cause) {
	if h.err != nil {
		h.judged(func() { why = h.verdict() })
	}
	return why
}

func (h *handling) verdict() Cause {
	switch {
	case isRejected(h.err):
		return CausePermanent
	case stopped(h.caller):
		return CauseStopped // not the message's fault
	}
	after, why := h.judge(h.err, h.attempt)
	if h.patient = why == policy.AttemptsExhausted && h.age < h.in.options.GiveUpAfter && !h.own(); h.patient {
		after, why = machine.TryOn(&h.in.options.Retry, h.age, h.in.options.GiveUpAfter, h.seed()), policy.None
	}
	h.after = max(after, time.Nanosecond)
	switch {
	case why == policy.None:
		return CauseFailed
	case why == policy.AttemptsExhausted:
		return CauseAttemptsExhausted
	case why.Local():
		return CauseRefused
	}
	return CausePermanent
}

// own reports whether it is the message's own fault for certain, and no outage, that its work
// failed.
func (h *handling) own() bool {
	var p *PanicError
	return errors.Is(h.err, ErrAbandoned) || errors.Is(h.err, ErrNeverEnded) || errors.As(h.err, &p)
}

// failed decides after an error of the work that left no effect, or may be repeated
// nevertheless.
func (h *handling) failed() Disposition {
	if h.in.failures != nil && h.ran && h.why != CauseRefused {
		if h.counted == 0 {
			h.countFailure()
		}
		h.why, h.attempt = h.reason(), max(h.attempt, 1)
	}
	if h.why == CausePermanent || h.why == CauseAttemptsExhausted {
		return Disposition{Verb: DeadLetter, Cause: h.why, Attempt: h.attempt, Err: h.err}
	}
	if h.why == CauseFailed || h.why == CauseRefused {
		return Disposition{Cause: h.why, After: h.after, Attempt: h.attempt, Err: h.err}
	}
	return h.retry(h.why, h.err)
}

// countFailure learns which attempt a failed run under Tx was. The rollback leaves nothing in
// the message's record, so failures are counted in one beside it, which a dead letter clears. If
// the store does not answer, this run is not the last attempt.
func (h *handling) countFailure() {
	if h.reason() == CauseStopped {
		return
	}
	h.attempt = 0
	_, _ = h.in.failures.Do(h.caller, h.counter(), [32]byte{}, func(ctx context.Context) (idempotency.Result, idempotency.Ending) {
		h.attempt, h.age = idempotency.Attempt(ctx), idempotency.Age(ctx)
		switch why := h.reason(); {
		case why == CausePermanent, why == CauseAttemptsExhausted:
			return idempotency.Result{}, idempotency.EndingGivenUp
		case h.patient:
			return idempotency.Result{}, idempotency.EndingRefused
		}
		return idempotency.Result{}, idempotency.EndingFailed
	})
}

// retry asks for another delivery: the later, the more there were.
func (h *handling) retry(why Cause, err error) Disposition {
	n := max(h.attempt, h.m.Delivery, 1)
	return Disposition{Cause: why, After: machine.PutOff(&h.in.options.Retry, n, h.seed()), Attempt: h.attempt, Err: err}
}
