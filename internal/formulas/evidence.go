package formulas

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A Sample is what was counted of one dependency, from whichever source.
type Sample struct {
	Took     Counts  // attempts that succeeded
	Calls    float64 // that ended
	Failed   float64 // of Calls, without those that got an answer that is no success
	Attempts float64
	Retries  float64 // of Attempts
	Cut      float64 // of Attempts: their timeout ended them
	GaveUp   float64 // of Calls: their timeout or their caller ended them
	Opened   bool    // a breaker opened, or refused a call
}

// What it takes to change a time.
const (
	leastSuccesses = 1000 // to shorten one
	leastAttempts  = 100  // to lengthen one
	mostTrouble    = 0.01 // share of what failed
)

// KeepTimes says why no time may be shortened on the strength of a sample, or "". A time that
// is too short turns answers into failures, so that the sample must be large enough to show
// the slow ones, and must come from a time in which the dependency was well.
func KeepTimes(s Sample) string {
	if n := s.Took.Count(); n < leastSuccesses {
		return fmt.Sprintf("%d successes: 1,000 are needed to shorten a timeout", n)
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
	if _, known := s.reach(); !known {
		return fmt.Sprintf("%d of %d attempts ended before an answer or took longer than 30s: how long 999 of 1,000 take is not known", s.ended(), s.Took.Count()+s.ended())
	}
	return ""
}

// ended is how many attempts ended before their answer, so that only the least of their time
// is known.
func (s *Sample) ended() int64 { return int64(min(max(s.Cut+s.GaveUp, 0), 1e15)) }

// reach is a time within which 999 of 1,000 attempts end, and whether it is known: the upper end
// of the interval or, where they are too few for one, the longest of all, if none ended
// before its answer.
func (s *Sample) reach() (d time.Duration, known bool) {
	if _, d = s.Took.Between(0.999, s.ended()); d == Unbounded && s.ended() == 0 {
		d = s.Took.Longest()
	}
	return d, d < Unbounded
}

// A timeout that is further than this above what is proposed is worth a change.
const worthwhile = 1.5

// AttemptFor is an attempt's timeout where 999 of 1,000 attempts end within reach: twice that, and
// not less than half of the call's time or, with a short call, than the default. Below that the lab
// shows more losses where a dependency slows down than gains where a replica of it hangs
// (lab/internal/crosscheck, docs/doctor.md).
func AttemptFor(p policy.Policy, reach time.Duration) time.Duration {
	call, def := p.Resolved().Timeout.Call, policy.Policy{}.Resolved().Timeout
	if call <= 0 {
		call = def.Call
	}
	return max(Times(2, reach), (call / 2).Truncate(time.Millisecond), def.Attempt)
}

// FarAbove reports whether an attempt may take so much longer than to that it is worth to
// shorten its timeout.
func FarAbove(p policy.Policy, to time.Duration) bool {
	t := p.Resolved().Timeout
	is := t.Attempt
	if is <= 0 {
		is = t.Call
	}
	return is <= 0 || float64(is) >= worthwhile*float64(to)
}

// ProposeAttempt says what else timeout.attempt should be, and why; 0 if it fits, if nothing
// better is known, or if the policy measures it itself. A shorter one is proposed only where
// [KeepTimes] says nothing. Where the present one cuts off what takes longer, so that what
// attempts need can't be seen, what is proposed does not derive from what was measured: it is
// the default, or what the call has for each of its attempts.
func ProposeAttempt(p policy.Policy, s Sample) (to time.Duration, why string) {
	t := p.Resolved().Timeout
	all := s.Took.Count() + s.ended()
	if t.Percentile > 0 || all < leastAttempts {
		return 0, ""
	}
	is := "timeout.attempt is " + policy.FormatDuration(t.Attempt)
	if t.Attempt <= 0 {
		is = "timeout.attempt is off"
	}
	reach, known := s.reach()
	low, _ := s.Took.Between(0.999, s.ended())
	_, near := s.Took.Between(0.99, 0)
	if near == Unbounded {
		near = s.Took.Longest()
	}
	switch to = AttemptFor(p, reach); {
	case known && FarAbove(p, to) && KeepTimes(s) == "":
		return to, fmt.Sprintf("%s, and %s", s.Said(), is)
	case t.Attempt <= 0:
	case known && low >= t.Attempt:
		if to = max(Times(2, reach), room(p)); t.Call > 0 {
			to = min(to, t.Call)
		}
		if to <= t.Attempt { // it has all of the call
			return 0, ""
		}
		return to, fmt.Sprintf("%s, and %s: it cuts off attempts that would be answered", s.Said(), is)
	case low == Unbounded && near >= t.Attempt/2 && room(p) > t.Attempt:
		return room(p), fmt.Sprintf("%d of %d attempts ended before an answer, others were answered shortly before that, and %s: how long they would have taken can't be seen", s.ended(), all, is)
	}
	return 0, ""
}

// room is the default or, with a short call, what it has for each of its attempts.
func room(p policy.Policy) time.Duration {
	is, def := p.Resolved(), policy.Policy{}.Resolved().Timeout.Attempt
	if is.Timeout.Call <= 0 {
		return def
	}
	return min(def, is.Timeout.Call/time.Duration(max(is.Retry.Attempts, 1))).Truncate(time.Millisecond)
}

// Said is what a sample shows of how long attempts take, in one sentence.
func (s *Sample) Said() string {
	all := s.Took.Count() + s.ended()
	for _, q := range []float64{0.999, 0.99} {
		if low, high := s.Took.Between(q, s.ended()); high < Unbounded {
			return fmt.Sprintf("p%s of %d attempts is between %s and %s (95 %%)", strconv.FormatFloat(100*q, 'f', -1, 64), all, policy.FormatDuration(low), policy.FormatDuration(high))
		}
	}
	return fmt.Sprintf("p99 of %d attempts is not known", all)
}
