package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// limit is the time of an attempt where it is measured: the percentile, between the policy's
// bounds, and the upper one while the percentile is not known.
func (p *partition) limit(now clock.Instant, t *policy.Timeout) time.Duration {
	return bounded(p.times.Load().tail.Limit(now, float64(t.Percentile), t.Attempt), t)
}

func bounded(d time.Duration, t *policy.Timeout) time.Duration {
	if d == 0 || d > t.Attempt {
		return t.Attempt
	}
	return max(d, t.AttemptMin)
}

// measured returns the time that an attempt had, if that was measured and no bound of the
// policy, of the call, or of a probe was shorter. Else it is zero.
func (c *Call) measured(t *Ticket) time.Duration {
	if had := t.Deadline.Sub(t.Sent); c.rules.timed && !c.sent.at.isBrief(t) && !t.last && had < c.rules.Policy.Timeout.Attempt {
		return had
	}
	return 0
}

// recordFinish records how long an attempt took for the measured timeout. Hedges are not
// counted, as in recordTime.
func (c *Call) recordFinish(now clock.Instant, t *Ticket) {
	if !t.Hedge {
		c.part.times.Load().tail.Finish(c.shard, now.Sub(t.Sent))
	}
}

// recordCut records an attempt that was no plain success. It would have taken at least as
// long as it did, whatever ended it: its time, the call's deadline, a hedge that was
// quicker, the caller, or a failure. One that succeeded too late took as long as it did.
func (c *Call) recordCut(now clock.Instant, t *Ticket, o *policy.Outcome, late policy.Reason) {
	var had time.Duration
	if late == policy.AttemptTimeout {
		had = c.measured(t)
	}
	if c.phase != over {
		c.retry.limit = had
	}
	switch {
	case t.Hedge || o.NeverSent:
	case o.Class == policy.ClassSuccess:
		if c.phase == over { // else learn has counted it
			c.recordFinish(now, t)
		}
	default:
		c.part.times.Load().tail.Cut(c.shard, now.Sub(t.Sent), had > 0)
	}
}

// cutShort notes that a measured time ended the last attempt of a call.
func (c *Call) cutShort(why policy.Reason) {
	switch why {
	case policy.AttemptsExhausted, policy.NotSafe, policy.BodyNotRewindable, policy.AllFailing, policy.RetriesOff, policy.DoNotRetry: // they have no numbers of their own
	default:
		return
	}
	if c.retry.limit > 0 {
		c.end.numbers = &policy.Numbers{Timeout: c.retry.limit, Percentile: c.rules.Policy.Timeout.Percentile}
	}
}

// knowledge is what a tail knows, in the words of a policy's Stats.
var knowledge = [...]string{
	latency.TooFew:   terms.TimeoutTooFew,
	latency.Known:    terms.TimeoutMeasured,
	latency.TooShort: terms.TimeoutTooManyCut,
	latency.Hopeless: terms.TimeoutHopeless,
}

// timeoutStats is the attempt's time that is in force.
func (p *partition) timeoutStats(now clock.Instant, r *Rules) policy.TimeoutStats {
	t := &r.Policy.Timeout
	st := policy.TimeoutStats{Attempt: on(t.Attempt)}
	times := p.times.Load()
	if r.timed && times.has(r) { // else a reload is under way
		st = times.stats(now, t)
	}
	if k := p.cuts(); k != nil && r.longest > 0 {
		if e := known(k.word.Load(), now, t); e.open {
			st.Attempt, st.Basis = r.longest, terms.TimeoutStretched
			if t.Call > 0 && t.Last <= t.Attempt {
				st.Attempt = t.Call
			}
		}
	}
	return st
}

// stats is the time that is measured.
func (times *times) stats(now clock.Instant, t *policy.Timeout) (st policy.TimeoutStats) {
	q := float64(t.Percentile)
	e := times.tail.Estimate(q, t.Attempt)
	st.Attempt, st.Percentile, st.Basis = bounded(times.tail.InForce(now, q, t.Attempt), t), t.Percentile, knowledge[e.Known]
	st.Samples, st.Cut, st.Needed = e.Finished, e.Cut, e.Needed
	return st
}
