package idempotency

import (
	"context"
	"maps"
	"slices"
	"time"
)

// An EventKind says what an [Event] tells. It is one of [EventKinds], and meant as the
// label of a metric:
//
//	begin               a claim was decided: see Decision; Took is the time of the store
//	refused             a request was answered with a problem: see Problem
//	replay              a stored answer was sent, with Bytes of body
//	end                 a run ended: see State; Took is the time of the store
//	lease_lost          another has the record, or it counts as lost
//	extend_fail         the store did not extend a lease
//	complete_fail       the end of a run was not stored; it is tried again unless Final
//	unknown             it is not known what a run did
//	abandoned           a handler took longer than MaxExecution and was cancelled
//	fail_open           a request ran unprotected
//	dropped_set_cookie  a response set a cookie, which is not kept
//	body_omitted        a response was too big or streamed, and is not kept
//	body_fail           a streamed request body was not what its Content-Digest says, or broke off
//	answer_broke        a handler wrote less than the Content-Length that it declared
//	broken_off          an answer that was being sent was cut off: see Problem
//	written_late        a handler wrote to the response after it had returned
//	flush_held          a handler flushed before COMMIT: it is sent afterwards
//	recover_fail        Recover failed
//	waiters_full        a duplicate could not wait, for too many do
//	store_unsafe        a Handler or Runner was made: Err is one of the store's Warnings
//	sweep               a round of Sweep ended: Records were changed
//	sweep_fail          a round of Sweep failed after Records were changed; it is tried again
type EventKind string

const (
	eventBegan          EventKind = "begin"
	eventRefused        EventKind = "refused"
	eventReplayed       EventKind = "replay"
	eventEnded          EventKind = "end"
	eventLeaseLost      EventKind = "lease_lost"
	eventExtendFailed   EventKind = "extend_fail"
	eventCompleteFailed EventKind = "complete_fail"
	eventUnknown        EventKind = "unknown"
	eventAbandoned      EventKind = "abandoned"
	eventFailedOpen     EventKind = "fail_open"
	eventCookieDropped  EventKind = "dropped_set_cookie"
	eventBodyOmitted    EventKind = "body_omitted"
	eventBodyFailed     EventKind = "body_fail"
	eventAnswerBroke    EventKind = "answer_broke"
	eventBrokenOff      EventKind = "broken_off"
	eventWrittenLate    EventKind = "written_late"
	eventFlushHeld      EventKind = "flush_held"
	eventRecoverFailed  EventKind = "recover_fail"
	eventWaitersFull    EventKind = "waiters_full"
	eventStoreUnsafe    EventKind = "store_unsafe"
	eventSwept          EventKind = "sweep"
	eventSweepFailed    EventKind = "sweep_fail"
)

// trouble has all kinds; true means that an operator should look.
var trouble = map[EventKind]bool{
	eventBegan:          false,
	eventRefused:        false,
	eventReplayed:       false,
	eventEnded:          false,
	eventLeaseLost:      true,
	eventExtendFailed:   true,
	eventCompleteFailed: true,
	eventUnknown:        true,
	eventAbandoned:      true,
	eventFailedOpen:     true,
	eventCookieDropped:  true,
	eventBodyOmitted:    false,
	eventBodyFailed:     false,
	eventAnswerBroke:    true,
	eventBrokenOff:      true,
	eventWrittenLate:    true,
	eventFlushHeld:      false,
	eventRecoverFailed:  true,
	eventWaitersFull:    true,
	eventStoreUnsafe:    true,
	eventSwept:          false,
	eventSweepFailed:    false,
}

// EventKinds returns all kinds, in the order of their names.
func EventKinds() []EventKind { return slices.Sorted(maps.Keys(trouble)) }

// An Event is something that happened. It holds neither key nor body: ID's text is the
// beginning of a hash. An event of a sweep has no ID and no Guarantee.
type Event struct {
	Kind      EventKind
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

// An Observer receives events, after they happened and outside every lock, in the
// goroutine in which they happened. It must be safe for concurrent use and must not
// block. Its panics are ignored.
type Observer interface {
	Observe(context.Context, Event)
}

// tell publishes an event.
func (c *core) tell(ctx context.Context, e Event) {
	if c.terms.Observer != nil {
		c.tellTo(ctx, c.terms.Observer, e)
	}
}

func (c *core) tellTo(ctx context.Context, to Observer, e Event) {
	defer func() { _ = recover() }()
	e.Guarantee = c.terms.Guarantee
	to.Observe(ctx, e)
}
