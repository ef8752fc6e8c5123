package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TimeoutProposal is an attempt timeout that fits what was measured.
type TimeoutProposal struct {
	Attempt    time.Duration // what timeout.attempt could be
	Percentile Ratio         // what timeout.percentile could be instead; zero where the fixed one is all that helps
	Observed   time.Duration // how long that share of the attempts took at most, …
	Of         Ratio         // … this one, …
	Samples    int64         // … of this number that were looked at
	Reason     string        // all of that in one sentence, with what to write
}

// A timeout within these bounds fits.
const (
	fewSamples  = 100  // for a 99th percentile
	manySamples = 1000 // for a 99.9th, and for a timeout that is shorter
	farAbove    = 5    // times what is proposed: it waits for nothing
	closeTo     = 0.8  // of it: what takes longer is cut off, and how much that is can't be measured
)

// ProposeAttempt compares the policy's attempt timeout with measured latency, and
// reports whether another would fit better: one that is far above what attempts need makes callers wait
// for nothing, one that is close to it cuts off attempts that would succeed. A longer one
// is proposed from a hundred latencies on, a shorter one from a thousand on, and neither
// where the timeout is measured already. Whether calls failed in that time is for the
// caller to look at: a shorter timeout out of a time of trouble does harm.
func (p Policy) ProposeAttempt(l LatencyStats) (t TimeoutProposal, off bool) {
	is := p.Resolved().Timeout
	attempt, call, written := is.Attempt, is.Call, p.Timeout.Attempt
	t.Samples, t.Of, t.Observed = l.Samples, 0.999, l.P999
	least := 2 * l.P999
	if l.Samples < manySamples {
		t.Of, t.Observed, least = 0.99, l.P99, 3*l.P99
	}
	if p.Timeout.Percentile > 0 || l.Samples < fewSamples || t.Observed <= 0 {
		return TimeoutProposal{}, false
	}
	t.Attempt = twoDigits(max(least, 3*l.P50, defaultAttemptMin))
	share := "p" + strings.TrimSuffix(t.Of.String(), "%")
	seen := fmt.Sprintf("%s of the last %d attempts that were measured is %s", share, t.Samples, FormatDuration(twoDigits(t.Observed)))
	enough := l.Samples >= manySamples
	switch {
	case attempt <= 0 && enough:
		t.Percentile = t.Of
		t.Reason = fmt.Sprintf("%s, and timeout.attempt is off: write %s", seen, FormatDuration(t.Attempt))
	case attempt > farAbove*t.Attempt && enough:
		t.Percentile = t.Of
		t.Reason = fmt.Sprintf("%s, and timeout.attempt is %s: write attempt: %s, or %s", seen, given(attempt, written), share, FormatDuration(t.Attempt))
	case attempt > 0 && float64(t.Observed) > closeTo*float64(attempt) && (call <= 0 || attempt < call):
		if t.Attempt = 2 * attempt; call > 0 {
			t.Attempt = min(t.Attempt, call)
		}
		t.Reason = fmt.Sprintf("%s, close to timeout.attempt, %s, which cuts off what takes longer: write %s", seen, given(attempt, written), FormatDuration(t.Attempt))
	default:
		return TimeoutProposal{}, false
	}
	return t, true
}

// twoDigits rounds up to two digits.
func twoDigits(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	unit := time.Duration(math.Pow10(max(len(strconv.FormatInt(int64(d), 10))-2, 0)))
	return (d + unit - 1) / unit * unit
}
