package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// trouble is what a fleet with learned limits goes through. It begins after a minute.
type trouble struct {
	fact  string
	fault sim.Fault // the zero Fault where it is only the load
	times float64   // the load
	long  time.Duration
	least float64 // that must be answered afterwards
}

// answered is the share of calls that were answered from eight seconds after the trouble on,
// for a minute, and the share of calls that found no slot.
func (c trouble) answered(t *testing.T, clients, queue int, seed uint64) (good, refused float64) {
	t.Helper()
	const ms, rate, start = time.Millisecond, 500, time.Minute
	r, err := machine.Compile(policy.Policy{
		Safe: true, Timeout: policy.Timeout{Call: 2 * time.Second, Attempt: time.Second},
		Breaker:  policy.Breaker{Off: true}, // which refuses for up to half a minute longer
		Bulkhead: policy.Bulkhead{Limit: policy.Learned, Queue: queue},
	})
	if err != nil {
		t.Fatal(err)
	}
	end := start + c.long
	w := &sim.World{
		Duration: end + 68*time.Second, Drain: 10 * time.Second, Cuts: []time.Duration{end + 8*time.Second},
		Services: []sim.Service{{Name: "service", Workers: 40, Queue: 400, Time: draw.Mixture( // 54 ms on average
			draw.Part{Share: 0.9, Dist: draw.LogNormal(20*ms, 40*ms)}, draw.Part{Share: 0.1, Dist: draw.LogNormal(300*ms, 600*ms)})}},
		Fleets: []sim.Fleet{{
			Name: "clients", Clients: clients,
			Load: sim.Load{{PerSecond: rate}, {At: start, PerSecond: rate}, {At: start + 1, PerSecond: c.times * rate}, {At: end, PerSecond: c.times * rate}, {At: end + 1, PerSecond: rate}},
			Plan: sim.Plan{Deadline: 2 * time.Second, Steps: []sim.Step{{Edge: sim.Edge{Rules: r, Network: draw.Constant(ms)}}}},
		}},
	}
	if c.fault.For = c.long; c.fault.Kind != 0 {
		c.fault.At = start
		w.Faults = []sim.Fault{c.fault}
	}
	res := sim.Run(w, seed)
	if len(res.Broken) > 0 {
		t.Fatal(res.Broken)
	}
	after := &res.Phases[1]
	none := after.Edges[0].Ended[policy.BulkheadFull] + after.Edges[0].Ended[policy.QueueTimeout]
	n := float64(after.Fleets[0].Offered)
	return float64(after.Fleets[0].Good) / n, float64(none) / n
}

// A limit that trouble has lowered comes back when it is over: a call that finds no slot is a
// reason to try more, also where slots are free on average. One run in a hundred with three clients loses up to a twelfth for half a
// minute: the usual time was learned from thirty attempts, of which one in ten takes ten times as long. So one of 24 runs may.
func TestALimitComesBack(t *testing.T) {
	seeds, sizes, queues := uint64(4), []int{3, 30}, []int{policy.Off}
	if !testing.Short() {
		seeds, sizes, queues = 24, []int{3, 30, 300}, []int{policy.Off, 0}
	}
	for _, c := range []trouble{
		{"a brown-out to a half", sim.Fault{Kind: sim.BrownOut, Factor: 0.5}, 1, 3 * time.Minute, 0.997}, // re-sends earned nothing in its queue
		{"a brown-out to a third", sim.Fault{Kind: sim.BrownOut, Factor: 0.3}, 1, 3 * time.Minute, 0.997},
		{"a minute of hangs", sim.Fault{Kind: sim.BlackHole}, 1, time.Minute, 0.999},
		{"three times the load", sim.Fault{}, 3, 2 * time.Minute, 0.999},
	} {
		for _, n := range sizes {
			for _, queue := range queues {
				t.Run(fmt.Sprintf("%s, %d clients, queue %d", c.fact, n, queue), func(t *testing.T) {
					t.Parallel()
					seeds, good, refused, least, bad := seeds, 0.0, 0.0, 1.0, uint64(0)
					if n > 30 {
						seeds /= 4
					}
					for seed := range seeds {
						g, r := c.answered(t, n, queue, seed+1)
						good, refused, least = good+g/float64(seeds), refused+r/float64(seeds), min(least, g)
						if g < 1-6*(1-c.least) {
							bad++
						}
					}
					if good < c.least || bad > seeds/24 {
						t.Errorf("answered %.3f %%, at least %.3f %% of a run; %.3f %% found no slot", 100*good, 100*least, 100*refused)
					}
				})
			}
		}
	}
}
