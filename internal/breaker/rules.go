package breaker

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// The bounds of what a breaker keeps, whatever its rules ask for.
const (
	buckets        = 10      // of a time window
	maxWindowCalls = 1 << 20 // 256 KiB of bits
	maxProbes      = 1024    // 16 KiB; more is no longer a probe but traffic
	maxAgeing      = 128     // calls watched in flight; those past it count when they are settled
	maxShards      = 256     // more processors share
	maxIsolations  = 1024    // handles out at once; those past it are zero and hold nothing
)

// Rules say when a breaker opens and how it closes again. All values are taken
// literally, and zero switches a rule off. Rules must not be changed while a
// breaker has them; give it new ones with [Breaker.SetRules].
type Rules struct {
	// Window is the time over which outcomes are counted, in ten buckets.
	Window time.Duration

	// WindowCalls counts the last so many outcomes instead, when positive.
	WindowCalls int

	// MinCalls is the least outcomes before a rate is known, at least one and at
	// most WindowCalls.
	MinCalls int

	// FailureRate trips when this share or more failed, SlowRate when this share
	// or more took longer than SlowCall.
	FailureRate, SlowRate float64
	SlowCall              time.Duration

	// Failures trips at so many failures in the window, Consecutive at so many in
	// a row, both without a minimum.
	Failures, Consecutive int

	// ConsecutiveFor is how long the run of failures must have lasted for Consecutive to
	// trip, from when its first call began. With it, a run must also be three times as long as the longest
	// that ended while half or more of the calls in the window failed, but need not be
	// longer than four times Consecutive: where 90 % fail, 20 failures in a row are chance. A run that opened the breaker
	// ended, too. Runs are forgotten once none has ended for a Window. A window of calls has no such memory.
	ConsecutiveFor time.Duration

	// DoubtUntil, if not zero, is until when two failures in a row trip, because others found the same dependency broken. It
	// needs a run of failures that is kept.
	DoubtUntil clock.Instant

	// CountRun keeps the run of failures for [Breaker.FailureRun] where no rule asks for it.
	CountRun bool

	// InFlight counts calls that have been out for SlowCall as slow before they are
	// settled. At most 128 are watched at once.
	InFlight bool

	// Observe says that a breaker which was set by hand until a time only observes after
	// it. It moves nothing by itself.
	Observe bool

	// Open is how long an open breaker refuses. It grows by the factor OpenGrowth
	// with each open that no close separates from the last, is lengthened by a
	// random share of itself up to OpenJitter, and never exceeds OpenMax. Growth
	// leaves room for the jitter below OpenMax, or a fleet whose breakers have all
	// grown up to it would come back as one.
	Open, OpenMax          time.Duration
	OpenGrowth, OpenJitter float64

	// OpenCalls lets a probe go before the open time is over, once so many calls were
	// refused since the last: at most OpenCalls, and fewer at first, 2 more than there
	// were opens since the last close. Half-open it lets one more probe go each time.
	OpenCalls int

	// Probes is how many calls may be out at once in half-open, at least one and
	// at most 1024. ProbeCalls is after how many outcomes the rates decide, and
	// zero means Probes. Where no failure rate is set but another rule counts
	// failures, one failed probe re-opens.
	Probes, ProbeCalls int

	// CloseAfter decides by count instead of rates when positive: so many good
	// probes close, and ReopenAfter (at least one) failed or slow ones re-open.
	CloseAfter, ReopenAfter int

	// ProbeTimeout is the age at which a probe that is still out has expired.
	// It re-opens the breaker, or closes it with ExpiryCloses.
	ProbeTimeout time.Duration
	ExpiryCloses bool
}

func (r *Rules) slow(took time.Duration) bool { return r.SlowCall > 0 && took > r.SlowCall }

// onlyCounts reports whether a success that ends now is no more than one in a window of time.
func (r *Rules) onlyCounts(now clock.Instant, p *Permit) bool {
	return !r.byCount() && (r.SlowCall <= 0 || !r.InFlight && now.Sub(p.start) <= r.SlowCall)
}

// home is where a state that was set by hand until a time ends.
func (r *Rules) home() State {
	if r.Observe {
		return ObserveOnly
	}
	return Closed
}

func (r *Rules) ageing() bool     { return r.InFlight && r.SlowCall > 0 }
func (r *Rules) countsRun() bool  { return r.CountRun || r.Consecutive > 0 }
func (r *Rules) byCount() bool    { return r.WindowCalls > 0 }
func (r *Rules) windowCalls() int { return min(r.WindowCalls, maxWindowCalls) }
func (r *Rules) probes() int      { return min(max(r.Probes, 1), maxProbes) }

