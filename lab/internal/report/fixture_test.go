package report

import (
	"math"

	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
	"github.com/gabion-go/gabion/policy"
)

// The study that a person could make up: an outage of a quarter of the run, which
// one side retries into the ground and the other does not.

func about(value, half float64) scenario.Estimate {
	return scenario.Estimate{Interval: stat.Interval{Value: value, Low: value - half, High: value + half}}
}

func exactly(value float64) scenario.Estimate { return about(value, 0) }

func lone(value float64) scenario.Estimate {
	return scenario.Estimate{Interval: stat.Interval{Value: value, Low: math.Inf(-1), High: math.Inf(1)}}
}

// shape is what a made-up series is at a share of the run.
type shape func(at float64) float64

const (
	faultFrom, faultTo = 0.25, 0.5
	bins               = 60
)

func through(healthy, troubled, afterwards float64) shape {
	return func(at float64) float64 {
		switch {
		case at < faultFrom:
			return healthy
		case at < faultTo:
			return troubled
		case at < faultTo+0.1:
			return troubled + (afterwards-troubled)*(at-faultTo)*10
		}
		return afterwards
	}
}

// band makes a series with a little noise, the same each time.
func band(f shape, noise float64) (b scenario.Band) {
	state := uint32(1)
	for i := range bins {
		state = state*1664525 + 1013904223
		y := f(float64(i)/bins) * (1 + noise*(float64(state>>16)/65536-0.5))
		b.Mid = append(b.Mid, math.Round(y*1e4)/1e4)
		b.Low = append(b.Low, math.Round(y*(1-noise)*1e4)/1e4)
		b.High = append(b.High, math.Round(y*(1+noise)*1e4)/1e4)
	}
	return b
}

func flat(n int, x float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = x
	}
	return out
}

func metric(key, name, unit string, more bool, mean scenario.Estimate, values ...scenario.Number) scenario.Metric {
	return scenario.Metric{Key: key, Name: name, Unit: unit, More: more, Mean: mean, Values: values}
}

func calmSide() scenario.Side {
	goodput := func(x, half float64) scenario.Metric {
		return metric("goodput", "goodput", scenario.Share, true, about(x, half), .991, .993, .99, .995, .992, .99, .994, .993)
	}
	phase := func(name string, from, to, good, half, amplification, p99 float64, ended ...scenario.Ending) scenario.Phase {
		return scenario.Phase{Name: name, From: from, To: to, Ended: ended, Metrics: []scenario.Metric{
			goodput(good, half), metric("amplification", "amplification", scenario.Ratio, false, about(amplification, .008)),
			metric("p99", "p99", scenario.Seconds, false, about(p99, p99/20)),
		}}
	}
	return scenario.Side{
		Name: "gabion.yaml", Config: "8c1d0f3a",
		Runs: make([]scenario.Run, 8),
		Series: scenario.Series{
			Offered: band(through(1000, 1000, 1000), .05), Goodput: band(through(999, 260, 998), .06),
			ByTry: []scenario.Band{band(through(1000, 700, 1000), .05), band(through(4, 80, 3), .2), band(through(0, 22, 0), .2)},
			P50:   band(through(.021, .004, .021), .05), P90: band(through(.06, .14, .06), .1), P99: band(through(.12, .62, .12), .2),
			Services: []scenario.ServiceSeries{
				{Name: "db", Queue: band(through(2, 40, 3), .5), Useful: band(through(.42, .2, .42), .1), Capacity: flat(bins, 2400)},
				{Name: "search", Queue: band(through(0, 3, 0), .5), Useful: band(through(.2, .1, .2), .1), Capacity: flat(bins, 5000)},
			},
			Edges: []scenario.EdgeSeries{
				{Caller: "clients", Service: "db", Policy: "payments", Open: band(through(0, .8, 0), .1), Budget: band(through(10, .5, 9), .1)},
				{Caller: "db", Service: "search", Policy: "search", Open: band(through(0, 0, 0), 0), Budget: band(through(10, 10, 10), 0)},
			},
		},
		Metrics: []scenario.Metric{
			goodput(.81, .01), metric("recovery", "recovery", scenario.Seconds, false, about(4, 1), 3, 4, 4, 5, 4, 3, 4, 5),
			metric("retry_tail", "retry tail", scenario.Seconds, false, about(3, 1)),
		},
		Phases: []scenario.Phase{
			phase("before", 0, 30, .999, .0005, 1.004, .12),
			phase("during", 30, 60, .262, .009, 1.1, .62, scenario.Ending{Reason: "ok", Share: .262}, scenario.Ending{Reason: "breaker_open", Local: true, Share: .61}, scenario.Ending{Reason: "budget_exhausted", Share: .128}),
			phase("after", 60, 120, .992, .002, 1.003, .12),
		},
		Stuck: scenario.Estimate{Interval: stat.Share(0, 8)},
		Asserts: []scenario.Verdict{
			{Text: "amplification(db) <= 1.2 during faults", Measured: about(1.1, .008), Unit: scenario.Ratio, Holds: scenario.Yes},
			{Text: "recovery <= 30s p95", Measured: about(5, 1), Unit: scenario.Seconds, Holds: scenario.Yes},
			{Text: "stuck <= 1%", Measured: scenario.Estimate{Interval: stat.Share(0, 8)}, Unit: scenario.Share, Holds: scenario.Unsure},
		},
		Worst: []scenario.Cause{{Text: "refused while the breaker was open", Of: "db", Share: .152}, {Text: "answered 503", Of: "db", Share: .03}},
		Policies: []scenario.Policy{{Name: "payments", Source: "gabion.yaml", Settings: []policy.Setting{
			{Path: "retry.attempts", Value: "3", Source: "default"}, {Path: "timeout.call", Value: "2s", Source: "line 4"},
		}}},
	}
}

