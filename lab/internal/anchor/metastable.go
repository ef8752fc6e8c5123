package anchor

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// metastableModel has the shape of the retry experiment of Huang et al.,
// "Metastable Failures in the Wild" (OSDI 2022): an open loop of inserts, a timeout
// of 3 s, four resends at once, work that goes on when its caller has gone, and a
// trigger that takes processors away for a while. The source's numbers belong to
// its machine. Here the service's capacity is chosen so that their four cells come
// out in their order, at a tenth of their rate; everything else is as published.
var metastableModel = model{
	name: "metastable",
	says: "a trigger that is deep and long enough, and an outage that outlives it (Huang et al. 2022); order only",
	settings: []setting{
		{"cpu", "0.40", "processors that the trigger leaves, of 2", number(0.001, 2)},
		{"length", "10s", "how long the trigger lasts", span(0, 100*time.Second)},
		{"sleep", "75us", "the pause of the source's loop: 100us is a quarter less load", span(time.Microsecond, time.Second)},
		{"rate", "1300", "calls a second at a pause of 75us", number(1, 100_000)},
		{"capacity", "3500", "calls a second that 2 processors can serve", number(1, 1_000_000)},
		{"tries", "5", "of each call", whole(1, 10)},
		{"budget", "none", "the share of its calls that the client may send again", shareOrNone},
		{"drop", "false", "whether the service drops work whose caller has gone, before it begins", boolean},
		{"boundary", "false", "whether to look for the longest trigger that heals, up to twice the length", boolean},
		runs("5"), seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		length := v.duration("length")
		share, err := staysDown(ctx, v, length, v.count("runs"))
		if err != nil || !v.yes("boundary") {
			return []Figure{{"stuck", share}}, err
		}
		longest, err := longestHealed(ctx, v)
		return []Figure{{"stuck", share}, {"longest_healed_s", longest.Seconds()}}, err
	},
}

// staysDown returns the share of runs in which goodput is below half of the load in
// the last 20 of the 100 seconds after the trigger.
func staysDown(ctx context.Context, v values, length time.Duration, runs int) (float64, error) {
	w, err := metastableWorld(v, length)
	if err != nil {
		return 0, err
	}
	end := int(w.Duration / time.Second)
	rate := w.Fleets[0].Load[0].PerSecond
	all, err := simulate(ctx, w, v, runs, func(r *sim.Result) float64 { return good(r, end-20, end) })
	return shareOf(all, func(g *float64) bool { return *g < rate/2 }), err
}

// longestHealed halves the lengths between none and twice the one given: the outcome
// is monotone in it.
func longestHealed(ctx context.Context, v values) (time.Duration, error) {
	low, high := time.Duration(0), 2*v.duration("length")
	for high-low > 100*time.Millisecond {
		middle := (low + high) / 2
		share, err := staysDown(ctx, v, middle, v.count("runs"))
		switch {
		case err != nil:
			return 0, err
		case share > 0.5:
			high = middle
		default:
			low = middle
		}
	}
	return low, nil
}

func metastableWorld(v values, length time.Duration) (*sim.World, error) {
	p := bare()
	p.Timeout.Attempt = 3 * time.Second
	p.Retry.Attempts = v.count("tries")
	if share := v.number("budget"); share > 0 {
		p.Retry.Budget = policy.Budget{Ratio: policy.Ratio(share), Floor: policy.Off}
	}
	rules, err := machine.Compile(p)
	if err != nil {
		return nil, err
	}
	const before = 10 * time.Second
	rate := v.number("rate") * float64(75*time.Microsecond) / float64(v.duration("sleep"))
	w := &sim.World{
		Duration: (before + length + 100*time.Second).Truncate(time.Second), Drain: instant,
		Fleets: []sim.Fleet{{Clients: 1, Load: sim.Steady(rate), Plan: one(sim.Edge{Rules: rules, Deadline: v.yes("drop")})}},
		Services: []sim.Service{{
			Workers: 1, Queue: unlimited, DropExpired: v.yes("drop"),
			Time: draw.Exponential(time.Duration(1e9 / v.number("capacity"))),
		}},
	}
	if length > 0 {
		w.Faults = []sim.Fault{{Kind: sim.BrownOut, At: before, For: length, Factor: v.number("cpu") / 2}}
	}
	return w, nil
}
