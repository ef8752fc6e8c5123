package anchor

import (
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// soon is no wait.
var soon = backoff.Const(0)

// bare is the policy that only calls; everything that a model needs is added to it.
func bare() policy.Policy {
	return policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: policy.Off, Attempt: policy.Off, Strict: true},
		Retry:    policy.Retry{Attempts: 1, Backoff: soon, Budget: policy.Budget{Off: true}},
		Pace:     policy.Pace{Off: true},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},
	}
}

// unlimited is a queue that nothing overflows.
const unlimited = 1 << 30

// one is the plan of calling one service once.
func one(e sim.Edge) sim.Plan { return sim.Plan{Steps: []sim.Step{{Edge: e}}} }

// instant is the shortest time to let pass: it ends a run where the load ends.
const instant = time.Nanosecond

// good returns the successes a second from one time to another, of bins of a
// second.
func good(r *sim.Result, from, to int) float64 {
	n := int64(0)
	for i := from; i < min(to, len(r.Bins)); i++ {
		n += r.Bins[i].Good
	}
	return float64(n) / float64(to-from)
}

// shareOf returns the share of those for which is is true.
func shareOf[T any](all []T, is func(*T) bool) float64 {
	n := 0
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return float64(n) / float64(len(all))
}
