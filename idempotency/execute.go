package idempotency

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// An execution is a run with what the Handler needs to end it.
type execution struct {
	run
	h      *Handler
	client context.Context // the request's, which ends when the client goes
	rec    recorder
	beat   heartbeat
	body   replayedBody
}

// run runs the handler under its claim.
func (h *Handler) run(w http.ResponseWriter, r *http.Request, in input, record Record, begun time.Time) {
	x := &execution{h: h, client: r.Context()}
	// The work goes on when its client goes: half of it would help nobody, and the
	// client will ask again.
	x.Context, x.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer x.cancel(nil)
	x.store, x.ref, x.points = h.store, Ref{in.claim.ID, record.Token}, record.Points
	x.rec.w, x.rec.limit, x.rec.host = w, h.limit, x
	x.beat.start(h, &x.run, begun)
	returned := false
	defer func() {
		x.rec.close(returned)
		if !returned { // a panic or Goexit goes on up
			x.lost()
		}
		h.waiting.wake(in.claim.ID)
	}()
	h.next.ServeHTTP(&x.rec, in.request(&x.run, r, &x.body))
	returned = true
	x.rec.close(true)
	x.end(r)
}

func (x *execution) note(s Signal) { x.h.tell(x, Notice{Signal: s, ID: x.ref.ID}) }

// keepEarly stores that the work is done while its response is still under way:
// it can't be kept. From then on there is no lease, and the work is the client's.
func (x *execution) keepEarly(res Result) {
	x.beat.stop()
	if err := x.apply(Change{Event: Complete, Result: res}); err != nil {
		x.failed(err, Change{Event: Complete, Result: res})
	}
	context.AfterFunc(x.client, func() { x.cancel(context.Cause(x.client)) })
}

// end ends a run whose handler returned.
func (x *execution) end(r *http.Request) {
	fenced := x.beat.stop()
	if x.rec.stored {
		x.rec.finish(nil)
		return
	}
	res := x.rec.result(x.h.keep)
	if len(x.rec.header["Set-Cookie"]) > 0 {
		x.note(CookieDropped)
	}
	how := mannerOf(res.Status, x.rec.header)
	if fenced && res.Status >= 300 {
		how = fencedManner // what it answered may be the cancellation's doing
	}
	switch how.ending(x.h.config.Guarantee, x.noEffect.Load()) {
	case completes:
		x.complete(r, res)
	case releases:
		x.settle(Change{Event: Release})
		x.rec.finish(res.Trailer)
	case abandons:
		x.settle(Change{Event: Abandon})
		x.unknown(r, res)
	case leaves:
		x.rec.finish(res.Trailer)
	}
}

const fencedManner = fenced

// complete stores the result, then sends it.
func (x *execution) complete(r *http.Request, res Result) {
	c := Change{Event: Complete, Result: res}
	err := x.apply(c)
	switch {
	case err == nil:
		x.tellEnd(Done)
	case errors.Is(err, ErrLeaseLost) && x.h.config.Guarantee == Hold:
		// Somebody was told that the outcome is unknown and may have settled it
		// otherwise: this answer would contradict that.
		x.note(LeaseLost)
		x.unknown(r, res)
		return
	default:
		x.failed(err, c)
		if !x.rec.sent {
			x.rec.header[HeaderStatus] = notRecorded
		}
	}
	x.rec.finish(res.Trailer)
}

// unknown answers that the outcome is unknown, unless the response is on its way.
func (x *execution) unknown(r *http.Request, res Result) {
	if x.rec.sent || x.rec.hijacked {
		return
	}
	head := x.rec.w.Header()
	for _, f := range res.Header {
		delete(head, f.Name)
	}
	x.h.refuse(x.rec.w, r, x.ref.ID, refusal{problem: OutcomeIsUnknown})
}

