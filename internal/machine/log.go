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
	until  clock.Instant // end of the wait that was reported last
	code   string        // of the attempt that ended last
	class  policy.Class  // likewise
	hedge  bool          // it was a hedge
	events [logSize + 1]policy.Event
}

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
		l.until, l.code, l.class, l.hedge = math.MinInt64, "", policy.ClassUndecided, false
	}
}

// wait reports a wait before the attempt that follows those that were sent, once, when
// the wait begins.
func (l *Log) wait(now, until clock.Instant, what string, sent uint8) {
	if l != nil && l.until != until {
		l.until = until
		*l.next() = policy.Event{Kind: policy.KindWaiting, At: now, Until: until, Wait: what, Attempt: sent + 1}
	}
}

// next is the place of the next event, which is written where it stays. What does not fit
// is written to a place that nobody reads.
func (l *Log) next() *policy.Event {
	if l.n == logSize {
		l.lost++
		return &l.events[logSize]
	}
	l.n++
	return &l.events[l.n-1]
}
