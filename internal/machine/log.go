package machine

import (
	"math"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// logSize is twice the most events that three verbs in a row were ever seen to make. A
// driver drains after each verb, so overflow is a bug, and is counted.
const logSize = 12

// Log collects what a [Call]'s verbs decided until its driver drains it. It
// belongs to one Call and is not safe for concurrent use.
type Log struct {
	n      int
	lost   int
	skip   Kinds         // those that nobody wants
	until  clock.Instant // end of the wait that was reported last
	code   string        // of the attempt that ended last
	class  policy.Class  // likewise
	hedge  bool          // it was a hedge
	tally  bool          // plain successes are one event, of KindPlain
	plain  bool          // the call was one
	events [logSize + 1]policy.Event
}

// KindPlain is the kind of the one event that a plain success has in a [Log] that tallies: a call
// that made one attempt, at once, which succeeded. Took is that of both, Left and Slow are the attempt's.
const KindPlain policy.Kind = 0

// Kinds is a set of kinds of events.
type Kinds uint32

// Has reports whether the set has a kind.
func (ks Kinds) Has(k policy.Kind) bool { return ks&(1<<k) != 0 }

// With returns the set with another kind.
func (ks Kinds) With(k policy.Kind) Kinds { return ks | 1<<k }

// Skip says which events nobody wants. With KindAttemptSent only those of first attempts
// are left out. It holds until the next Skip.
func (l *Log) Skip(ks Kinds) { l.skip, l.tally = ks, false }

// Tally makes a plain success one event of KindPlain. It holds until the next Skip, which must have left
// out KindAttemptSent.
func (l *Log) Tally() { l.tally = true }

// Drain returns what was decided since the last Drain. The slice is valid until the
// next verb.
func (l *Log) Drain() []policy.Event {
	events := l.events[:l.n]
	l.n = 0
	return events
}

// Lost returns how many events did not fit because a driver did not drain.
func (l *Log) Lost() int { return l.lost }

// begin makes it ready for a call. A nil Log is that of a call that nobody observes.
func (l *Log) begin() {
	if l != nil {
		l.until, l.code, l.class, l.hedge, l.plain = math.MinInt64, "", policy.ClassUndecided, false, false
	}
}

// Join makes it the log of a call that began without one. What the call decided before is in no log.
func (l *Log) Join(c *Call) {
	l.begin()
	c.log = l
}

// success reports an attempt that succeeded, and with it the call's end if that is all there is to say.
func (l *Log) success(now clock.Instant, c *Call, t *Ticket, o *policy.Outcome) {
	if !l.tally || c.sent.at != nil || c.sent.n != 1 || t.Sent != c.began {
		c.logSettled(now, t, o, policy.None, false)
		return
	}
	l.plain = true
	e := policy.Event{Kind: KindPlain, At: now, Took: now.Sub(t.Sent)}
	e.Left, e.Slow = Plain(now, &c.Short, t)
	*l.next(KindPlain) = e
}

// wait reports a wait before the attempt that follows those that were sent, once, when
// the wait begins.
func (l *Log) wait(now, until clock.Instant, what string, sent uint8) {
	if l != nil && l.until != until {
		l.until = until
		*l.next(policy.KindWaiting) = policy.Event{Kind: policy.KindWaiting, At: now, Until: until, Wait: what, Attempt: sent + 1}
	}
}

// next is the place of the next event, which is written where it stays. What does not fit,
// and what nobody wants, is written to a place that nobody reads.
func (l *Log) next(k policy.Kind) *policy.Event {
	switch {
	case l.skip.Has(k):
		return &l.events[logSize]
	case l.n == logSize:
		l.lost++
		return &l.events[logSize]
	}
	l.n++
	return &l.events[l.n-1]
}
