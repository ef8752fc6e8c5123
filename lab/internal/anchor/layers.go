package anchor

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// layersModel is retrying at several layers of a system whose lowest fails always:
// each multiplies what the one above it made of a call (Beyer et al., "Site
// Reliability Engineering", 2016, chapter 22). Every layer is a service of the
// simulated world with the policy of production.
var layersModel = model{
	name: "layers",
	says: "retries at every layer above a service that fails (SRE, chapter 22)",
	settings: []setting{
		{"layers", "3", "who call each other, the clients included and the failing service not", whole(1, 6)},
		{"tries", "4", "of each call at each layer that retries", whole(1, 10)},
		{"budget", "none", "the share of its calls that a layer may send again", shareOrNone},
		{"where", "all", "which layers retry", oneOf("all", "top", "bottom")},
		{"rate", "100", "calls of the clients a second", number(0.1, 10_000)},
		{"seconds", "10", "how long, of which the first half does not count with a budget", whole(1, 100_000)},
		runs("1"), seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		w, err := layersWorld(v)
		if err != nil {
			return nil, err
		}
		from := 0
		if v.number("budget") > 0 {
			from = v.count("seconds") / 2
		}
		bottom := v.count("layers") - 1
		all, err := simulate(ctx, w, v, v.count("runs"), func(r *sim.Result) float64 {
			attempts, calls := int64(0), int64(0)
			for i := from; i < len(r.Bins); i++ {
				attempts += r.Bins[i].Attempts[bottom]
				calls += r.Bins[i].Offered
			}
			return float64(attempts) / float64(calls)
		})
		if err != nil {
			return nil, err
		}
		return []Figure{{"amplification", mean(all)}}, nil
	},
}

// shareOrNone is a share, or none.
var shareOrNone = kind{"a share such as 0.1 or 10%, or none", func(s string) (any, error) {
	if s == "none" || s == "off" {
		return 0.0, nil
	}
	return number(0, 1).read(s)
}}

func layersWorld(v values) (*sim.World, error) {
	n := v.count("layers")
	p := bare()
	plain, err := machine.Compile(p)
	if err != nil {
		return nil, err
	}
	p.Retry.Attempts = v.count("tries")
	if share := v.number("budget"); share > 0 {
		p.Retry.Budget = policy.Budget{Ratio: policy.Ratio(share), Floor: policy.Off}
	}
	retrying, err := machine.Compile(p)
	if err != nil {
		return nil, err
	}
	call := func(layer int) sim.Plan {
		where := v.word("where")
		if where == "all" || where == "top" && layer == 0 || where == "bottom" && layer == n-1 {
			return one(sim.Edge{To: layer, Rules: retrying})
		}
		return one(sim.Edge{To: layer, Rules: plain})
	}
	duration := time.Duration(v.count("seconds")) * time.Second
	w := &sim.World{
		Duration: duration,
		Fleets:   []sim.Fleet{{Clients: 1, Load: sim.Steady(v.number("rate")), Plan: call(0)}},
		Faults:   []sim.Fault{{Kind: sim.Errors, Service: n - 1, Status: 503, For: duration + time.Hour}},
	}
	for layer := range n {
		s := sim.Service{Time: draw.Constant(time.Millisecond)}
		if layer < n-1 {
			s.Plan = call(layer + 1)
		}
		w.Services = append(w.Services, s)
	}
	return w, nil
}
