package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/terms"
)

// The bounds of what a policy may say. Everything that a program keeps must have
// a most, and so must everything that it reckons with.
const (
	maxDuration  = 365 * 24 * time.Hour // so that products of a duration and a count fit
	maxCount     = 1 << 20              // calls, outcomes, tokens, partitions, starts at once
	maxProbes    = 1 << 10              // calls that may hit a sick dependency at once
	maxSlots     = 1<<21 - 1            // bulkhead.Limit: it shares one word with the queue
	maxQueue     = 1<<20 - 1            // bulkhead.Queue
	maxGrowth    = 100                  // beyond it, open_max follows at once
	maxRate      = PerSecond(1e6)       // an interval of 1 µs: finer, clocks are no judge
	minRate      = PerSecond(1e-5)      // about one a day: slower, it is no rate
	maxReplay    = 1 << 30              // bytes kept per call in flight
	maxBudget    = Ratio(1)             // 100 %: one re-send for each call already doubles the load
	minToken     = Ratio(0.001)         // tokens are counted in thousandths, as in gRPC's service config
	maxTokens    = 1000                 // of a gRPC service config
	minReserve   = 0.01                 // re-sends: less means no re-send
	maxReserve   = 1000                 // re-sends: a fleet has as many times that
	minBudgetTTL = time.Second          // as in Finagle, both
	maxBudgetTTL = 60 * time.Second
	minTime      = 100 * time.Microsecond // shorter, it was meant in another unit
	minPart      = minTime / 10           // of waits, and of what derives from a timeout
	minWindow    = 10 * time.Millisecond
	minMeasured  = Ratio(0.9)     // timeout.percentile: less cuts off every tenth
	maxMeasured  = Ratio(0.99999) // more would need more samples than 20 min bring
	maxWindow    = 24 * time.Hour
)

// Mistake is one thing that is wrong with a policy.
type Mistake struct {
	Path     string // the field, as files spell it: "retry.attempts"
	With     string // the other field of a pair that can't stand together, else ""
	Value    string // what the field says, as files spell it
	Problem  string // why that can't be: "is negative"
	Proposal string // what to write instead
	Item     int    // which item of a list it is, from 1; zero means the whole field
	Unused   bool   // the field is right by itself, and has no effect beside With or without it
}

// Error returns the finding in one line.
func (f Mistake) Error() string {
	return fmt.Sprintf("%s: %s %s: %s", f.Path, f.Value, f.Problem, f.Proposal)
}

// Mistakes are all the things that are wrong with a policy. As an error they
// have one line each.
type Mistakes []Mistake

// Error returns one line per finding.
func (fs Mistakes) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Validate reports everything about p that is impossible: values out of bounds,
// [Off] where nothing can be switched off, fields that contradict each other, and
// fields that have no effect. The error is of type [Mistakes]; nil means that the policy can be used.
// It does not report what is merely unwise: gabion lint does.
//
// p needs not be resolved. Fields are judged together by what they resolve to,
// so a default can contradict what is written; the finding then says that it is
// the default.
func (p Policy) Validate() error {
	var c check
	c.enums(p)
	c.timeout(p.Timeout)
	c.retry(p.Retry)
	c.hedge(p.Hedge)
	c.duration("pace.max", p.Pace.Max, minPart, maxDuration, "write pace: off")
	c.float("throttle.k", p.Throttle.K, 1, maxGrowth, offMeans0)
	c.duration("throttle.window", p.Throttle.Window, time.Second, time.Hour, "write throttle: off")
	c.breakerWindow(p.Breaker)
	c.breakerOpen(p.Breaker)
	c.bulkhead(p.Bulkhead)
	c.rateLimit(p.RateLimit)
	c.count("partitions.max", p.Partitions.Max, 1, maxCount, offFine)
	c.duration("partitions.idle", p.Partitions.Idle, time.Second, maxDuration, "write a long one: what is kept is bounded")
	c.http(p.HTTP)
	c.grpc(p.GRPC)
	checkEndpoints(&c, p.Endpoints)
	checkPrices(&c, p.Prices)
	c.ratio("fleet.lost", p.Fleet.Lost, 1, offFine)
	r := p.Resolved()
	c.pairs(p, r)
	c.unused(p, r)
	if len(c.found) == 0 {
		return nil
	}
	return c.found
}

