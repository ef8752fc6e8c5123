package idempotency

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// An execution is a run under a lease, with what is needed to end it.
type execution struct {
	run
	values endless
	claim  lateContext // of the store's work at the beginning
	life   lateContext
	bound  lateContext // of the store's work at the end
	core   *core
	beat   atomic.Pointer[heartbeat] // nil once it was stopped
	fenced atomic.Bool               // it had ended the run
}

// start makes x the run of a claim that was granted, and starts its heartbeat. The work goes on
// when its client goes: half of it would be of no use, and the client will ask again.
func (x *execution) start(ctx context.Context, c *core, id ID, record Record, begun time.Time) {
	x.core = c
	x.values.Context = ctx
	x.life.Context = &x.values
	x.Context = &x.life
	x.store, x.ref, x.attempt, x.points = c.store, Ref{id, record.Token}, record.Attempt, record.Points
	x.age = record.LeaseUntil.Sub(record.Created) - c.terms.Lease
	x.beat.Store(c.startBeat(x, begun))
}

// stop ends the heartbeat and reports whether it had ended the run. It may be called
// again.
func (x *execution) stop() (fenced bool) {
	if b := x.beat.Swap(nil); b != nil && b.stop() {
		x.fenced.Store(true)
	}
	return x.fenced.Load()
}

func (x *execution) note(s EventKind) { x.core.tell(x, Event{Kind: s, ID: x.ref.ID}) }

// settle ends the run: it makes the change, or sees to it that it is made.
func (x *execution) settle(c Change) error {
	bound := &x.bound
	if bound.Context != nil { // a run ends once, but who knows
		bound = new(lateContext)
	}
	bound.Context, bound.limit = x, resultTimeout
	if err := x.core.applyIn(bound, x.ref, c); err != nil {
		x.failed(err, c)
		return err
	}
	x.core.tell(x, Event{Kind: eventEnded, ID: x.ref.ID, State: c.State, Bytes: len(c.Result.Body)})
	return nil
}

// failed sees to a change that the store did not take. Nothing is released in its
// place: the work may have been done. The change is tried again after the response.
func (x *execution) failed(err error, c Change) {
	if errors.Is(err, ErrLeaseLost) {
		x.note(eventLeaseLost)
		return
	}
	x.core.tell(x, Event{Kind: eventCompleteFailed, ID: x.ref.ID, Err: err})
	x.core.bring(context.WithoutCancel(x), x.ref, c)
}

// lost ends a run whose work did not return.
func (x *execution) lost() {
	c := x.ends(EndingUnknown, x.core.terms.Guarantee)
	_ = x.settle(c)
	if c.State == StateUnknown {
		x.note(eventUnknown)
	}
}

// An exchange is an execution of the handler, with its request and response.
type exchange struct {
	execution
	h      *Handler
	client context.Context // the request's, which ends when the client goes
	rec    recorder
	body   replayedBody
	before lines // the response's, where another answer may take its place, until the handler wrote to it
}

// run runs the handler under its claim.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, in input, record Record, begun time.Time) {
	defer h.seats.leave()
	x := &exchange{h: h, client: r.Context()}
	x.rec.w, x.rec.limit, x.rec.host, x.rec.head = w, h.limit, x, r.Method == http.MethodHead
	if h.config.Guarantee == GuaranteeHold || in.stream != nil {
		x.before = linesOf(w.Header())
	}
	x.stream = in.stream
	x.start(r.Context(), &h.core, in.claim.ID, record, begun)
	defer x.life.end(nil)
	if in.stream != nil {
		defer in.stream.endWith(&x.life, w)()
	}
	returned := false
	defer func() {
		x.rec.close(returned)
		if !returned { // a panic or Goexit goes on up
			x.stop()
			x.rec.retract(x.before)
			if !x.rec.stored {
				x.lost()
			}
		}
		h.waiting.wake(in.claim.ID)
	}()
	h.next.ServeHTTP(&x.rec, in.request(&x.execution.run, r, &x.body))
	returned = true
	x.rec.close(true)
	x.end(r)
}