// sent adds up the attempts.
func sent(s *scenario.Series) (b scenario.Band) {
	b.Mid = flat(bins, 0)
	for _, try := range s.ByTry {
		for i, y := range try.Mid {
			b.Mid[i] += y
		}
	}
	return b
}

func stormSide() scenario.Side {
	s := calmSide()
	s.Name, s.Config = "naive", "77aa01bc"
	s.Series.Goodput = band(through(998, 190, 420), .4)
	s.Series.ByTry = []scenario.Band{band(through(1000, 1000, 1000), .05), band(through(10, 800, 560), .1), band(through(0, 640, 450), .1), band(through(0, 500, 380), .1)}
	s.Series.P50, s.Series.P90, s.Series.P99 = band(through(.022, 1.1, .9), .1), band(through(.06, 2.9, 2.7), .1), band(through(.13, 4.8, 4.4), .1)
	s.Series.Services[0].Queue, s.Series.Services[0].Useful = band(through(3, 256, 240), .1), band(through(.42, .1, .15), .2)
	s.Series.Edges[0].Open, s.Series.Edges[0].Budget = band(through(0, 0, 0), 0), band(through(0, 0, 0), 0)
	two := &scenario.TwoModes{Low: .03, High: .98, ShareOfHigh: .375}
	for i := range s.Runs {
		s.Runs[i].Stuck = i%8 < 5
	}
	inf := scenario.Number(math.Inf(1))
	s.Stuck, s.Modes = scenario.Estimate{Interval: stat.Share(5, 8)}, two
	s.Metrics[1] = metric("recovery", "recovery", scenario.Seconds, false, scenario.Estimate{Interval: stat.Interval{Value: math.Inf(1), Low: 22, High: math.Inf(1)}}, inf, 25, inf, inf, 22, inf, 31, inf)
	s.Phases[1].Metrics[1].Mean, s.Phases[2].Metrics[1].Mean = about(3.1, .1), about(2.4, .9)
	s.Phases[1].Metrics[2].Mean, s.Phases[2].Metrics[2].Mean = about(4.8, .1), about(4.4, 1)
	after := metric("goodput", "goodput", scenario.Share, true, about(.39, .4), .03, .98, .02, .04, .97, .03, .99, .03)
	after.Modes = two
	s.Phases[2].Metrics[0] = after
	s.Asserts = []scenario.Verdict{
		{Text: s.Asserts[0].Text, Measured: about(3.1, .1), Unit: scenario.Ratio, Holds: scenario.No},
		{Text: s.Asserts[1].Text, Measured: lone(math.Inf(1)), Unit: scenario.Seconds, Holds: scenario.No},
		{Text: s.Asserts[2].Text, Measured: s.Stuck, Unit: scenario.Share, Holds: scenario.No},
	}
	s.Worst = []scenario.Cause{{Text: "work for callers who had gone", Of: "db", Share: .66}, {Text: "the queue was full", Of: "db", Share: .21}}
	return s
}

