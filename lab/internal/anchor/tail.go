package anchor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// leafLatency is what one leaf takes: 98 % between 1 and 10 ms, and beyond a
// straight line on paper with two logarithmic scales, through 0.32 % above 70 ms and
// one in 100 000 above 1.8 s, which goes on. It is fitted to what Dean and Barroso,
// "The Tail at Scale" (CACM 2013), report of BigTable.
var leafLatency = draw.Quantiles(
	draw.Point{P: 0, At: time.Millisecond},
	draw.Point{P: 0.98, At: 10 * time.Millisecond},
	draw.Point{P: 0.9968, At: 70 * time.Millisecond},
	draw.Point{P: 0.99999, At: 1800 * time.Millisecond},
	draw.Point{P: 1 - 1e-9, At: 321 * time.Second}, // four decades on at the same slope
	draw.Point{P: 1, At: 321 * time.Second},
)

// tailModel is hedging over a fan-out to leaves whose replicas are independent. The
// hedges are the policy's.
var tailModel = model{
	name: "tail",
	says: "hedged requests over a fan-out with a heavy tail (The Tail at Scale, 2013)",
	settings: []setting{
		{"hedge", "10ms", "after how long a second request goes to another replica; 0 or none for never", span(0, time.Hour)},
		{"fanout", "100", "leaves that an operation waits for", whole(1, 100_000)},
		{"operations", "1000000", "how many", whole(1, 10_000_000)},
		{"percentile", "99.9", "one more percentile to report", percentile},
		{"budget", "none", "the share of requests that may be hedged", shareOrNone},
		{"correlated", "false", "whether what is slow at one replica is as slow at the other", boolean},
		seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		l, err := newLeaves(v)
		if err != nil {
			return nil, err
		}
		blocks := replicate(ctx, (v.count("operations")+blockSize-1)/blockSize, l.block)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var took []time.Duration
		hedges := 0
		for _, b := range blocks {
			took = append(took, b.took...)
			hedges += b.hedges
		}
		slices.Sort(took)
		at := func(p float64) float64 {
			return float64(took[min(int(float64(p*float64(len(took)))), len(took)-1)]) / 1e6
		}
		figures := []Figure{
			{"p50_ms", at(0.5)}, {"p99_ms", at(0.99)}, {"p99.9_ms", at(0.999)},
			{"extra", float64(hedges) / float64(l.fanout*len(took))},
		}
		name := fmt.Sprintf("p%.6g_ms", 100*v.number("percentile"))
		if !slices.ContainsFunc(figures, func(f Figure) bool { return f.Name == name }) {
			figures = append(figures, Figure{name, at(v.number("percentile"))})
		}
		return figures, nil
	},
}

// blockSize is how many operations are run one after another, with a policy's state
// of their own; blocks run at the same time.
const blockSize = 1000

// apart is the time from one operation to the next, which only a budget looks at.
const apart = 10 * time.Millisecond

type leaves struct {
	rules      *machine.Rules
	fanout     int
	operations int
	correlated bool
	seed       uint64
}

func newLeaves(v values) (*leaves, error) {
	p := bare()
	if d := v.duration("hedge"); d > 0 {
		p.Hedge = policy.Hedge{Max: 1, Delay: d}
	}
	if share := v.number("budget"); share > 0 {
		p.Retry.Budget = policy.Budget{Ratio: policy.Ratio(share), Floor: policy.Off}
	}
	rules, err := machine.Compile(p)
	return &leaves{rules, v.count("fanout"), v.count("operations"), v.yes("correlated"), uint64(v.count("seed"))}, err
}

type block struct {
	took   []time.Duration
	hedges int
}

func (l *leaves) block(n int) (b block) {
	asked := leaf{state: machine.NewState(0, l.rules, machine.Setup{}), correlated: l.correlated}
	for i := n * blockSize; i < min((n+1)*blockSize, l.operations); i++ {
		asked.draws = draw.New(l.seed, forLeaves, uint64(i))
		worst := time.Duration(0)
		for range l.fanout {
			worst = max(worst, asked.ask(clock.Instant(i)*clock.Instant(apart)))
		}
		b.took = append(b.took, worst)
	}
	b.hedges = asked.hedges
	return b
}

// leaf drives one call at a time, hedge included.
type leaf struct {
	state      *machine.State
	draws      draw.Stream
	correlated bool
	hedges     int
	call       machine.Call
	step       machine.Step
}

var readOnly = machine.Params{Safe: true}

// ask returns how long the leaf's answer takes.
func (l *leaf) ask(now clock.Instant) time.Duration {
	l.call.Begin(l.state, now, &readOnly)
	l.call.NextInto(now, &l.step)
	first := l.step.Ticket
	home := now.Add(leafLatency.Draw(&l.draws))
	if due := l.step.Again; l.call.Hedges() && due < home {
		if l.call.NextInto(due, &l.step); l.step.Verb == machine.Send {
			return l.race(now, due, home, first, l.step.Ticket)
		}
	}
	l.end(home, &first, policy.ClassSuccess)
	return home.Sub(now)
}

