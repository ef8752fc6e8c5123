package anchor

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// The textbook's queues (Kleinrock, "Queueing Systems", 1975), in the world that
// policies are tried in.
var (
	mm1 = queueModel("mm1", "one server, exponential times", "8", "1", draw.Exponential)
	mmc = queueModel("mmc", "several servers, exponential times (Erlang C)", "80", "10", draw.Exponential)
	md1 = queueModel("md1", "one server, constant times", "8", "1", draw.Constant)

	mm1k = queueModel("mm1k", "one server, exponential times, and room for a few", "8", "1", draw.Exponential,
		setting{"room", "5", "requests that may be there, the ones in service included; more are lost", whole(1, 1_000_000)})
)

func queueModel(name, says, rate, workers string, times func(time.Duration) draw.Dist, more ...setting) model {
	return model{
		name: name,
		says: says,
		settings: append(append([]setting{
			{"rate", rate, "arrivals a second, at random", number(0.001, 1e6)},
			{"service", "100ms", "the mean time of the work", span(time.Microsecond, time.Hour)},
			{"workers", workers, "servers", whole(1, 100_000)},
			{"seconds", "10000", "how long a run is, of which the first tenth does not count", whole(1, 10_000_000)},
		}, more...), runs("16"), seeded),
		run: func(ctx context.Context, v values) ([]Figure, error) { return runQueue(ctx, v, times) },
	}
}

// stays is what a run of a queue comes to.
type stays struct {
	served sim.Hist
	wait   float64 // share of arrivals that had to
	lost   float64 // share of arrivals
}

func runQueue(ctx context.Context, v values, times func(time.Duration) draw.Dist) ([]Figure, error) {
	rules, err := machine.Compile(bare())
	if err != nil {
		return nil, err
	}
	room := unlimited
	if k, ok := v["room"].(int); ok {
		room = max(k-v.count("workers"), 0)
	}
	duration := time.Duration(v.count("seconds")) * time.Second
	all, err := simulate(ctx, &sim.World{
		Duration: duration, Warmup: duration / 10,
		Bin:      duration,
		Fleets:   []sim.Fleet{{Clients: 1, Load: sim.Steady(v.number("rate")), Plan: one(sim.Edge{Rules: rules})}},
		Services: []sim.Service{{Workers: v.count("workers"), Queue: room, Time: times(v.duration("service"))}},
	}, v, v.count("runs"), func(r *sim.Result) stays {
		n := float64(r.Services[0].Received)
		return stays{r.Fleets[0].Answered, float64(r.Services[0].Queued) / n, float64(r.Services[0].Full) / n}
	})
	if err != nil {
		return nil, err
	}
	var sum sim.Hist
	for i := range all {
		sum.Merge(&all[i].served)
	}
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	wait := ms(sum.Mean() - v.duration("service"))
	return []Figure{
		{"mean_ms", ms(sum.Mean())},
		{"p99_ms", ms(sum.Quantile(0.99))},
		{"p99.9_ms", ms(sum.Quantile(0.999))},
		{"wait_ms", wait},
		{"wait_services", wait / ms(v.duration("service"))},
		{"wait_share", mean(pick(all, func(s *stays) float64 { return s.wait }))},
		{"loss", mean(pick(all, func(s *stays) float64 { return s.lost }))},
	}, nil
}