// check gathers findings.
type check struct{ found Mistakes }

// addItem is add for one item of a list, from 0.
func addItem(c *check, path string, i int, value, problem, proposal string) {
	c.found = append(c.found, Mistake{Path: path, Item: i + 1, Value: value, Problem: problem, Proposal: proposal})
}

func (c *check) add(path, with, value, problem, proposal string) {
	c.found = append(c.found, Mistake{Path: path, With: with, Value: value, Problem: problem, Proposal: proposal})
}

// What to write instead of Off. Empty says that Off is fine.
const (
	offFine   = ""
	offMeans0 = "" // Off is fine: Resolved makes it zero
	offNever  = "leave it out for the default"
)

func (c *check) enums(p Policy) {
	c.enum("trust", uint8(p.Trust), len(trustText), strings.Join(trustText, ", "))
	c.enum("key", uint8(p.Key), len(keyText), strings.Join(keyText, ", "))
	c.enum("retry.backoff.kind", uint8(p.Retry.Backoff.Kind), int(backoff.Constant)+1,
		"full, equal, decorrelated, exponential, linear, constant")
	c.enum("retry.contention.backoff.kind", uint8(p.Retry.Contention.Backoff.Kind), int(backoff.Constant)+1,
		"full, equal, decorrelated, exponential, linear, constant")
	c.enum("retry.budget.shape", uint8(p.Retry.Budget.Shape), len(shapeText), strings.Join(shapeText, ", "))
	c.enum("breaker.per", uint8(p.Breaker.Per), len(perText), strings.Join(perText, ", "))
	c.enum("bulkhead.per", uint8(p.Bulkhead.Per), len(perText), strings.Join(perText, ", "))
}

func (c *check) timeout(t Timeout) {
	c.duration("timeout.call", t.Call, minTime, maxDuration, offFine)
	c.duration("timeout.attempt", t.Attempt, minTime, maxDuration, offFine)
	c.duration("timeout.last", t.Last, minTime, maxDuration, offFine)
	c.percentile(t.Percentile)
	c.duration("timeout.attempt_min", t.AttemptMin, minPart, maxDuration, "write a short one")
	c.duration("timeout.idle", t.Idle, time.Millisecond, maxDuration, offFine)
	c.duration("timeout.body", t.Body, time.Millisecond, maxDuration, offMeans0)
	c.duration("timeout.margin", t.Margin, minPart, maxDuration, offFine)
	c.ratio("timeout.fit", t.Fit, 1, offMeans0)
	if t.Fit == 1 {
		c.add("timeout.fit", "", "100%", "asks for the slowest call ever seen", "write 50%")
	}
	c.duration("timeout.hop_margin", t.HopMargin, minPart, maxDuration, offFine)
}

// percentile judges that of the attempt's time.
func (c *check) percentile(r Ratio) {
	const path, usual = "timeout.percentile", "write 99.9%"
	switch {
	case r == 1:
		c.add(path, "", "100%", "asks for the slowest attempt ever seen", usual)
	case r > 0 && r < minMeasured:
		c.add(path, "", r.String(), "would cut off "+Ratio(math.Round(float64(1-r)*1e6)/1e6).String()+" of the attempts that succeed", usual)
	default:
		c.ratio(path, r, maxMeasured, offMeans0)
	}
}

func (c *check) retry(r Retry) {
	c.count("retry.attempts", r.Attempts, 1, terms.MaxSends, "write 1 for never retry")
	c.duration("retry.backoff.base", r.Backoff.Base, minPart, maxDuration, offFine)
	c.duration("retry.backoff.cap", r.Backoff.Cap, minPart, maxDuration, "write a longer cap: waits are always bounded")
	c.duration("retry.max_after", r.MaxAfter, minPart, maxDuration, "write the call timeout: no longer wait is possible")
	c.count("retry.contention.attempts", r.Contention.Attempts, 1, terms.MaxSends, "write 1 for never again after a conflict")
	c.duration("retry.contention.backoff.base", r.Contention.Backoff.Base, minPart, maxDuration, offFine)
	c.duration("retry.contention.backoff.cap", r.Contention.Backoff.Cap, minPart, maxDuration, "write a longer cap: waits are always bounded")
	c.count("retry.contention.repeats", r.Contention.Repeats, 1, terms.MaxSends, offFine)
	c.count("retry.hold", r.Hold, 1, maxCount, offFine)
	c.budget(r.Budget)
}

