package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A spaced finds out whether it helps to space calls. If the dependency has a limit, a larger part of the calls is
// answered when fewer are made. If it refuses the same part at any rate, as where one of two replicas is out of order,
// fewer calls only mean fewer answers. So the seconds in which calls went at a rate of no more than six tenths are
// compared with those before. Half of what a limit would let through, beyond the usual part, is the verdict's border.
//
// While that is not known, the rate does not fall further: too few calls tell nothing.
type spaced struct {
	first, fewer answers // while calls went at the first rate, and at a much lower one

	until clock.Instant // calls are not spaced before this
	quiet time.Duration // how long that was; 0 if calls were always spaced since that last helped
	dead  clock.Instant // since when nothing has succeeded in that time; 0 if something has
}

const (
	spacedLeast   = 8   // answers at the first rate; fewer say nothing
	spacedLess    = 0.6 // of the first rate is much lower
	spacedSure    = 2.5 // standard deviations between the two expectations decide
	spacedMost    = 3   // times the answers at the first rate decide as well: more would not be surer
	spacedQuiet   = 30 * time.Second
	spacedLongest = 10 * time.Minute
	spacedDead    = 5 * time.Second
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
// and twice as long each time that the next attempt finds the same. Unsure means that the rate is to stay until it is
// known.
func (s *spaced) second(now clock.Instant, accepted, refused int, lasted time.Duration) (useless, unsure bool) {
	if accepted+refused == 0 {
		return false, false
	}
	rate := float64(accepted+refused) / lasted.Seconds()
	if s.first.good == 0 || s.first.n < spacedLeast || rate > spacedLess*s.first.rate() {
		s.first.add(accepted, refused, lasted)
		return false, false
	}
	s.fewer.add(accepted, refused, lasted)
	usual, n := s.first.good/s.first.n, s.fewer.n
	limited := min(usual*s.first.rate()/s.fewer.rate(), 1) // the part that a limit would let through
	apart := n * (limited - usual)
	variance := n * usual * (1 - usual) * (1 + n/s.first.n)
	if apart*apart < spacedSure*spacedSure*variance && n < spacedMost*s.first.n {
		return false, true
	}
	if useless = s.fewer.good < n*(limited+usual)/2; useless {
		s.quiet = min(max(2*s.quiet, spacedQuiet), spacedLongest)
		s.until = now.Add(s.quiet)
	} else {
		s.quiet = 0
	}
	s.begin()
	return useless, false
}

// off reports whether calls are not spaced now, because it did not help. It ends early where nothing succeeds any more.
func (s *spaced) off(now clock.Instant, succeeds bool) bool {
	switch {
	case s.quiet == 0 || now >= s.until:
		return false
	case succeeds:
		s.dead = 0
	case s.dead == 0:
		s.dead = now
	case now.Sub(s.dead) >= spacedDead:
		s.until, s.dead = now, 0
		return false
	}
	return true
}
