package policy

import "time"

// Per says whether a layer wraps each attempt or the whole call.
type Per uint8

// What a layer can wrap.
const (
	PerAttempt Per = iota // asked before every attempt: learns sooner, stops a loop under way
	PerCall               // asked once, told the last outcome: the order of most textbooks
)

// Breaker stops calling a dependency that fails or drags. All its rules are
// OR-ed; a rule trips at its threshold, not above it.
type Breaker struct {
	// Off removes the breaker.
	Off bool

	// Observe counts and reports but never refuses.
	Observe bool

	// Per says whether each attempt or the whole call is guarded. Zero means
	// PerAttempt.
	Per Per

	// Window is the time over which outcomes are counted. Zero means 10 s, or twice
	// the attempt timeout when that is longer.
	Window time.Duration

	// WindowCalls makes the window this number of the latest calls instead of a time. Zero means
	// Window is used.
	WindowCalls int

	// MinCalls is the least outcomes before a rate is known. Zero means 30, or
	// WindowCalls when that is smaller.
	MinCalls int

	// FailureRate opens the breaker when this share failed. Zero means 95 %: while
	// more than a few succeed, refusing costs more than it saves. Off means that the
	// rate does not count.
	FailureRate Ratio

	// SlowCall is the time above which an answer counts as slow. Zero means 80 %
	// of the attempt timeout, or of the call timeout with PerCall; Off means that
	// slowness does not count.
	SlowCall time.Duration

	// SlowRate opens the breaker when this share was slow. Zero means 80 % where
	// SlowCall is written, and Off where it is not: a slow answer is one.
	SlowRate Ratio

	// Failures opens the breaker at this number of failures in the window, whatever the rate. Zero
	// means no such rule.
	Failures int

	// Consecutive opens the breaker at this number of failures in a row. Zero means 20; Off means
	// no such rule. With ConsecutiveFor, and while half or more of the calls in the window fail, a row
	// must also be three times as long as the longest before it, up to four times this number: where
	// 90 % fail, 20 in a row are chance. A row that opened the breaker counts, too. Rows are forgotten once none has
	// ended for as long as the window. A window of calls has no such memory.
	Consecutive int

	// ConsecutiveFor is how long the row must have lasted as well, from when its first
	// call was sent. Zero means 10 s where Consecutive is not written, and no time
	// where it is; Off means no time.
	ConsecutiveFor time.Duration

	// InFlight counts a call as slow as soon as it has run for longer than SlowCall,
	// before it ends.
	InFlight bool

	// Throttled counts 429 and the like as failures. Zero means that they pace
	// and do not trip.
	Throttled bool

	// Open is how long the breaker refuses before it probes. Zero means 2 s, or
	// OpenMax when that is shorter.
	Open time.Duration

	// OpenMax caps Open when it grows, or when an answer asked for more time: so long
	// may calls be refused after the dependency is back. Zero means a quarter more than
	// Open.
	OpenMax time.Duration

	// OpenCalls lets a probe go before Open is over, once this number of calls were refused since
	// the last: the more traffic there is, the sooner the breaker knows. It begins at 3 and grows
	// by one with each open that no close separates from the last. Further probes in half-open wait
	// for as many calls. Zero means 8 where Open is not written, and Off where it is.
	OpenCalls int

	// OpenGrowth multiplies Open each time a probe re-opens the breaker. Zero
	// means 2; 1 means no growth.
	OpenGrowth float64

	// OpenJitter lengthens Open by up to this share of itself. Zero means 10 %;
	// Off means none.
	OpenJitter Ratio

	// Probes is how many calls may be out at once while the breaker tries the
	// dependency. Zero means 3.
	Probes int

	// ProbeCalls is how many outcomes decide, by the same rates as in closed.
	// Zero means 1 with OpenCalls, and Probes without.
	ProbeCalls int

	// CloseAfter decides by count instead: this number of successes closes the breaker. Zero means
	// that rates decide.
	CloseAfter int

	// ReopenAfter is how many failures re-open with CloseAfter. Zero means 1.
	ReopenAfter int

	// ProbeTimeout is when a probe that has not ended counts as failed. A probe whose
	// result is still open, such as a response body, counts when the result ends, or
	// after this time. Zero means the attempt timeout, or the call timeout with
	// PerCall. A probe that has more time than the attempt timeout because late answers come counts
	// that much later.
	ProbeTimeout time.Duration

	// ProbeExpiryCloses makes an expired probe close the breaker instead of
	// opening it.
	ProbeExpiryCloses bool
}