func (c *check) budget(b Budget) {
	shape, most := b.shape(), maxCount
	if shape == BudgetGRPC {
		most = maxTokens
	}
	c.ratio("retry.budget.ratio", b.Ratio, maxBudget, offFine)
	if tokens := shape == BudgetTokens || shape == BudgetGRPC || shape == BudgetQuota; tokens && b.Ratio > 0 && b.Ratio < minToken {
		c.add("retry.budget.ratio", "", b.Ratio.String(), "of a token is too small", "write at least "+minToken.String()+", or off")
	}
	c.float("retry.budget.reserve", b.Reserve, minReserve, maxReserve, offFine)
	c.float("retry.budget.start", b.Start, minReserve, maxReserve, offFine)
	c.duration("retry.budget.window", b.Window, minBudgetTTL, maxBudgetTTL, "write budget: off")
	c.rate("retry.budget.floor", b.Floor, offFine)
	c.count("retry.budget.capacity", b.Capacity, 1, most, "write budget: off")
	c.count("retry.budget.cost", b.Cost, 1, maxCount, "write budget: off")
	c.count("retry.budget.throttled_cost", b.ThrottledCost, 1, maxCount, "write budget: off")
	c.count("retry.budget.timeout_cost", b.TimeoutCost, 1, maxCount, "write budget: off")
	c.count("retry.budget.min_in_flight", b.MinInFlight, 1, maxCount, offFine)
}

func (c *check) hedge(h Hedge) {
	c.count("hedge.max", h.Max, 1, terms.MaxSends-1, offMeans0)
	c.duration("hedge.delay", h.Delay, minPart, maxDuration, offFine)
	c.ratio("hedge.percentile", h.Percentile, 1, offMeans0)
	if h.Percentile == 1 {
		c.add("hedge.percentile", "", "100%", "waits for the slowest call ever seen", "write 95%")
	}
}

func (c *check) breakerWindow(b Breaker) {
	c.duration("breaker.window", b.Window, minWindow, maxWindow, "write breaker: off")
	c.count("breaker.window_calls", b.WindowCalls, 1, maxCount, offMeans0)
	c.count("breaker.min_calls", b.MinCalls, 1, maxCount, "write 1 to judge by the first call")
	c.ratio("breaker.failure_rate", b.FailureRate, 1, offFine)
	c.duration("breaker.slow_call", b.SlowCall, minPart, maxDuration, offFine)
	c.ratio("breaker.slow_rate", b.SlowRate, 1, offFine)
	c.count("breaker.failures", b.Failures, 1, maxCount, offMeans0)
	c.count("breaker.consecutive", b.Consecutive, 1, maxCount, offFine)
	c.duration("breaker.consecutive_for", b.ConsecutiveFor, minPart, maxDuration, offFine)
}

func (c *check) breakerOpen(b Breaker) {
	c.duration("breaker.open", b.Open, time.Millisecond, maxDuration, "write breaker: off")
	c.duration("breaker.open_max", b.OpenMax, time.Millisecond, maxDuration, "write the longest open time that you can bear")
	c.count("breaker.open_calls", b.OpenCalls, 1, maxCount, offFine)
	c.float("breaker.open_growth", b.OpenGrowth, 1, maxGrowth, "write 1 for no growth")
	c.ratio("breaker.open_jitter", b.OpenJitter, 1, offFine)
	c.count("breaker.probes", b.Probes, 1, maxProbes, "write 1: without a probe it never closes")
	c.count("breaker.probe_calls", b.ProbeCalls, 1, maxCount, offNever)
	c.count("breaker.close_after", b.CloseAfter, 1, maxCount, offMeans0)
	c.count("breaker.reopen_after", b.ReopenAfter, 1, maxCount, offNever)
	c.duration("breaker.probe_timeout", b.ProbeTimeout, minTime, maxDuration, "write a long one: a hung probe must end")
}

