package gabion

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// Stats is what a dependency knows of itself at one moment.
type Stats struct {
	Name           string
	At             time.Time
	policy.Stats         // totals, latency, breaker, partitions, bulkhead, budget, throttle, rate limit
	Fallbacks      int64 // answers that a fallback gave
	ObserverPanics int64 // observers that panicked
}

// Stats returns a snapshot. Changes that are due by time alone, such as the expiry of a
// probe, are made first, and observers are told of them before Stats returns: do not call
// it with a lock that an observer takes.
func (d *Dependency) Stats() Stats {
	now := d.now()
	s := Stats{
		Name: d.name, At: d.date(now), Stats: d.state.Stats(now),
		Fallbacks: d.fallbacks.Load(), ObserverPanics: d.crashes.Load(),
	}
	d.deliver(nil)
	return s
}