// keepEarly stores that the work is done while its response is still under way:
// it can't be kept. From then on there is no lease, and the work is the client's. What
// is done with a body that was not verified yet is unknown.
func (x *exchange) keepEarly(res Result) {
	x.stop()
	c := Change{State: StateDone, Result: res}
	if !x.verified() {
		c = Change{State: StateUnknown}
	}
	bound := &x.bound
	if bound.Context != nil { // a run ends once, but who knows
		bound = new(lateContext)
	}
	bound.Context, bound.limit = x, resultTimeout
	if err := x.core.applyIn(bound, x.ref, c); err != nil {
		x.failed(err, c)
	}
	context.AfterFunc(x.client, func() { x.life.end(context.Cause(x.client)) })
}

// end ends a run whose handler returned.
func (x *exchange) end(r *http.Request) {
	fault := x.fault() // before the heartbeat stops: reading the rest may take its time
	wasFenced := x.stop()
	if x.rec.stored {
		if fault != nil {
			x.refuse(r, faultOf(fault))
		}
		x.rec.finish()
		return
	}
	res := x.rec.result(x.h.keep)
	if len(x.rec.header.get("Set-Cookie")) > 0 {
		x.note(eventCookieDropped)
	}
	how := endingOf(res.Status)
	if wasFenced && res.Status >= 300 {
		how = fenced // what it answered may be the cancellation's doing
	}
	if fault != nil {
		how = how.unverified()
	}
	if x.unsure.Load() && how != fenced && how != EndingSucceeded {
		how = EndingUnknown
	}
	broken := x.rec.short()
	if broken {
		how = how.broken()
		x.note(eventAnswerBroke)
	}
	if how != fenced && x.h.declines(res.Status) {
		x.decline()
	}
	c := x.ends(how, x.h.config.Guarantee)
	switch c.State {
	case StateDone:
		x.complete(r, res)
	case StateRetryable:
		_ = x.settle(c)
		switch {
		case fault != nil && how == EndingUnknown:
			x.refuse(r, faultOf(fault))
		case broken && (x.before != nil || x.rec.sent):
			x.refuse(r, refusal{problem: problemAnswerBroken})
		default:
			x.rec.finish() // half an answer as it is, with the length that it has not
		}
	case StateUnknown:
		_ = x.settle(c)
		if how == EndingUnknown {
			x.note(eventUnknown)
		}
		x.unknown(r)
	case left:
		x.rec.finish()
	}
}

// fault returns what is wrong with a streamed body, and reads no more of it. Once the
// run's end is stored that counts only if a reader met it.
func (x *exchange) fault() error {
	if x.stream == nil {
		return nil
	}
	err := x.h.finish(x, x.ref.ID, x.stream, !x.rec.stored && endingOf(x.rec.status) == EndingSucceeded)
	if x.rec.stored && err == errUnread {
		return nil
	}
	return err
}

// complete stores the result, then sends it.
func (x *exchange) complete(r *http.Request, res Result) {
	err := x.settle(Change{State: StateDone, Result: res})
	if errors.Is(err, ErrLeaseLost) && x.h.config.Guarantee == GuaranteeHold {
		// Another caller got "unknown" as the outcome and may have settled it otherwise: this
		// answer would contradict that.
		x.unknown(r)
		return
	}
	if err != nil && !x.rec.sent {
		x.rec.header.set(headerStatus, notRecorded)
	}
	x.rec.finish()
}

// unknown answers that the outcome is unknown.
func (x *exchange) unknown(r *http.Request) { x.refuse(r, refusal{problem: problemUnknown}) }

// refuse answers in the handler's place. An answer that is on its way is broken off, as net/http
// does on http.ErrAbortHandler: a client that has read a success so far gets an error when it
// reads on. The record is made by then.
func (x *exchange) refuse(r *http.Request, no refusal) {
	switch {
	case x.rec.hijacked:
		return // the handler has the connection
	case x.rec.sent:
		x.core.tell(x, Event{Kind: eventBrokenOff, ID: x.ref.ID, Problem: no.problem, Err: no.err})
		panic(http.ErrAbortHandler)
	}
	x.before.restore(x.rec.w.Header()) // what the handler said, the body's length included, is of another answer
	x.h.refuse(x.rec.w, r, x.ref.ID, no)
}
