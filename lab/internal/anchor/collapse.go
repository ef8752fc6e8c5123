package anchor

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// collapseModel is the experiment of simple_collapse_sim (github.com/mbrooker/
// simulator_example): a server that slows down with what is under way, clients that
// try three times, and a spike of load after which some runs never recover. The
// first two policies are the source's; the other rows are gabion's.
var collapseModel = model{
	name: "collapse",
	says: "a short spike that an open system may never recover from (Brooker's simple_collapse_sim)",
	settings: []setting{
		{"rate", "40", "calls a second before and after", number(0.1, 10_000)},
		{"policy", "immediate", "three tries at once, three with jittered backoff, the first with gabion's budget (as a window or as tokens) or breaker, or one try",
			oneOf("immediate", "backoff", "budget", "tokens", "breaker", "none")},
		{"shape", "spike", "peak from second 20 to 25, or a ramp up to it in 25 seconds and down to nothing", oneOf("spike", "ramp")},
		{"spike", "80", "calls a second at the peak", number(0.1, 10_000)},
		{"clients", "1", "who share the load, each with a policy's state of its own", whole(1, mostTimes)},
		runs("200"), seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		w, err := collapseWorld(v)
		if err != nil {
			return nil, err
		}
		ramp, rate := v.word("shape") == "ramp", v.number("rate")
		all, err := simulate(ctx, w, v, v.count("runs"), takeAftermath)
		switch {
		case err != nil:
			return nil, err
		case ramp:
			return []Figure{{"dead_from_s", deadFrom(all)}, {"goodput_30_60_per_s", meanGoodput(all, 30, 60)}}, nil
		}
		stuck := func(a *aftermath) bool { return a.between(100, 120) < rate/2 }
		return []Figure{
			{"stuck", shareOf(all, stuck)},
			{"goodput_per_s", meanGoodput(all, 100, 120)},
			{"load_after", mean(pick(all, func(a *aftermath) float64 { return a.load }))},
		}, nil
	},
}

func collapseWorld(v values) (*sim.World, error) {
	rules, err := machine.Compile(collapsePolicy(v.word("policy")))
	if err != nil {
		return nil, err
	}
	rate, peak := v.number("rate"), v.number("spike")
	w := &sim.World{
		Duration: 120 * time.Second, Drain: instant,
		Fleets: []sim.Fleet{{
			Clients: v.count("clients"),
			Load:    sim.Load{{PerSecond: rate}, {At: 20 * time.Second, PerSecond: rate}, {At: 20 * time.Second, PerSecond: peak}, {At: 25 * time.Second, PerSecond: peak}, {At: 25 * time.Second, PerSecond: rate}},
			Plan:    one(sim.Edge{Rules: rules, Network: draw.Exponential(100 * time.Millisecond)}),
		}},
		Services: []sim.Service{{Time: draw.Constant(time.Second), Crowd: 0.01}},
	}
	if v.word("shape") == "ramp" {
		w.Duration = 80 * time.Second
		gone := 25*time.Second + time.Duration(peak/max(peak-rate, 0.001)*25e9)
		w.Fleets[0].Load = sim.Load{{PerSecond: rate}, {At: 25 * time.Second, PerSecond: peak}, {At: gone}}
	}
	return w, nil
}

func collapsePolicy(name string) policy.Policy {
	p := bare()
	p.Timeout.Attempt = 3 * time.Second
	p.Retry.Attempts = 3
	switch name {
	case "none":
		p.Retry.Attempts = 1
	case "backoff":
		p.Retry.Backoff = backoff.Full(20*time.Second, 40*time.Second)
	case "budget":
		p.Retry.Budget = policy.Budget{Floor: policy.Off}
	case "tokens":
		p.Retry.Budget = policy.Budget{Shape: policy.BudgetTokens, Capacity: 5}
	case "breaker":
		p.Breaker = policy.Breaker{}
	}
	return p
}

// aftermath is the goodput of every second, and attempts to a call at the end.
type aftermath struct {
	good []float64
	load float64
}

func takeAftermath(r *sim.Result) aftermath {
	a := aftermath{good: make([]float64, 120)}
	for i := range a.good {
		a.good[i] = good(r, i, i+1)
	}
	attempts, offered := int64(0), int64(0)
	for i := 100; i < min(120, len(r.Bins)); i++ {
		attempts += r.Bins[i].Attempts[0]
		offered += r.Bins[i].Offered
	}
	a.load = float64(attempts) / float64(max(offered, 1))
	return a
}

func (a *aftermath) between(from, to int) float64 { return mean(a.good[from:to]) }

func meanGoodput(all []aftermath, from, to int) float64 {
	return mean(pick(all, func(a *aftermath) float64 { return a.between(from, to) }))
}

// deadFrom returns the second from which to the 60th fewer than one call in ten
// seconds succeeds, on average over all runs.
func deadFrom(all []aftermath) float64 {
	from := 60
	for from > 0 && meanGoodput(all, from-1, from) < 0.1 {
		from--
	}
	return float64(from)
}
