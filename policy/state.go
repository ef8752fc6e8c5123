package policy

// BreakerState is what a breaker does with calls.
type BreakerState uint8

// The states of a breaker.
const (
	StateClosed      BreakerState = iota // admits and counts
	StateOpen                            // refuses until its time is over
	StateHalfOpen                        // admits a few probes and refuses the rest
	StateDisabled                        // admits everything and counts nothing, until its end, if it has one
	StateForcedOpen                      // refuses until its end, if it has one, and counts nothing
	StateObserveOnly                     // admits and counts, says when it would have opened; until its end, if it has one
	numStates
)

var stateText = [numStates]string{"closed", "open", "half_open", "disabled", "forced_open", "observe_only"}

// String returns the text that logs and docs use.
func (s BreakerState) String() string {
	if s < numStates {
		return stateText[s]
	}
	return "state(unknown)"
}

// BreakerCause says why a breaker moved. Its text is one of failure_rate, slow_rate, failures and consecutive, the rules of
// a closed breaker; probe_failed, probes_passed, probe_expired, cooldown_over and calls_refused, those of an open one; and
// forced, isolated, released, reset and override_over, by hand.
type BreakerCause uint8

// causeText is in the order of internal/breaker.
var causeText = [...]string{
	"failure_rate", "slow_rate", "failures", "consecutive", "probe_failed", "probes_passed",
	"probe_expired", "cooldown_over", "calls_refused", "forced", "isolated", "released", "reset",
	"override_over",
}

// String returns the text that logs and docs use.
func (c BreakerCause) String() string {
	if int(c) < len(causeText) {
		return causeText[c]
	}
	return "cause(unknown)"
}

// Counts are the calls of a breaker's window. Slow ones are among Calls, and may be
// among Failures.
type Counts struct{ Calls, Failures, Slow int64 }

// BreakerStats is a breaker at one moment.
type BreakerStats struct {
	State    BreakerState
	Counts   Counts  // of the window, or of the probes in half-open
	Until    Instant // when open, or a state that was set by hand, ends, Never for no end; else zero
	Refused  int64   // calls refused since calls were last admitted
	Probes   int     // probes that are out
	InFlight int     // calls that are out and watched for ageing
	Opens    int     // opens since the last close

	// Run is how many calls failed in a row, up to now. RunOpens is how many open the breaker once they have lasted for
	// Breaker.ConsecutiveFor: Breaker.Consecutive, or more where such runs were usual, or two where
	// a fleet found the dependency broken. Both are 0 in a state that does not count, and without the rule.
	Run, RunOpens int

	// FailureRate and SlowRate are between 0 and 1, or -1 while they are unknown,
	// below the minimum of calls.
	FailureRate, SlowRate float64
}

// BulkheadStats is a bulkhead at one moment.
type BulkheadStats struct {
	InUse      int // slots taken; more than Limit after a shrink, until they are given back
	Queued     int // calls that wait; more than QueueLimit after a shrink
	Limit      int // the most slots in use, now
	QueueLimit int // the most calls that wait

	// Learned says that Limit moves by itself, between Min and Max. Min and Max are zero
	// of a limit that is fixed.
	Learned  bool
	Min, Max int
}

// Priority says who goes first among those who wait. A free slot goes to the
// highest class that anybody waits in, and inside a class to the first in the queue
// (in a fair bulkhead: to the tenant whose turn it is).
//
// Starving is bounded: a class that was overtaken 32 times in a row gets the
// next slot. So under a flood from above it still has about one slot in 33, and
// calls that matter less are slow instead of dead. In the line of a quota the
// higher class goes first, without a bound.
//
// Anything above PriorityNormal means high, anything below it low.
type Priority int8

// The classes of priority.
const (
	PriorityLow    Priority = iota - 1 // background work, calls that can wait
	PriorityNormal                     // the zero Priority
	PriorityHigh                       // what the others are there for
)
