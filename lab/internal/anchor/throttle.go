package anchor

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// throttleModel is adaptive throttling (Beyer et al., "Site Reliability
// Engineering", 2016, chapter 21) against a server that accepts a number of requests in each second
// and no more: who demands more than k times that ends up sending k for each one accepted. The
// rejecting is the policy's.
var throttleModel = model{
	name: "throttle",
	says: "what adaptive throttling sends to a server that accepts a fixed number a second (SRE, chapter 21)",
	settings: []setting{
		{"k", "2", "requests sent to one accepted", number(1, 100)},
		{"accept", "10", "requests that the server accepts in a second", whole(0, 1_000_000)},
		{"demand", "100", "calls a second of all clients together, at random", number(0.01, 100_000)},
		{"clients", "1", "who count each on their own", whole(1, 10_000)},
		{"window", "2m", "over which requests and accepts are counted", span(time.Second, time.Hour)},
		{"seconds", "3600", "what is measured, after two windows that are not", number(1, 1_000_000)},
		{"outage", "0s", "before that, how long nothing is accepted; then recovery_s is how long it takes until half of what could be is", span(0, aDay)},
		runs("4"), seeded,
	},
	run: func(ctx context.Context, v values) ([]Figure, error) {
		p := bare()
		p.Throttle = policy.Throttle{K: v.number("k"), Window: v.duration("window")}
		rules, err := machine.Compile(p)
		if err != nil {
			return nil, err
		}
		t := throttled{
			rules: rules, accept: v.count("accept"), demand: v.number("demand"), clients: v.count("clients"),
			outage: v.duration("outage"), from: clock.Instant(2*v.duration("window") + v.duration("outage")),
		}
		t.until = t.from.Add(time.Duration(float64(v.number("seconds") * 1e9)))
		all := replicate(ctx, v.count("runs"), func(i int) throttledRun { return t.run(uint64(v.count("seed") + i)) })
		figures := []Figure{
			{"sent_per_s", mean(pick(all, func(r *throttledRun) float64 { return float64(r.sent) })) / v.number("seconds")},
			{"accepted_per_s", mean(pick(all, func(r *throttledRun) float64 { return float64(r.accepted) })) / v.number("seconds")},
			{"predicted_per_s", predicted(v)},
		}
		if t.outage > 0 {
			figures = append(figures, Figure{"recovery_s", mean(pick(all, func(r *throttledRun) float64 { return r.recovery.Seconds() }))})
		}
		return figures, nil
	},
}

type throttled struct {
	rules       *machine.Rules
	accept      int
	demand      float64
	clients     int
	outage      time.Duration // which begins after the first two windows
	from, until clock.Instant // what is counted
}

type throttledRun struct {
	sent, accepted int
	recovery       time.Duration // from the end of the outage until half of what can be accepted is
}

// run calls a server that answers at once, so that one call ends before the next
// begins.
func (t *throttled) run(seed uint64) (r throttledRun) {
	states := make([]*machine.State, t.clients)
	for i := range states {
		setup := draw.New(seed, forPolicy, uint64(i))
		states[i] = machine.NewState(0, t.rules, machine.Setup{Seed: setup.Bits()})
	}
	arrivals, who := draw.New(seed, forArrivals, 0), draw.New(seed, forChoices, 0)
	gap := time.Duration(1e9 / t.demand)
	down := t.from.Add(-t.outage)
	window := acceptance{most: t.accept}
	var call machine.Call
	var step machine.Step
	for now := clock.Instant(0).Add(arrivals.Exp(gap)); now < t.until; now = now.Add(arrivals.Exp(gap)) {
		call.Begin(states[who.N(t.clients)], now, &machine.Params{Safe: true})
		if call.NextInto(now, &step); step.Verb != machine.Send {
			continue
		}
		o := policy.Outcome{Class: policy.ClassServer}
		if (now < down || now >= t.from) && window.take(now) {
			o.Class = policy.ClassSuccess
		}
		call.SettleFrom(now, &step.Ticket, &o)
		call.NextInto(now, &step)
		if now >= t.from {
			r.count(t, now, o.Class == policy.ClassSuccess, &window)
		}
	}
	if r.recovery == 0 { // not seen
		r.recovery = t.until.Sub(t.from)
	}
	return r
}

func (r *throttledRun) count(t *throttled, now clock.Instant, accepted bool, w *acceptance) {
	r.sent++
	if accepted {
		r.accepted++
	}
	if r.recovery == 0 && 2*w.n >= min(t.accept, int(t.demand)) {
		r.recovery = now.Sub(t.from)
	}
}

// acceptance is a limit of most requests in each second of the clock.
type acceptance struct {
	most, n int
	second  int64
}

func (a *acceptance) take(now clock.Instant) bool {
	if s := int64(now) / 1e9; s != a.second {
		a.second, a.n = s, 0
	}
	if a.n >= a.most {
		return false
	}
	a.n++
	return true
}

// predicted is the fixed point, or if nothing is accepted the chance of getting
// through beside a full window of requests.
func predicted(v values) float64 {
	demand, clients := v.number("demand"), float64(v.count("clients"))
	if v.count("accept") == 0 {
		return demand / (float64(demand/clients*v.duration("window").Seconds()) + 1)
	}
	return fixedPoint(v.number("k"), v.count("accept"), demand)
}

// fixedPoint returns what is sent in a second when s = k·E[min(N, accept)], N being
// Poisson with mean s, and never more than is demanded.
func fixedPoint(k float64, accept int, demand float64) float64 {
	low, high := 0.0, demand
	for range 100 {
		if s := (low + high) / 2; k*truncated(s, accept) > s {
			low = s
		} else {
			high = s
		}
	}
	return (low + high) / 2
}

// truncated returns E[min(N, most)] = Σ P(N > i) for i below most.
func truncated(mean float64, most int) float64 {
	term, above, sum := draw.Exp(-mean), 1.0, 0.0
	for i := range most {
		above -= term
		sum += max(above, 0)
		term *= mean / float64(i+1)
	}
	return sum
}