func (r *Rules) minCalls() int64 {
	least := max(r.MinCalls, 1)
	if r.byCount() {
		least = min(least, r.windowCalls())
	}
	return int64(least)
}

// rate divides, and so is exact where multiplying would not be: 3 of 30 is 10 %,
// though 0.1·30 is more than 3.
func rate(part, whole int64) float64 { return float64(part) / float64(whole) }

// rates returns the two rates that reach their limits.
func (r *Rules) rates(c window.Counts) (over Causes) {
	if r.FailureRate > 0 && rate(c.Failures, c.Calls) >= r.FailureRate {
		over |= only(FailureRate)
	}
	if r.SlowRate > 0 && r.SlowCall > 0 && rate(c.Slow, c.Calls) >= r.SlowRate {
		over |= only(SlowRate)
	}
	return over
}

// exceeded returns the rules that are broken by the counts c, or by a run of so many
// failures that has lasted so long.
func (r *Rules) exceeded(c window.Counts, run, longest uint32, lasted time.Duration) (over Causes) {
	if c.Calls >= r.minCalls() {
		over = r.rates(c)
	}
	if r.Failures > 0 && c.Failures >= int64(r.Failures) {
		over |= only(Failures)
	}
	if r.Consecutive > 0 && int64(run) >= r.enough(longest) && (r.ConsecutiveFor <= 0 || lasted >= r.ConsecutiveFor) {
		over |= only(Consecutive)
	}
	return over
}

const (
	runsBeyond = 3 // times the longest run that was chance
	runsAtMost = 4 // times Consecutive, whatever there was before
)

// enough is how many failures in a row are no chance, where runs were so long that ended.
func (r *Rules) enough(longest uint32) int64 {
	least := int64(r.Consecutive)
	if r.ConsecutiveFor <= 0 || r.byCount() {
		return least
	}
	return max(least, min(runsBeyond*int64(longest), runsAtMost*least))
}

// Doubted is how many failures in a row trip a breaker whose dependency others found broken. One may be chance.
const Doubted = 2

// doubts reports whether a run of failures is enough because of what others say.
func (r *Rules) doubts(now clock.Instant, run uint32) bool {
	return run >= Doubted && r.DoubtUntil != 0 && now < r.DoubtUntil
}

// probeCalls is how many outcomes half-open needs at most.
func (r *Rules) probeCalls() int64 {
	switch {
	case r.CloseAfter > 0:
		return int64(r.CloseAfter) + int64(max(r.ReopenAfter, 1)) - 1
	case r.ProbeCalls > 0:
		return int64(r.ProbeCalls)
	}
	return int64(r.probes())
}

// probed returns the verdict on the probes that were settled, if there is one.
func (r *Rules) probed(c window.Counts, bad int64) (v Result, over Causes) {
	switch {
	case r.CloseAfter > 0 && bad >= int64(max(r.ReopenAfter, 1)):
		return Bad, 0
	case r.CloseAfter > 0 && c.Calls-bad >= int64(r.CloseAfter):
		return Good, 0
	case r.CloseAfter > 0 || c.Calls < r.probeCalls():
		return Neutral, 0
	}
	over = r.rates(c)
	strict := r.FailureRate <= 0 && (r.Failures > 0 || r.Consecutive > 0)
	if over != 0 || strict && c.Failures > 0 {
		return Bad, over
	}
	return Good, 0
}

// openFor returns how long the nth consecutive open lasts. A dependency that
// asks for more time than that gets it, up to OpenMax.
func (r *Rules) openFor(nth int, after time.Duration, u float64) time.Duration {
	limit := float64(math.MaxInt64)
	if r.OpenMax > 0 {
		limit = float64(r.OpenMax)
	}
	jitter := max(r.OpenJitter, 0)
	first := float64(max(r.Open, 0))
	grown := max(first, float64(limit/(1+jitter)))
	d := first
	for i := 1; i < nth && r.OpenGrowth > 1 && d > 0 && d < grown; i++ {
		d = min(float64(d*r.OpenGrowth), grown)
	}
	d = float64(max(d, min(float64(after), grown)) * (1 + float64(jitter*u)))
	if d = min(d, limit); d >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(d)
}

// openCalls is how many calls are refused for each probe in the nth consecutive open,
// or 0 if only time tells.
func (r *Rules) openCalls(nth int) int { return min(r.OpenCalls, nth+2) }