func (c *check) bulkhead(b Bulkhead) {
	if b.Limit != Learned {
		c.count("bulkhead.limit", b.Limit, 1, maxSlots, "write bulkhead: off")
	}
	c.count("bulkhead.min", b.Min, 1, maxSlots, "write 1")
	c.count("bulkhead.max", b.Max, 1, maxSlots, "write the most that you can bear")
	c.count("bulkhead.queue", b.Queue, 1, maxQueue, offFine)
	c.duration("bulkhead.queue_timeout", b.QueueTimeout, minPart, maxDuration, offFine)
}

func (c *check) rateLimit(r RateLimit) {
	c.rate("rate_limit.rate", r.Rate, offMeans0)
	c.count("rate_limit.burst", r.Burst, 1, maxCount, "write rate_limit: off")
	c.duration("rate_limit.max_wait", r.MaxWait, minPart, maxDuration, offFine)
	c.quotas(r.Quotas)
}

func (c *check) http(h HTTP) {
	c.statuses("http.transient", h.Transient)
	c.statuses("http.permanent", h.Permanent)
	c.count("http.replay_limit", h.ReplayLimit, 1, maxReplay, offFine)
	for _, status := range h.Permanent {
		if slices.Contains(h.Transient, status) {
			c.add("http.permanent", "http.transient", strconv.Itoa(status),
				"is in http.transient too", "name it in one of the lists")
		}
	}
}

func (c *check) statuses(path string, list []int) {
	for _, status := range list {
		if status < 100 || status > 599 {
			c.add(path, "", strconv.Itoa(status), "is no HTTP status", "write one from 100 to 599")
		}
	}
}

func (c *check) enum(path string, v uint8, known int, words string) {
	if int(v) >= known {
		c.add(path, "", strconv.Itoa(int(v)), "is not known", "use one of "+words)
	}
}

func (c *check) duration(path string, d, least, most time.Duration, insteadOfOff string) {
	if d > 0 && d < min(least, minTime) {
		proposal := "write at least " + FormatDuration(least)
		if d < 10*time.Microsecond { // surely a mistake: Go takes a number for nanoseconds
			proposal = "did you mean " + meant(d) + "? " + proposal
		}
		c.add(path, "", FormatDuration(d), "is too short", proposal)
		return
	}
	bounded(c, path, FormatDuration(d), d, least, most, insteadOfOff, FormatDuration)
}

// meant guesses the duration that was meant by a number without a unit, which Go
// takes for nanoseconds.
func meant(d time.Duration) string {
	if d < 100 {
		return fmt.Sprintf("%d * time.Second", int64(d))
	}
	return fmt.Sprintf("%d * time.Millisecond", int64(d))
}

func (c *check) count(path string, n, least, most int, insteadOfOff string) {
	bounded(c, path, formatCount(n), n, least, most, insteadOfOff, formatCount)
}

// A ratio has no least above zero: the smallest share is still one.
func (c *check) ratio(path string, r, most Ratio, insteadOfOff string) {
	if r > most && r >= 2 && r <= 100 { // a percentage, written as a number
		c.add(path, "", r.String(), "is too large",
			"did you mean "+(r/100).String()+"? write at most "+most.String())
		return
	}
	bounded(c, path, r.String(), r, 0, most, insteadOfOff, Ratio.String)
}

func (c *check) rate(path string, r PerSecond, insteadOfOff string) {
	bounded(c, path, r.String(), r, minRate, maxRate, insteadOfOff, PerSecond.String)
}

func (c *check) float(path string, f, least, most float64, insteadOfOff string) {
	bounded(c, path, formatFloat(f), f, least, most, insteadOfOff, formatFloat)
}

// bounded judges one number: zero is the default and always fine, Off is fine
// unless there is something to write instead, and the rest has bounds.
func bounded[T number](c *check, path, value string, v, least, most T, insteadOfOff string, text func(T) string) {
	switch {
	case v == 0, v == Off && insteadOfOff == offFine:
	case v == Off:
		c.add(path, "", "off", "is not possible here", insteadOfOff)
	case v != v:
		c.add(path, "", value, "is not a number", "leave it out for the default")
	case v < 0:
		c.add(path, "", value, "is negative", "leave it out for the default")
	case v < least:
		c.add(path, "", value, "is too small", "write at least "+text(least))
	case v > most:
		c.add(path, "", value, "is too large", "write at most "+text(most))
	}
}
