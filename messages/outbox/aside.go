package outbox

import (
	"errors"
	"math/rand/v2"
	"time"
)

// judge says what becomes of the rows that were tried and not confirmed. Where no other was
// confirmed the broker is to blame: if it refuses all, as it does after a password has
// expired, nothing is parked. That it has no such topic is no fault of its.
func (r *Relay) judge(batch []*row, others bool) (failed []verdict) {
	for _, x := range batch {
		var broken *unreadable
		unread := errors.As(x.err, &broken)
		homeless := errors.Is(x.err, ErrNoTopic)
		if x.confirmed || x.err == nil || !others && !unread && !homeless {
			continue
		}
		x.attempts++
		v := verdict{row: x}
		again := x.attempts < r.options.MaxFailures
		if !homeless {
			again = !unread && !r.refused(x.err) && (again || r.passing(x.err))
		}
		if again {
			v.rest = max(r.options.Backoff.Delay(min(x.attempts, 1000)-1, 0, rand.Float64()), time.Millisecond)
		}
		failed = append(failed, v)
	}
	return failed
}

func (r *Relay) tellFailed(failed []verdict) {
	for _, v := range failed {
		n := Notice{Kind: noticeFailing, ID: v.row.ID, Topic: v.row.Topic, Aggregate: v.row.Aggregate, Attempts: v.row.attempts, Rest: v.rest, Err: v.row.err}
		if v.rest == 0 {
			n.Kind = noticeParked
		}
		r.tell(n)
	}
}

// longestAside is how long rows rest that are moved out of the way, at most, unless the backoff is longer.
const longestAside = 5 * time.Minute

// moveOn says which rows rest when a full batch was tried and nothing confirmed: those that failed before, tried or not, and those that failed
// alone. Else nothing behind a batch of messages that all fail would ever be read, and one topic that is down would stop all of
// them. It parks nothing, since the broker may be to blame. untried reports whether there were rows that were not tried, so that
// the next batch is worth a look at once. The more batches of these follow each other, the longer they rest, also where the backoff does not grow: so they end.
func (r *Relay) moveOn(batch []*row, cause error) (aside []verdict, untried bool) {
	seen := map[string]bool{}
	for _, x := range batch {
		behind := x.Aggregate != "" && seen[x.Aggregate]
		seen[x.Aggregate] = true
		if alone := x.err != nil && r.fruitless > 0; behind || x.attempts == 0 && !alone {
			continue
		}
		if x.err == nil {
			x.err, untried = cause, true
		}
		x.attempts = max(x.attempts, 1)
		exponent := min(max(x.attempts-1, r.moved), 1000)
		aside = append(aside, verdict{row: x, rest: max(r.options.Backoff.Delay(exponent, 0, rand.Float64()), min(time.Duration(r.fruitless+1)*2*briefly, longestAside))})
	}
	return aside, untried
}
