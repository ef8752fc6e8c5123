package formulas

import (
	"fmt"
	"strconv"
	"strings"
)

// A Sample is what was counted of one dependency, from whichever source.
type Sample struct {
	Successes float64 // attempts whose time is known
	Calls     float64 // that ended
	Failed    float64 // of Calls, without those that got an answer that is no success
	Attempts  float64
	Retries   float64 // of Attempts
	Cut       float64 // of Attempts: their timeout ended them
	Opened    bool    // a breaker opened, or refused a call
}

// What it takes to shorten a time.
const (
	leastSuccesses = 1000 // for a 99.9th percentile
	mostTrouble    = 0.01 // share of what failed
)

// KeepTimes says why no time may be shortened on the strength of a sample, or "". A time that
// is too short turns answers into failures, so that the sample must be large enough to show
// the slow ones, and must come from a time in which the dependency was well.
func KeepTimes(s Sample) string {
	if s.Successes < leastSuccesses {
		return fmt.Sprintf("%s successes: 1,000 are needed to shorten a timeout", strconv.FormatFloat(max(s.Successes, 0), 'f', 0, 64))
	}
	if s.Opened {
		return "a breaker opened in that time"
	}
	for _, t := range []struct {
		part, of float64
		what     string
	}{
		{s.Failed, s.Calls, "calls failed"},
		{s.Cut, s.Attempts, "attempts ran into their timeout"},
		{s.Retries, s.Attempts, "attempts were repeats of one that failed"},
	} {
		if t.of > 0 && t.part/t.of >= mostTrouble {
			return fmt.Sprintf("%s %% of the %s in that time", strings.TrimSuffix(strconv.FormatFloat(100*t.part/t.of, 'f', 1, 64), ".0"), t.what)
		}
	}
	return ""
}
