package overload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab"
)

// Scenario returns the case as a file for the lab, which stands beside the files of the
// clients' calls. Network is how long a message takes one way, which the lab can't know.
func (w *World) Scenario(c Case, network time.Duration) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("version: 1")
	line("title: %s to %d %% of the capacity of a server that is %s, by callers that are %s", w.Trigger, int(100*w.Peak), c.Server, c.Callers)
	line("seed: %d", w.Seed)
	line("duration: %s", w.Duration())
	line("drain: 10s")
	line("bin: 1s")
	line("during: %s..%s", w.Before, w.Before+w.Trigger)
	line("clients:")
	for i, first := range w.firsts() {
		line("  client%d:", i)
		line("    count: 1")
		line("    loop: trace")
		line("    replay: \"from %s, at due s, begin %s\"", callsOf(i), first)
		line("    deadline: %s", CallTime)
		line("    calls: [{to: server, policy: %s%s%s}]", c.Callers, hints(c), distance(network))
	}
	line("services:")
	line("  server: %s", w.service(c.Server))
	return b.String()
}

// firsts are the times of the first call of each client.
func (w *World) firsts() []time.Duration {
	all := make([]time.Duration, w.Clients)
	for _, a := range slices.Backward(w.arrivals()) {
		all[a.client] = a.at
	}
	return all
}

func callsOf(client int) string { return fmt.Sprintf("client%d.csv", client) }

// hints says that a plain loop takes no answer for a hint.
func hints(c Case) string {
	if c.Callers == Plain || c.Callers == Naive {
		return ", ignores_hints: true"
	}
	return ""
}

func distance(network time.Duration) string {
	if network <= 0 {
		return ""
	}
	return fmt.Sprintf(", network: %s", network)
}

// service is what a server is to the lab.
func (w *World) service(s Server) string {
	admission := map[Server]string{Fixed: fmt.Sprintf(", admission: {limit: %d}", w.Workers), Learned: ", admission: {limit: learned}"}
	return fmt.Sprintf("{workers: %d, queue: %d, time: %s%s}", w.Workers, w.Queue, w.Work, admission[s])
}

// write puts the scenario and the calls of the clients into a folder.
func (w *World) write(folder string, c Case, network time.Duration) (name string, err error) {
	calls := make([]strings.Builder, w.Clients)
	for i := range calls {
		calls[i].WriteString("due\n")
	}
	for _, a := range w.arrivals() {
		fmt.Fprintf(&calls[a.client], "%.9f\n", a.at.Seconds())
	}
	for i := range calls {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, callsOf(i)), []byte(calls[i].String()), 0o600))
	}
	name = filepath.Join(folder, "overload.yaml")
	return name, errors.Join(err, os.WriteFile(name, []byte(w.Scenario(c, network)), 0o600))
}

// Predict plays the same calls in the lab, so often.
func (w *World) Predict(ctx context.Context, c Case, network time.Duration, replications int) (f Figures, err error) {
	folder, err := os.MkdirTemp("", "gabion-overload")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(folder)
	name, err := w.write(folder, c, network)
	if err != nil {
		return f, err
	}
	file, err := callers()
	if err != nil {
		return f, err
	}
	s, err := lab.Load(name)
	if err != nil {
		return f, err
	}
	report, err := s.Run(ctx, lab.Options{Config: file, Alone: true, Replications: replications})
	if err != nil {
		return f, err
	}
	return w.read(report)
}

// read takes the figures out of a report.
func (w *World) read(r *lab.Report) (f Figures, err error) {
	calm, wild, after := w.offered()
	for _, phase := range []struct {
		name string
		load float64
		to   *Phase
	}{{"before", calm, &f.Before}, {"during", wild, &f.Trigger}, {"after", after, &f.After}} {
		if *phase.to, err = phaseOf(r, phase.name, phase.load); err != nil {
			return f, err
		}
	}
	recovery, each, err := r.Metric(0, "recovery", "", "")
	if err != nil {
		return f, err
	}
	f.Recoveries = [2]float64{never(slices.Min(each)), never(slices.Max(each))}
	wasted, _, err := r.Metric(0, "wasted", "", "")
	f.Recovery, f.Wasted = never(recovery.Value), wasted.Value
	return f, err
}

// offered is the load of each phase, as a multiple of the capacity.
func (w *World) offered() (before, trigger, after float64) {
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
	for key, to := range map[string]*float64{"goodput": &p.Answered, "p50": &p.P50, "p90": &p.P90, "p99": &p.P99, "amplification": &p.PerCall} {
		mean, _, err := r.Metric(0, key, "", name)
		if err != nil {
			return p, err
		}
		if !math.IsNaN(mean.Value) {
			*to = mean.Value
		}
	}
	p.P50, p.P90, p.P99 = 1000*p.P50, 1000*p.P90, 1000*p.P99
	p.Goodput, p.Attempted = p.Answered*load, p.PerCall*load
	return p, nil
}
