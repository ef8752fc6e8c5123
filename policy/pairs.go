package policy

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/internal/terms"
)

// pairs reports fields that can't stand together. p is the policy as written, r
// what it resolves to; a number that is wrong by itself is not judged again.
func (c *check) pairs(p, r Policy) {
	c.attemptInCall(p, r)
	c.lastInCall(p, r)
	c.measuredInAttempt(p, r)
	c.idleInBody(p, r)
	c.marginInCall(p, r)
	c.hopInTime(p, r)
	c.hedgesInCall(p, r)
	c.sends(p, r)
	c.waits(p, r)
	c.learned(p, r)
	endpointsPerAttempt(c, r)
	if !r.Breaker.Off {
		c.windowHoldsAttempts(p, r)
		c.windowHoldsCalls(r)
		c.slowInTime(p, r)
		c.probeInTime(p, r)
		c.openGrows(p, r)
	}
}

func (c *check) attemptInCall(p, r Policy) {
	attempt, call := r.Timeout.Attempt, r.Timeout.Call
	if call <= 0 || attempt <= call {
		return
	}
	c.add("timeout.attempt", "timeout.call", given(attempt, p.Timeout.Attempt),
		"is longer than timeout.call, "+given(call, p.Timeout.Call),
		"write at most "+FormatDuration(call)+", or a longer call timeout")
}

// lastInCall: an attempt that nothing follows has no less time than others, and no more than
// its call.
func (c *check) lastInCall(p, r Policy) {
	last, attempt, call := r.Timeout.Last, r.Timeout.Attempt, r.Timeout.Call
	switch {
	case p.Timeout.Last <= 0 || last > maxDuration:
	case attempt > last:
		c.add("timeout.last", "timeout.attempt", given(last, p.Timeout.Last),
			"is shorter than timeout.attempt, "+given(attempt, p.Timeout.Attempt),
			"write at least "+FormatDuration(attempt)+", or off, or a shorter attempt timeout")
	case attempt == Off:
		c.add("timeout.last", "timeout.attempt", given(last, p.Timeout.Last),
			"is a bound, and timeout.attempt: off is none", "write an attempt timeout as well, or leave it out")
	case call > 0 && last > call:
		c.add("timeout.last", "timeout.call", given(last, p.Timeout.Last),
			"is longer than timeout.call, "+given(call, p.Timeout.Call), "write at most "+FormatDuration(call)+", or off")
	}
}

// measuredInAttempt: what is measured needs a most, which also counts while too little is
// measured, and a least that is not more than that.
func (c *check) measuredInAttempt(p, r Policy) {
	least, most := r.Timeout.AttemptMin, r.Timeout.Attempt
	switch {
	case r.Timeout.Percentile <= 0:
	case most == Off:
		c.add("timeout.percentile", "timeout.attempt", r.Timeout.Percentile.String(),
			"with timeout.attempt: off has no upper bound", "write an attempt timeout, the longest that you can bear")
	case most > 0 && least > most:
		c.add("timeout.attempt_min", "timeout.attempt", given(least, p.Timeout.AttemptMin),
			"is longer than timeout.attempt, "+given(most, p.Timeout.Attempt),
			"write at most "+FormatDuration(most)+", or a longer attempt timeout")
	}
}

// idleInBody: a result that may be silent for longer than it may last is never found
// silent.
func (c *check) idleInBody(p, r Policy) {
	idle, body := r.Timeout.Idle, r.Timeout.Body
	if body <= 0 || idle <= body {
		return
	}
	c.add("timeout.idle", "timeout.body", given(idle, p.Timeout.Idle),
		"is longer than timeout.body, "+given(body, p.Timeout.Body),
		"write at most "+FormatDuration(body)+", or off")
}

// marginInCall: with less than the margin left no retry starts, and all that a call
// ever has left is less.
func (c *check) marginInCall(p, r Policy) {
	margin, call := r.Timeout.Margin, r.Timeout.Call
	if call <= 0 || margin <= 0 || margin < call || r.Retry.Attempts == 1 {
		return
	}
	c.add("timeout.margin", "timeout.call", given(margin, p.Timeout.Margin),
		"is not shorter than timeout.call, "+given(call, p.Timeout.Call)+": no attempt could ever be repeated",
		"write at most "+FormatDuration(call/10)+", or off")
}

