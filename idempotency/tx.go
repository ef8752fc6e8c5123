package idempotency

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"
)

// serveTx serves a request whose effects and record commit together. Nothing is
// sent before.
func (h *Handler) serveTx(w http.ResponseWriter, r *http.Request, in input) {
	t := &txServe{h: h, w: w, r: r, in: in, before: w.Header().Clone()}
	asked, told := time.Now(), false
	defer func() {
		if !told {
			h.leftTx(r.Context(), t.granted, asked)
		}
	}()
	a, begun, err := t.ask()
	h.tell(r.Context(), Event{Kind: eventBegan, ID: in.claim.ID, Decision: a.Decision, State: a.Record.State, Took: time.Since(begun), Err: err})
	if err == nil && a.Decision == DecisionInProgress && h.config.Wait > 0 {
		a, _, err = h.wait(r.Context(), in.claim.ID, a, t.ask)
	}
	told = true
	h.decided(r.Context(), a, asked, err)
	if err == nil && a.Decision == DecisionRun {
		t.respond()
		h.waiting.wake(in.claim.ID)
		return
	}
	t.restore()
	switch {
	case err == nil:
		h.answer(w, r, in.claim.ID, a)
	case errors.Is(err, ErrUnknown):
		h.tell(r.Context(), Event{Kind: eventUnknown, ID: in.claim.ID, Err: err})
		h.refuse(w, r, in.claim.ID, refusal{problem: problemUnknown, status: http.StatusServiceUnavailable, retryAfter: time.Second, err: err})
	case errors.Is(err, ErrUnreadable):
		h.refuse(w, r, in.claim.ID, refusal{problem: problemRecordUnreadable, err: err})
	default:
		h.refuse(w, r, in.claim.ID, refusal{problem: problemStoreUnavailable, retryAfter: time.Second, err: err})
	}
}

// A txServe is a request being served in a transaction, perhaps more than once.
type txServe struct {
	h       *Handler
	w       http.ResponseWriter
	r       *http.Request
	in      input
	before  http.Header // the response's header before the handler wrote to it
	rec     *recorder   // of the last run
	granted Record      // that the last run had
	fault   error       // of its body, when it succeeded and was rolled back for that
	broken  Problem     // with its answer, for which it was rolled back
}

// respond answers what was decided to be the answer.
func (t *txServe) respond() {
	if t.fault != nil {
		t.restore()
		t.h.refuse(t.w, t.r, t.in.claim.ID, faultOf(t.fault))
		return
	}
	if t.broken != "" {
		t.restore()
		t.h.refuse(t.w, t.r, t.in.claim.ID, refusal{problem: t.broken})
		return
	}
	t.rec.finish()
}

func (t *txServe) ask() (Answer, time.Time, error) {
	begun := time.Now()
	a, err := t.h.within(t.r.Context(), t.in.claim, t.run)
	return a, begun, err
}

func (t *txServe) restore() {
	clear(t.w.Header())
	maps.Copy(t.w.Header(), t.before)
}

func (t *txServe) run(ctx context.Context, record Record) (Result, Ending, error) {
	t.restore()
	t.broken, t.granted = "", record
	x := &run{ref: Ref{t.in.claim.ID, record.Token}, attempt: record.Attempt, stream: t.in.stream}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	x.Context = within
	if x.stream != nil {
		if !x.stream.open() {
			return Result{}, EndingFailed, errReread // the client repeats what the database wants repeated
		}
		defer x.stream.endWith(ctx, t.w)()
	}
	rec := &recorder{w: t.w, limit: t.h.limit, held: true, host: t, head: t.r.Method == http.MethodHead}
	t.rec = rec
	returned := false
	defer func() {
		rec.close(returned)
		if !returned {
			t.restore()
		}
	}()
	t.h.next.ServeHTTP(rec, t.in.request(x, t.r, new(replayedBody)))
	returned = true
	rec.close(true)
	if rec.burst {
		t.broken = problemAnswerTooLarge
		return Result{}, EndingFailed, nil
	}
	how := t.outcome(ctx, x)
	if err := context.Cause(ctx); err != nil {
		return Result{}, EndingFailed, err
	}
	res := rec.result(t.h.keep)
	if len(rec.header.get("Set-Cookie")) > 0 {
		t.note(eventCookieDropped)
	}
	return res, x.endsTx(how), nil
}

// outcome says how the run ended, its body included.
func (t *txServe) outcome(ctx context.Context, x *run) Ending {
	how := endingOf(t.rec.status)
	if t.h.declines(t.rec.status) {
		x.decline()
	}
	if t.rec.short() {
		t.broken, how = problemAnswerBroken, how.broken()
		t.note(eventAnswerBroke)
	}
	if x.stream == nil {
		return how
	}
	fault := t.h.finish(ctx, x.ref.ID, x.stream, x.endsTx(how) == EndingSucceeded)
	if fault == nil {
		return how
	}
	if how == EndingSucceeded {
		t.fault = fault
	}
	return how.unverified()
}

func (t *txServe) note(s EventKind) {
	t.h.tell(t.r.Context(), Event{Kind: s, ID: t.in.claim.ID})
}

// verified is not asked: inside a transaction nothing is sent early.
func (t *txServe) verified() bool { return true }

// keepEarly is never called: inside a transaction nothing is sent early.
func (t *txServe) keepEarly(Result) {}