// lost ends a run whose handler did not return.
func (x *execution) lost() {
	x.beat.stop()
	if x.rec.stored {
		return
	}
	if panicked.ending(x.h.config.Guarantee, x.noEffect.Load()) == releases {
		x.settle(Change{Event: Release})
		return
	}
	x.settle(Change{Event: Abandon})
	x.note(OutcomeLost)
}

// settle ends the run without a result.
func (x *execution) settle(c Change) {
	if err := x.apply(c); err != nil {
		x.failed(err, c)
		return
	}
	state := Retryable
	if c.Event == Abandon {
		state = Unknown
	}
	x.tellEnd(state)
}

func (x *execution) tellEnd(s State) {
	x.h.tell(x, Notice{Signal: Ended, ID: x.ref.ID, State: s, Bytes: len(x.rec.body)})
}

// resultTimeout bounds the storing of a result. It does not depend on the client.
const resultTimeout = 5 * time.Second

func (x *execution) apply(c Change) error { return x.h.apply(x, x.ref, c) }

// apply makes a change. A body that is too large for the store is left out: what
// was done stays done.
func (h *Handler) apply(ctx context.Context, ref Ref, c Change) error {
	bound := newBounded(ctx, time.Now().Add(resultTimeout))
	defer bound.stop()
	err := h.store.Apply(bound, ref, c)
	if errors.Is(err, ErrTooLarge) && len(c.Result.Body) > 0 {
		h.tell(ctx, Notice{Signal: BodyDropped, ID: ref.ID})
		c.Result.Body, c.Result.Omitted = nil, true
		err = h.store.Apply(bound, ref, c)
	}
	return err
}

// failed sees to a change that the store did not take. Nothing is released in its
// place: the work may have been done. The change is tried again after the response.
func (x *execution) failed(err error, c Change) {
	if errors.Is(err, ErrLeaseLost) {
		x.note(LeaseLost)
		return
	}
	x.h.tell(x, Notice{Signal: CompleteFailed, ID: x.ref.ID, Err: err})
	x.h.bring(context.WithoutCancel(x), x.ref, c)
}

// Bounds of what is brought to the store after its response.
const (
	maxLater   = 256 // goroutines: more would only press a store that is down
	laterTries = 5
)

// bring tries a change again, five times until the lease is about over.
func (h *Handler) bring(ctx context.Context, ref Ref, c Change) {
	h.afterwards(func() {
		pause := h.config.Lease / 64
		var err error
		for range laterTries {
			sleep(ctx, pause) // 2+4+8+16+32 of 64 parts
			pause *= 2
			if err = h.apply(ctx, ref, c); err == nil || errors.Is(err, ErrLeaseLost) {
				break
			}
		}
		if err != nil {
			h.tell(ctx, Notice{Signal: CompleteFailed, ID: ref.ID, Final: true, Err: err})
		}
		h.waiting.wake(ref.ID)
	}, func() { h.tell(ctx, Notice{Signal: CompleteFailed, ID: ref.ID, Final: true, Err: errTooMany}) })
}

var errTooMany = errors.New("idempotency: too many results wait for the store")

// disown gives a claim back that may have been granted unheard: nothing ran under
// it, and without this the key would be blocked, under Hold for ever.
func (h *Handler) disown(ctx context.Context, c Claim) {
	ctx = context.WithoutCancel(ctx)
	h.afterwards(func() {
		pause := h.config.Lease / 64
		for range laterTries {
			sleep(ctx, pause)
			pause *= 2
			a, _, err := h.claim(ctx, c)
			if err == nil && a.Decision == Run {
				err = h.apply(ctx, Ref{c.ID, a.Record.Token}, Change{Event: Release})
			}
			if err == nil || refused(err) {
				return
			}
		}
	}, func() {})
}

// afterwards runs work in a goroutine, or instead when there are too many.
func (h *Handler) afterwards(work, instead func()) {
	if h.later.Add(1) > maxLater {
		h.later.Add(-1)
		instead()
		return
	}
	go func() {
		defer h.later.Add(-1)
		work()
	}()
}
