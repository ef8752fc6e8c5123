package breaker

import (
	"math"
	"testing"
	"time"
)

// A fleet whose breakers opened as one must not come back as one, however often
// they had to open.
func TestOpenTimesSpreadAlsoAtTheirCap(t *testing.T) {
	const s = time.Second
	almost := math.Nextafter(1, 0)
	rules := func(open, most time.Duration) *Rules {
		return &Rules{Open: open, OpenMax: most, OpenGrowth: 2, OpenJitter: 0.25}
	}
	for _, c := range []struct {
		fact           string
		r              *Rules
		nth            int
		after          time.Duration
		least, longest time.Duration
	}{
		{"the first is lengthened", rules(16*s, 40*s), 1, 0, 16 * s, 20 * s},
		{"growth stops where the longest draw reaches the cap", rules(16*s, 40*s), 2, 0, 32 * s, 40 * s},
		{"and stays there", rules(16*s, 40*s), 9, 0, 32 * s, 40 * s},
		{"an open time that is its own cap stays as it is", rules(16*s, 16*s), 3, 0, 16 * s, 16 * s},
		{"one close to its cap is not shortened", rules(15*s, 16*s), 3, 0, 15 * s, 16 * s},
		{"without a cap it just grows", rules(16*s, 0), 3, 0, 64 * s, 80 * s},
		{"an answer's time is lengthened too", rules(16*s, 40*s), 1, 20 * s, 20 * s, 25 * s},
		{"up to where growth stops, so that a fleet which was told one time spreads", rules(16*s, 40*s), 1, time.Hour, 32 * s, 40 * s},
	} {
		least, longest := c.r.openFor(c.nth, c.after, 0), c.r.openFor(c.nth, c.after, almost)
		if least != c.least || longest > c.longest || longest < c.longest-time.Microsecond {
			t.Errorf("%s: %s to %s, want %s to %s", c.fact, least, longest, c.least, c.longest)
		}
	}
}