// race lets the first of two answers win.
func (l *leaf) race(now, due, home clock.Instant, first, other machine.Ticket) time.Duration {
	l.hedges++
	took := home.Sub(now)
	if !l.correlated {
		took = leafLatency.Draw(&l.draws)
	}
	winner, loser := &first, &other
	if second := due.Add(took); second < home {
		home, winner, loser = second, &other, &first
	}
	l.end(home, winner, policy.ClassSuccess)
	l.end(home, loser, policy.ClassIgnored)
	return home.Sub(now)
}

func (l *leaf) end(at clock.Instant, t *machine.Ticket, c policy.Class) {
	l.call.SettleFrom(at, t, &policy.Outcome{Class: c})
	l.call.NextInto(at, &l.step)
}

// fanoutModel is the arithmetic of the same article: an operation is slow if one of
// its leaves is.
var fanoutModel = model{
	name: "fanout",
	says: "how often one slow leaf makes an operation slow: 1-(1-p)^n (The Tail at Scale, 2013)",
	settings: []setting{
		{"p", "0.01", "the share of slow answers of a leaf", number(0, 1)},
		{"fanout", "100", "leaves that an operation waits for", whole(1, 100_000)},
		{"operations", "100000", "how many", whole(1, 10_000_000)},
		seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		latency := draw.Mixture(
			draw.Part{Share: v.number("p"), Dist: draw.Constant(time.Second)},
			draw.Part{Share: 1 - v.number("p"), Dist: draw.Constant(time.Millisecond)})
		n := v.count("operations")
		slow := replicate(ctx, (n+blockSize-1)/blockSize, func(b int) (slow int) {
			for i := b * blockSize; i < min((b+1)*blockSize, n); i++ {
				draws := draw.New(uint64(v.count("seed")), forLeaves, uint64(i))
				worst := time.Duration(0)
				for range v.count("fanout") {
					worst = max(worst, latency.Draw(&draws))
				}
				if worst >= time.Second {
					slow++
				}
			}
			return slow
		})
		return []Figure{{"slow", mean(slow) * float64(len(slow)) / float64(n)}}, nil
	},
}

// hedgeLoad is the adverse twin of tail: hedges are load, and where servers are busy
// a second request makes both wait.
var hedgeLoad = model{
	name: "hedge-load",
	says: "hedging where servers are busy, with and without a budget",
	settings: []setting{
		{"load", "0.9", "how busy the replicas are without hedges", number(0.01, 0.99)},
		{"hedge", "30ms", "after how long a second request goes to another replica", span(time.Microsecond, time.Hour)},
		{"budget", "none", "the share of requests that may be hedged", shareOrNone},
		{"replicas", "10", "of one worker each, picked at random", whole(1, 1000)},
		{"service", "10ms", "the mean of an exponential time", span(time.Microsecond, time.Hour)},
		{"seconds", "300", "how long, of which the first tenth does not count", whole(1, 100_000)},
		runs("4"), seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		p := bare()
		without, err := hedgeLoadRun(ctx, v, p)
		if err != nil {
			return nil, err
		}
		p.Hedge = policy.Hedge{Max: 1, Delay: v.duration("hedge")}
		if share := v.number("budget"); share > 0 {
			p.Retry.Budget = policy.Budget{Ratio: policy.Ratio(share), Floor: policy.Off}
		}
		with, err := hedgeLoadRun(ctx, v, p)
		return []Figure{
			{"p99_without_ms", without.p99}, {"p99_with_ms", with.p99}, {"p99_ratio", with.p99 / without.p99},
			{"extra", with.extra},
		}, err
	},
}

type hedged struct{ p99, extra float64 }

func hedgeLoadRun(ctx context.Context, v values, p policy.Policy) (hedged, error) {
	rules, err := machine.Compile(p)
	if err != nil {
		return hedged{}, err
	}
	n := v.count("replicas")
	duration := time.Duration(v.count("seconds")) * time.Second
	all, err := simulate(ctx, &sim.World{
		Duration: duration, Warmup: duration / 10, Drain: instant,
		Fleets: []sim.Fleet{{
			Clients: 1, Load: sim.Steady(v.number("load") * float64(n) / v.duration("service").Seconds()), Plan: one(sim.Edge{Rules: rules}),
		}},
		Services: []sim.Service{{Replicas: n, Workers: 1, Queue: unlimited, Time: draw.Exponential(v.duration("service"))}},
	}, v, v.count("runs"), func(r *sim.Result) hedged {
		return hedged{
			p99:   float64(r.Fleets[0].Latency.Quantile(0.99)) / 1e6,
			extra: float64(r.Edges[0].Hedges) / float64(r.Edges[0].Calls),
		}
	})
	return hedged{
		mean(pick(all, func(h *hedged) float64 { return h.p99 })),
		mean(pick(all, func(h *hedged) float64 { return h.extra })),
	}, err
}