// hopInTime: what an internal dependency is told is the time left less the hop
// margin, and a request that leaves it no time is not sent.
func (c *check) hopInTime(p, r Policy) {
	name, limit, written := "timeout.attempt", r.Timeout.Attempt, p.Timeout.Attempt
	if call := r.Timeout.Call; call > 0 && (limit <= 0 || call < limit || call == limit && written == 0) {
		name, limit, written = "timeout.call", call, p.Timeout.Call
	}
	if least := r.Timeout.AttemptMin; r.Timeout.Percentile > 0 && least > 0 && least < limit {
		name, limit, written = "timeout.attempt_min", least, p.Timeout.AttemptMin
	}
	margin := r.Timeout.HopMargin
	if r.Trust != Internal || limit <= 0 || margin > maxDuration || limit > margin {
		return
	}
	c.add(name, "timeout.hop_margin", given(limit, written),
		"with trust: internal is not longer than timeout.hop_margin, "+given(margin, p.Timeout.HopMargin)+": nothing could be sent",
		"write at least "+FormatDuration(2*margin)+", or a shorter hop margin")
}

func (c *check) hedgesInCall(p, r Policy) {
	n, delay, call := r.Hedge.Max, r.Hedge.Delay, r.Timeout.Call
	if n <= 0 || n > terms.MaxSends || delay <= 0 || delay > maxDuration || call <= 0 {
		return
	}
	if last := time.Duration(n) * delay; last > call {
		c.add("hedge.delay", "timeout.call", FormatDuration(delay),
			fmt.Sprintf("× hedge.max %d = %s is longer than timeout.call, %s", n, FormatDuration(last), given(call, p.Timeout.Call)),
			"write at most "+FormatDuration(call/time.Duration(n))+", or fewer hedges")
	}
}

// sends: each attempt and hedge of a call has one bit in the machine.
func (c *check) sends(p, r Policy) {
	attempts, hedges, conflicts := r.Retry.Attempts, r.Hedge.Max, r.Retry.Contention.Attempts
	if attempts > terms.MaxSends || hedges > terms.MaxSends || conflicts > terms.MaxSends {
		return
	}
	if attempts+hedges <= terms.MaxSends {
		if conflicts > 1 && attempts+hedges+conflicts-1 > terms.MaxSends {
			c.add("retry.contention.attempts", "retry.attempts", strconv.Itoa(conflicts),
				fmt.Sprintf("with retry.attempts %d and hedge.max %d is more than the %d sends that a call may make", attempts, max(hedges, 0), terms.MaxSends),
				fmt.Sprintf("write at most %d", terms.MaxSends-attempts-max(hedges, 0)+1))
		}
		return
	}
	c.add("retry.attempts", "hedge.max", strconv.Itoa(attempts),
		fmt.Sprintf("+ hedge.max %d are more than the %d sends that a call may make", hedges, terms.MaxSends),
		fmt.Sprintf("write at most %d, or fewer hedges", terms.MaxSends-hedges))
}

func (c *check) waits(p, r Policy) {
	b := r.Retry.Backoff
	if b.Base > b.Cap && b.Cap > 0 {
		c.add("retry.backoff.base", "retry.backoff.cap", given(b.Base, p.Retry.Backoff.Base),
			"is longer than retry.backoff.cap, "+given(b.Cap, p.Retry.Backoff.Cap),
			"write at most "+FormatDuration(b.Cap)+", or a longer cap")
	}
	if b := r.Retry.Contention.Backoff; b.Base > b.Cap && b.Cap > 0 {
		written := p.Retry.Contention.Backoff
		c.add("retry.contention.backoff.base", "retry.contention.backoff.cap", given(b.Base, written.Base),
			"is longer than retry.contention.backoff.cap, "+given(b.Cap, written.Cap),
			"write at most "+FormatDuration(b.Cap)+", or a longer cap")
	}
	if b := r.Retry.Budget; !b.Off && (b.Shape == BudgetTokens || b.Shape == BudgetQuota) {
		c.costs(b)
	}
}

// costs: what costs more than a bucket can hold is never granted.
func (c *check) costs(b Budget) {
	type cost struct {
		path   string
		tokens int
	}
	costs := []cost{{"retry.budget.cost", b.Cost}}
	if b.Shape == BudgetQuota {
		costs = append(costs, cost{"retry.budget.throttled_cost", b.ThrottledCost}, cost{"retry.budget.timeout_cost", b.TimeoutCost})
	}
	for _, cost := range costs {
		if cost.tokens > b.Capacity && b.Capacity > 0 {
			c.add(cost.path, "retry.budget.capacity", strconv.Itoa(cost.tokens),
				fmt.Sprintf("is more than retry.budget.capacity, %d: no retry could ever be paid", b.Capacity),
				fmt.Sprintf("write at most %d, or a larger capacity", b.Capacity))
		}
	}
}

// learned: the limit is learned from how long slots are held. A slot of a whole call is held
// while the call waits between its attempts, too, which says nothing of the dependency.
func (c *check) learned(p, r Policy) {
	b := r.Bulkhead
	if b.Off || b.Limit != Learned {
		return
	}
	if b.Per == PerCall {
		c.add("bulkhead.limit", "bulkhead.per", "learned", "needs slots that are held by attempts: those of whole calls are held while nothing is out",
			"leave bulkhead.per out, or write a number")
	}
	if b.Min > b.Max && b.Max > 0 {
		c.add("bulkhead.min", "bulkhead.max", formatCount(b.Min), "is more than bulkhead.max, "+formatCount(b.Max),
			"write at most "+formatCount(b.Max)+", or a larger bulkhead.max")
	}
}

