package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A spaced finds out whether it helps to space calls. If the dependency has a limit, a larger part of the calls is
// answered when fewer are made. If it refuses the same part at any rate, as where one of two replicas is out of order,
// fewer calls only mean fewer answers. So the seconds in which calls went at a rate of no more than six tenths are
// compared with those before. A third of what a limit would let through, beyond the usual part, is the border between the two.
//
// While that is not known, the rate does not fall further: too few calls tell nothing. If a smaller part is answered at
// the lower rate, the trouble may be another one, and the comparison begins anew, at the first rate.
type spaced struct {
	first, fewer answers // while calls went at the first rate, and at a much lower one
	start        float64 // the first rate of start times

	until clock.Instant // calls are not spaced before this
	quiet time.Duration // how long that was; 0 if calls were always spaced since that last helped
	asked clock.Instant // when the dependency last asked for time before until
	dead  clock.Instant // since when nothing has succeeded then; 0 if something has
}

const (
	spacedLeast   = 8    // answers at the first rate; fewer say nothing
	spacedLess    = 0.6  // of the first rate is much lower
	spacedSure    = 3.0  // standard deviations between the two expectations decide
	spacedWorse   = 1.5  // standard deviations below both: the trouble has become worse
	spacedVaries  = 0.05 // variance of an answer, at least: that all of some were good is no proof
	spacedMost    = 3    // times the answers at the first rate decide as well: more would not be surer
	spacedQuiet   = 30 * time.Second
	spacedLongest = 2 * time.Minute
	spacedOver    = 5 * time.Second // without a success, or without a refusal: it is another trouble, or none
)

// answers are those of some seconds.
type answers struct{ n, good, seconds float64 }

func (a *answers) add(accepted, refused int, lasted time.Duration) {
	a.n += float64(accepted + refused)
	a.good += float64(accepted)
	a.seconds += lasted.Seconds()
}

func (a *answers) rate() float64 { return a.n / a.seconds }

// begin forgets what is known: calls begin to be spaced, or nearly all are answered.
func (s *spaced) begin() { s.first, s.fewer = answers{}, answers{} }

// second adds a second. Useless means that spacing was found not to help. Then calls are not spaced for half a minute,
// and twice as long, up to two minutes, each time that the next attempt soon finds the same. Stay is the least rate of start
// times after this second, while it is not known or where it helps.
func (s *spaced) second(now clock.Instant, accepted, refused int, lasted time.Duration, pace float64) (useless bool, stay float64) {
	if accepted+refused == 0 || lasted > 2*pacePeriod { // hardly any call came
		return false, 0
	}
	if s.first.n == 0 {
		s.start = pace
	}
	rate := float64(accepted+refused) / lasted.Seconds()
	if s.first.good == 0 || s.first.n < spacedLeast || rate > spacedLess*s.first.rate() {
		s.first.add(accepted, refused, lasted)
		return false, 0
	}
	s.fewer.add(accepted, refused, lasted)
	usual, n := s.first.good/s.first.n, s.fewer.n
	limited := min(usual*s.first.rate()/s.fewer.rate(), 1) // the part that a limit would let through
	apart, more := n*(limited-usual), s.fewer.good-n*usual
	variance := n * max(usual*(1-usual), spacedVaries) * (1 + n/s.first.n)
	switch {
	case more < 0 && more*more > spacedWorse*spacedWorse*variance:
		if s.begin(); accepted > 0 {
			stay = s.start
		}
		return false, stay
	case apart*apart < spacedSure*spacedSure*variance && n < spacedMost*s.first.n:
		return false, pace
	case more > apart/3:
		s.quiet = 0
	case now.Sub(s.until) > spacedLongest:
		s.quiet = spacedQuiet
	default:
		s.quiet = min(max(2*s.quiet, spacedQuiet), spacedLongest)
	}
	limit := s.first.good / s.first.seconds // if there is one
	s.begin()
	if s.quiet == 0 {
		return false, max(pace, limit)
	}
	s.until, s.asked, s.dead = now.Add(s.quiet), now, 0
	return true, 0
}

// off reports, when the dependency asks for time, whether calls are not spaced because that did not help. It ends early
// where for some seconds nothing succeeds, or nothing was refused.
func (s *spaced) off(now clock.Instant) bool {
	switch {
	case s.quiet == 0 || now >= s.until:
		return false
	case now.Sub(s.asked) >= spacedOver:
		s.quiet = 0
		return false
	case s.dead == 0:
		s.dead = now
	case now.Sub(s.dead) >= spacedOver:
		s.quiet = 0
		return false
	}
	s.asked = now
	return true
}
