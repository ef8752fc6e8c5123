package scenario

import (
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// Expected returns about how many pieces of work the clients begin in one run: a
// measure of how long it takes.
func (f *File) Expected() float64 {
	work := 0.0
	for i := range f.fleets {
		c := &f.fleets[i]
		if sim.Loop(c.Loop) != sim.Open {
			work += c.mostWork(f.duration)
			continue
		}
		work += float64(c.Rate) * f.duration.Seconds()
		for _, s := range c.steps {
			lasts, often := time.Duration(s.For), 1.0
			if s.For == 0 {
				lasts = f.duration - time.Duration(s.At)
			}
			if s.Every > 0 {
				often += float64(s.last(f.duration)-time.Duration(s.At)) / float64(s.Every)
			}
			work += (f.fleets[i].rateOf(&s) - float64(c.Rate)) * lasts.Seconds() * often
		}
	}
	return work
}