// A window that is shorter than two attempts forgets the first timeout before the second
// one comes.
func (c *check) windowHoldsAttempts(p, r Policy) {
	window, attempt := r.Breaker.Window, r.Timeout.Attempt
	if r.Breaker.WindowCalls > 0 || window <= 0 || attempt > maxDuration || window >= 2*attempt {
		return
	}
	c.add("breaker.window", "timeout.attempt", given(window, p.Breaker.Window),
		"is shorter than twice timeout.attempt, "+given(attempt, p.Timeout.Attempt),
		"write at least "+FormatDuration(2*attempt)+", or a shorter attempt timeout")
}

func (c *check) windowHoldsCalls(r Policy) {
	b := r.Breaker
	if b.WindowCalls > 0 {
		c.atMostWindow("breaker.min_calls", b.MinCalls, b.WindowCalls)
		c.atMostWindow("breaker.failures", b.Failures, b.WindowCalls)
		return
	}
	// The default minimum is no contradiction, written or not: that policy is sound but
	// for one rule, and what a policy resolves to must not be refused.
	if b.MinCalls == defaultMinCalls || r.RateLimit.Rate <= 0 || !(r.RateLimit.Rate <= maxRate) {
		return
	}
	most := int64(float64(r.RateLimit.Rate)*b.Window.Seconds()) + int64(min(r.RateLimit.Burst, maxCount))
	if b.Window > 0 && int64(b.MinCalls) > most {
		c.add("breaker.min_calls", "rate_limit.rate", strconv.Itoa(b.MinCalls),
			fmt.Sprintf("is more than the %d calls that rate_limit.rate, %v, lets into breaker.window, %s", most, r.RateLimit.Rate, FormatDuration(b.Window)),
			fmt.Sprintf("write at most %d, or a longer window", most))
	}
}

func (c *check) atMostWindow(path string, n, window int) {
	if n > window {
		c.add(path, "breaker.window_calls", strconv.Itoa(n),
			fmt.Sprintf("is more than the window holds, breaker.window_calls %d", window),
			fmt.Sprintf("write at most %d, or a larger window", window))
	}
}

// slowInTime: what is cut off before it counts as slow is never slow.
func (c *check) slowInTime(p, r Policy) {
	name, limit, written := "timeout.attempt", r.Timeout.Attempt, p.Timeout.Attempt
	if limit <= 0 || r.Breaker.Per == PerCall && r.Timeout.Call > 0 {
		name, limit, written = "timeout.call", r.Timeout.Call, p.Timeout.Call
	}
	if p.Breaker.SlowCall <= 0 || limit <= 0 || r.Breaker.SlowCall < limit {
		return
	}
	c.add("breaker.slow_call", name, FormatDuration(r.Breaker.SlowCall),
		"is not shorter than "+name+", "+given(limit, written)+": no call could ever be slow",
		"write 80 % of that, "+FormatDuration(limit/5*4)+", or off")
}

// probeInTime: a probe that guards a whole call must be able to outlast it.
func (c *check) probeInTime(p, r Policy) {
	probe, call := r.Breaker.ProbeTimeout, r.Timeout.Call
	if r.Breaker.Per != PerCall || probe <= 0 || probe >= call {
		return
	}
	c.add("breaker.probe_timeout", "timeout.call", given(probe, p.Breaker.ProbeTimeout),
		"with per: call is shorter than timeout.call, "+given(call, p.Timeout.Call),
		"write at least "+FormatDuration(call)+", or per: attempt")
}

// endpointsPerAttempt: a breaker of the whole call can't tell endpoints apart.
func endpointsPerAttempt(c *check, r Policy) {
	if len(r.Endpoints.List) > 0 && !r.Breaker.Off && r.Breaker.Per == PerCall {
		c.add("breaker.per", "endpoints.list", "call", "judges whole calls, whose attempts go to several endpoints", "write per: attempt")
	}
}

func (c *check) openGrows(p, r Policy) {
	open, most := r.Breaker.Open, r.Breaker.OpenMax
	if most <= 0 || most >= open {
		return
	}
	c.add("breaker.open_max", "breaker.open", FormatDuration(most),
		"is shorter than breaker.open, "+given(open, p.Breaker.Open),
		"write at least "+FormatDuration(open)+", or a shorter open time")
}

// given returns d, and says so when it is a default.
func given(d, written time.Duration) string {
	if written == 0 {
		return FormatDuration(d) + " (the default)"
	}
	return FormatDuration(d)
}
