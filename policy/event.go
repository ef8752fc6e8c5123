package policy

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Kind says what an [Event] reports.
type Kind uint8

// What is reported. The first group is about one call, in the order in which the
// call's decisions were made; the second is about the dependency.
const (
	KindAttemptSent     Kind = iota + 1 // an attempt starts
	KindAttemptSettled                  // an attempt has ended
	KindWaiting                         // the call waits: Wait says for what, Until how long
	KindAttemptRefused                  // an attempt was not made: Reason says why
	KindHedgeSkipped                    // a hedge was not made: Reason says why
	KindReturned                        // the call is over
	KindLoserSettled                    // an attempt has ended after the call was over
	KindBodyFailed                      // a result broke after its verdict, as a body does: Reason says by which limit, if by one
	KindOutlived                        // a result outlived its attempt's time, and gave its slot back
	KindFellBack                        // the fallback answered in place of the call
	KindKeyDecided                      // a request with an idempotency key was decided: Code says how
	KindMessageDisposed                 // a message was handled: Code says what became of it

	KindBreakerMoved    // the breaker changed its state
	KindBreakerExceeded // an observing breaker would have opened
	KindPaceSet         // the dependency asked for time
	KindLimitMoved      // the bulkhead has a new limit
	KindReloaded        // a new policy is in force
	KindRetriesSwitched // retries were switched off or on again
	KindResent          // something below the policy sent again, unasked: Count times
	KindLettersLost     // a store of dead letters is full: Count waiting letters are about to be removed
	KindEndpointsMoved  // of all endpoints or a backup: Code says panic (none works), calm (one does again), new, kept (no new ones could be had), backup_out or backup_back
	KindEventsLost      // the queue of events was full: Count are missing
	KindObserverCrashed // an observer panicked; reported once
	numKinds
)

var kindText = [numKinds]string{
	KindAttemptSent:     "attempt_sent",
	KindAttemptSettled:  "attempt_settled",
	KindWaiting:         "waiting",
	KindAttemptRefused:  "attempt_refused",
	KindHedgeSkipped:    "hedge_skipped",
	KindReturned:        "returned",
	KindLoserSettled:    "loser_settled",
	KindBodyFailed:      "body_failed",
	KindOutlived:        "outlived",
	KindFellBack:        "fell_back",
	KindKeyDecided:      "key_decided",
	KindMessageDisposed: "message_disposed",
	KindBreakerMoved:    "breaker_moved",
	KindBreakerExceeded: "breaker_exceeded",
	KindPaceSet:         "pace_set",
	KindLimitMoved:      "limit_moved",
	KindReloaded:        "reloaded",
	KindRetriesSwitched: "retries_switched",
	KindResent:          "resent",
	KindLettersLost:     "letters_lost",
	KindEndpointsMoved:  "endpoints_moved",
	KindEventsLost:      "events_lost",
	KindObserverCrashed: "observer_crashed",
}

// String returns the text that logs and recordings use.
func (k Kind) String() string {
	if k > 0 && k < numKinds {
		return kindText[k]
	}
	return "kind(unknown)"
}

// Kinds returns every Kind.
func Kinds() []Kind {
	all := make([]Kind, 0, numKinds-1)
	for k := KindAttemptSent; k < numKinds; k++ {
		all = append(all, k)
	}
	return all
}

