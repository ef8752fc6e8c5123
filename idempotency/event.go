package idempotency

import (
	"context"
	"log/slog"
	"time"
)

// A Signal says what a [Notice] tells. Its text is a metric's label.
type Signal string

const (
	Began           Signal = "begin"              // a claim was decided: see Decision; Took is the store's time
	Refused         Signal = "refused"            // a request was answered with a problem: see Problem
	Replayed        Signal = "replay"             // an answer was replayed: Bytes of body
	Ended           Signal = "end"                // a run ended: see State; Took is the store's time
	LeaseLost       Signal = "lease_lost"         // another has the record, or it counts as lost
	ExtendFailed    Signal = "extend_fail"        // a heartbeat got no answer
	CompleteFailed  Signal = "complete_fail"      // an end was not stored, or a claim not given back; it is tried again unless Final
	OutcomeLost     Signal = "unknown"            // nobody knows what a run did
	Overran         Signal = "abandoned"          // a handler took longer than MaxExecution and was cancelled
	FailedOpen      Signal = "fail_open"          // a request ran unprotected
	CookieDropped   Signal = "dropped_set_cookie" // a response set a cookie, which is not kept
	BodyDropped     Signal = "body_omitted"       // a response was too big or streamed, and is not kept
	BodyFailed      Signal = "body_fail"          // a streamed request body was not what its Content-Digest says, or did not come whole
	AnswerBroke     Signal = "answer_broke"       // a handler wrote less than the Content-Length that it declared: nothing of that is kept
	BrokenOff       Signal = "broken_off"         // an answer that was on its way was ended abnormally: see Problem, which would have taken its place
	WrittenLate     Signal = "written_late"       // a handler wrote to the response after it returned
	FlushHeld       Signal = "flush_held"         // a handler flushed before COMMIT: it is sent afterwards
	RecoverFailed   Signal = "recover_fail"       // Recover failed
	WaitersExceeded Signal = "waiters_full"       // a duplicate could not wait
	StoreUnsafe     Signal = "store_unsafe"       // when a Handler is made: Err is one of the store's Warnings
	Swept           Signal = "sweep"              // a round of Sweep ended: Records were changed
	SweepFailed     Signal = "sweep_fail"         // a round of Sweep ended early: Records were changed before; it is tried again
)

// A Notice is something that happened. It holds neither key nor body: ID's text is
// the beginning of a hash. That of a sweep is about no key and no guarantee.
type Notice struct {
	Signal    Signal
	ID        ID
	Guarantee Guarantee
	Decision  Decision
	State     State
	Problem   Problem
	Attempt   int
	Bytes     int
	Records   int
	Took      time.Duration
	Final     bool
	Err       error
}

// An Observer is told what happens, after it happened and outside every lock, by
// the goroutine in which it did. It must be safe for concurrent use and not block.
// A panic of it is swallowed.
type Observer interface {
	Observe(context.Context, Notice)
}

// LogTo returns an Observer that logs: trouble as warnings, the rest for debugging.
func LogTo(log *slog.Logger) Observer { return logger{log} }

type logger struct{ log *slog.Logger }

var trouble = map[Signal]bool{
	LeaseLost: true, ExtendFailed: true, CompleteFailed: true, OutcomeLost: true, Overran: true,
	FailedOpen: true, StoreUnsafe: true, AnswerBroke: true, BrokenOff: true, WrittenLate: true, RecoverFailed: true, CookieDropped: true, WaitersExceeded: true,
}

// Observe implements Observer.
func (l logger) Observe(ctx context.Context, n Notice) {
	level := slog.LevelDebug
	if trouble[n.Signal] || n.Err != nil {
		level = slog.LevelWarn
	}
	var attrs []slog.Attr
	if n.Signal == Swept || n.Signal == SweepFailed {
		attrs = append(attrs, slog.Int("records", n.Records), slog.Duration("took", n.Took))
	} else {
		if n.ID != (ID{}) { // there is none where the key is missing, or nothing was asked yet
			attrs = append(attrs, slog.String("key_hash", n.ID.String()))
		}
		attrs = append(attrs, slog.String("guarantee", n.Guarantee.String()))
	}
	if n.Decision != 0 {
		attrs = append(attrs, slog.String("decision", n.Decision.String()))
	}
	if n.State != Absent {
		attrs = append(attrs, slog.String("state", n.State.String()))
	}
	if n.Problem != "" {
		attrs = append(attrs, slog.String("problem", string(n.Problem)))
	}
	if n.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", n.Attempt))
	}
	if n.Err != nil {
		attrs = append(attrs, slog.Any("error", n.Err))
	}
	l.log.LogAttrs(ctx, level, "idempotency: "+string(n.Signal), attrs...)
}

// tell publishes a notice.
func (c *core) tell(ctx context.Context, n Notice) {
	if c.terms.Observer != nil {
		c.tellTo(ctx, c.terms.Observer, n)
	}
}

func (c *core) tellTo(ctx context.Context, to Observer, n Notice) {
	defer func() { _ = recover() }()
	n.Guarantee = c.terms.Guarantee
	to.Observe(ctx, n)
}
