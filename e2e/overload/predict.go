package overload

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab"
)

// Load says which calls the lab plays.
type Load bool

// The loads.
const (
	Drawn Load = false // others at the same rates, as many a second as in the real run on average
	Same  Load = true  // the very calls of the real run, for worlds of less than a hundred thousand
)

// Scenario returns the case as a file for the lab. Network is how long a message takes one
// way, which the lab has to be told.
func (w *World) Scenario(c Case, network time.Duration, load Load) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("version: 1")
	line("title: %s to %d %% of the capacity of a server that is %s, by callers that are %s", w.Trigger, int(100*w.Peak), c.Server, c.Callers)
	line("seed: %d", w.Seed)
	line("duration: %s", w.Duration())
	line("drain: 10s")
	line("bin: 1s")
	if load == Same {
		line("during: %s..%s", w.Before, w.Before+w.Trigger)
	}
	line("clients:")
	line("  callers:")
	line("    count: %d", w.Clients)
	if load == Same {
		line("    loop: trace")
		line("    trace: [%s]", w.times())
	} else {
		line("    rate: %g/s", w.Base*w.Capacity())
		line("    load: [{at: %s, for: %s, rate: %g/s}]", w.Before, w.Trigger, w.Peak*w.Capacity())
	}
	line("    deadline: %s", CallTime)
	line("    calls: [{to: server, policy: %s%s}]", c.Callers, w.distance(network))
	line("services:")
	line("  server: %s", w.service(c.Server))
	return b.String()
}

func (w *World) times() string {
	var b strings.Builder
	for i, a := range w.arrivals() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(a.at.String())
	}
	return b.String()
}

func (w *World) distance(network time.Duration) string {
	if network <= 0 {
		return ""
	}
	return fmt.Sprintf(", network: %s", network)
}

// service is what a server is to the lab.
func (w *World) service(s Server) string {
	workers := fmt.Sprintf("workers: %d, queue: %d, time: %s", w.Workers, w.Queue, w.Work)
	switch s {
	default:
		return "{" + workers + "}"
	}
}

// Predict plays a case in the lab, so often.
func (w *World) Predict(ctx context.Context, c Case, network time.Duration, load Load, replications int) (f Figures, err error) {
	file, err := callers()
	if err != nil {
		return f, err
	}
	s, err := lab.Parse(c.String(), []byte(w.Scenario(c, network, load)))
	if err != nil {
		return f, err
	}
	report, err := s.Run(ctx, lab.Options{Config: file, Alone: true, Replications: replications})
	if err != nil {
		return f, err
	}
	calm, wild, after := w.offered(load)
	for _, phase := range []struct {
		name string
		load float64
		to   *Phase
	}{{"before", calm, &f.Before}, {"during", wild, &f.Trigger}, {"after", after, &f.After}} {
		if *phase.to, err = phaseOf(report, phase.name, phase.load); err != nil {
			return f, err
		}
	}
	recovery, _, err := report.Metric(0, "recovery", "", "")
	if err != nil {
		return f, err
	}
	wasted, _, err := report.Metric(0, "wasted", "", "")
	f.Recovery, f.Wasted = never(recovery.Value), wasted.Value
	return f, err
}

// offered is the load of each phase, as a multiple of the capacity.
func (w *World) offered(load Load) (before, trigger, after float64) {
	if load == Drawn {
		return w.Base, w.Peak, w.Base
	}
	for _, a := range w.arrivals() {
		switch {
		case a.at < w.Before:
			before++
		case a.at < w.Before+w.Trigger:
			trigger++
		default:
			after++
		}
	}
	c := w.Capacity()
	return before / w.Before.Seconds() / c, trigger / w.Trigger.Seconds() / c, after / w.After.Seconds() / c
}

func phaseOf(r *lab.Report, name string, load float64) (p Phase, err error) {
	for key, to := range map[string]*float64{"goodput": &p.Answered, "p50": &p.P50, "p99": &p.P99, "amplification": &p.PerCall} {
		mean, _, err := r.Metric(0, key, "", name)
		if err != nil {
			return p, err
		}
		if !math.IsNaN(mean.Value) {
			*to = mean.Value
		}
	}
	p.P50, p.P99 = 1000*p.P50, 1000*p.P99
	p.Goodput, p.Attempted = p.Answered*load, p.PerCall*load
	return p, nil
}