// alone is a study of one side.
func alone() *scenario.Study {
	s := &scenario.Study{
		Version: 1, Name: "brownout", Title: "A database at a third of its speed",
		Story:    "For half a minute the database answers four of five requests with 503.\nA healthy fleet sends a little more than it has to, and stops when it is over.\n\nLook at the retries after the end: there should be none.",
		Text:     "version: 1\ntitle: A database at a third of its speed\n",
		Seed:     1,
		Duration: 120, Bin: 2, Replications: 8,
		Capacity: flat(bins, 2400), Bottleneck: "db",
		Marks:  []scenario.Mark{{From: 30, To: 60, Kind: "errors", Of: "db", Text: "80% of db answers 503"}},
		During: [2]float64{30, 60},
		Sides:  []scenario.Side{calmSide()},
		Timeline: []scenario.TimelineLine{
			{At: 31.02, Call: 7, Of: "clients → db", Text: "send try 1"}, {At: 31.044, Call: 7, Of: "clients → db", Text: "wait 83 ms: 503"},
			{At: 31.127, Call: 7, Of: "clients → db", Text: "send try 2"}, {At: 32.5, Call: 8, Of: "clients → db", Text: "return: breaker_open"},
		},
		Assumptions: []string{"Goroutines, kernels' queues, TLS and the garbage collector of the clients cost nothing.", "Clocks of clients and services run alike, unless a fault says otherwise."},
		Events:      1234567, Hash: "5f0c22d19e3b7a40", Command: "gabion lab run brownout --config gabion.yaml --seed 1",
	}
	s.Sides[0].Series.Attempts = sent(&s.Sides[0].Series)
	return s
}

// pair is a study of two sides, with a map.
func pair() *scenario.Study {
	s := alone()
	s.Sides = append(s.Sides, stormSide())
	s.Sides[1].Series.Attempts = sent(&s.Sides[1].Series)
	s.Command += " --against naive"
	s.Diffs = []scenario.Diff{
		{Key: "goodput", Name: "goodput", Phase: "after", Unit: scenario.Share, A: exactly(.992), B: exactly(.39), Delta: about(-.602, .39), Verdict: "worse"},
		{Key: "amplification", Name: "amplification", Of: "db", Phase: "during", Unit: scenario.Ratio, A: exactly(1.1), B: exactly(3.1), Delta: about(2, .1), Verdict: "worse"},
		{Key: "p99", Name: "p99", Phase: "before", Unit: scenario.Seconds, A: exactly(.12), B: exactly(.13), Delta: about(.004, .01), Verdict: "unresolved"},
		{Key: "local", Name: "refused locally", Phase: "during", Unit: scenario.Share, A: exactly(.61), B: exactly(0), Delta: about(-.61, .02), Verdict: "better"},
	}
	s.Settings = []scenario.SettingDiff{{Policy: "payments", Path: "retry.budget", A: "0.1", B: "off"}, {Policy: "payments", Path: "breaker", A: "on", B: "off"}}
	s.Map = &scenario.Map{Loads: []float64{.5, .75, 1, 1.25}, Triggers: []float64{.5, 1, 2}, Replications: 8}
	for t := range s.Map.Triggers {
		var calm, storm []scenario.Cell
		for l := range s.Map.Loads {
			calm = append(calm, scenario.Cell{Stuck: scenario.Estimate{Interval: stat.Share(max(0, t+l-4), 8)}, Goodput: .99})
			storm = append(storm, scenario.Cell{Stuck: scenario.Estimate{Interval: stat.Share(min(max(0, 2*t+2*l-2), 8), 8)}, Goodput: .5})
		}
		s.Map.Cells, s.Map.Against = append(s.Map.Cells, calm), append(s.Map.Against, storm)
	}
	return s
}