// Event is one decision, flat and by value. Which fields mean something depends
// on Kind; the others are zero.
type Event struct {
	Kind      Kind
	Class     Class  // AttemptSettled, LoserSettled; of AttemptSent that of the failure that a retry repeats; of Returned, where the call failed, that of the last attempt that ended before
	Reason    Reason // why; of AttemptSettled the layer that timed out, if one did
	Effect    Effect // AttemptSettled, Returned
	Hedge     bool   // this attempt is a hedge; of Returned, a hedge brought the answer
	Slow      bool   // it took longer than the slow limit
	Last      bool   // AttemptSent: it has timeout.last, since no other could follow; AttemptSettled: that ended it
	Measured  bool   // AttemptSent: its time was measured, as timeout.percentile says, and is not timeout.attempt; AttemptSettled: such a time ended it
	Stretched bool   // AttemptSent: it has what is left of the call, since attempts were cut off in series; AttemptSettled: that ended it
	Attempt   uint8  // 1 is the first; of Returned, how many were sent; of KeyDecided and MessageDisposed, how often the work has run, at most 255
	Hedges    uint8  // Returned: how many of the attempts were hedges; the first and the retries are the rest
	From, To  BreakerState
	Cause     BreakerCause
	At        Instant       // when the decision was made
	Due       Instant       // when it was due, if it was taken late
	Until     Instant       // deadline of an attempt, end of a wait or of an open time; of BreakerMoved and RetriesSwitched by hand, when that ends by itself, or Never
	Took      time.Duration // AttemptSettled, LoserSettled, BodyFailed, Outlived: the attempt, up to now; Returned: the call; KeyDecided, MessageDisposed: the decision
	Left      time.Duration // AttemptSent, AttemptSettled, LoserSettled: until the call's deadline when the attempt was sent; AttemptRefused, HedgeSkipped: likewise, now; NoDeadline if it has none
	Wait      string        // Waiting: for the backoff, a slot, the pace, the rate, a quota, or a success of other calls
	Partition string        // the partition whose breaker moved, or that the call named; of attempts, where there are endpoints, the endpoint

	// Code is the dependency's own word for how an attempt ended, out of a small set: the
	// status "503", an SQLSTATE. It is empty where there was no answer, or where the
	// classifier told none. Of Returned it is that of the last attempt that ended before the
	// call did. Of AttemptSent it is that of the failure that a retry repeats. Of KeyDecided
	// and MessageDisposed it is the decision. Of BreakerMoved and RetriesSwitched it is who
	// did it by hand, as far as that was told.
	Code string

	// What the front door knows: the dependency's name, the operation's, and a
	// number that the events of one call share. No two calls of a process have the same.
	Dependency string
	Operation  string
	Call       uint64

	// Numbers are what the decision was about: of AttemptRefused, HedgeSkipped and
	// Returned by the reason, of BreakerMoved and BreakerExceeded the counts and the rule, of
	// LettersLost what is lost. Nil where there are none. They are shared and must not be changed.
	Numbers *Numbers

	Count int64  // LimitMoved: the limit; EndpointsMoved: endpoints; Resent, LettersLost, EventsLost: how many
	Seq   uint64 // number of an event about the dependency, from 1
}

// NoDeadline is the [Event.Left] of a call without a deadline.
const NoDeadline = time.Duration(math.MaxInt64)

// String tells the decision in one line without its times, so that two logs can
// be compared.
func (e Event) String() string {
	var b strings.Builder
	b.WriteString(e.Kind.String())
	e.describe(&b)
	if e.Reason != None {
		b.WriteString(" " + e.Reason.String())
	}
	return b.String()
}

func (e Event) describe(b *strings.Builder) {
	switch e.Kind {
	case KindAttemptSent:
		fmt.Fprintf(b, " #%d%s", e.Attempt, hedgeMark(e.Hedge))
	case KindAttemptSettled, KindLoserSettled:
		fmt.Fprintf(b, " #%d%s %s%s", e.Attempt, hedgeMark(e.Hedge), e.Class, slowMark(e.Slow))
	case KindKeyDecided, KindMessageDisposed, KindEndpointsMoved:
		b.WriteString(" " + e.Code)
	case KindWaiting:
		fmt.Fprintf(b, " for %s %s", e.Wait, e.Until.Sub(e.At))
	case KindReturned:
		fmt.Fprintf(b, " after %d", e.Attempt)
	case KindBreakerMoved, KindBreakerExceeded:
		fmt.Fprintf(b, " %s→%s by %s", e.From, e.To, e.Cause)
	case KindLimitMoved, KindLettersLost, KindEventsLost, KindResent:
		fmt.Fprintf(b, " %d", e.Count)
	}
}

func hedgeMark(hedge bool) string {
	if hedge {
		return " (hedge)"
	}
	return ""
}

func slowMark(slow bool) string {
	if slow {
		return " slow"
	}
	return ""
}
