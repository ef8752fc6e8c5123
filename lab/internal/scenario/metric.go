package scenario

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// def is a metric that is taken of each run and phase.
type def struct {
	key, of, name, unit string
	more                bool
	measure             func(m *measured) float64 // of one phase
}

// measured is one phase of one run.
type measured struct {
	*sim.Phase
	world *world
	fleet sim.FleetCounts // of all fleets
}

// defs returns the metrics of a file, in the order in which they are shown.
func (f *File) defs() []def {
	all := []def{
		{"goodput", "", "answered in time", Share, true, func(m *measured) float64 { return div(m.fleet.Good, m.fleet.Offered) }},
		{"failed", "", "failed", Share, false, func(m *measured) float64 { return div(m.fleet.Bad+m.fleet.Unfinished, m.fleet.Offered) }},
		{"unfinished", "", "no answer when the run ended", Share, false, func(m *measured) float64 { return div(m.fleet.Unfinished, m.fleet.Offered) }},
		{"refused", "", "refused without an attempt", Share, false, (*measured).refused},
		{"amplification", "", "requests for each that is needed", Ratio, false, (*measured).mostAmplified},
		{"wasted", "", "work for callers who had gone", Share, false, (*measured).wasted},
		{"duplicates", "", "work done twice", Count, false, (*measured).duplicates},
		{"ghosts", "", "done, and failed for the client", Count, false, func(m *measured) float64 { return float64(m.fleet.Ghosts) }},
		{"hedges", "", "hedges", Share, false, (*measured).hedges},
		{"load", "", "load on what is in trouble, to what is needed", Ratio, false, func(m *measured) float64 { return m.load(f.troubled()) }},
		{"failed_time", "", "time in calls that failed, for each call", Seconds, false, (*measured).failedTime},
		{"mean", "", "mean latency of answers", Seconds, false, func(m *measured) float64 { return mean(&m.fleet.Answered) }},
	}
	for _, q := range []struct {
		key string
		p   float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}} {
		all = append(all, def{q.key, "", q.key + " latency of answers", Seconds, false, func(m *measured) float64 { return quantile(&m.fleet, q.p) }})
	}
	all = append(all, f.defsOfEffects()...)
	for i, s := range f.services {
		all = append(all, f.defsOf(i, s.name)...)
		all = append(all, defsOfWay(f, i, s.name)...)
		all = append(all, defsOfQuotas(f, i, s.name)...)
		all = append(all, defsOfAnswers(f, i, s.name)...)
	}
	for i, c := range f.fleets {
		if len(f.fleets) == 1 {
			break
		}
		all = append(all,
			def{"goodput", c.name, "answered in time for " + c.name, Share, true, func(m *measured) float64 { return div(m.Fleets[i].Good, m.Fleets[i].Offered) }},
			def{"p50", c.name, "p50 latency of answers for " + c.name, Seconds, false, func(m *measured) float64 { return quantile(&m.Fleets[i], 0.5) }},
			def{"p99", c.name, "p99 latency of answers for " + c.name, Seconds, false, func(m *measured) float64 { return quantile(&m.Fleets[i], 0.99) }},
		)
	}
	for i := range f.fleets {
		if f.fleets[i].queued {
			all = append(all, defsOfQueue(i, f.fleets[i].name)...)
		}
	}
	return all
}

// defsOf returns the metrics of a service.
func (f *File) defsOf(i int, name string) []def {
	return []def{
		{"amplification", name, "requests at " + name + " for each that is needed", Ratio, false, func(m *measured) float64 { return m.amplification(i) }},
		{"tries", name, "attempts at " + name + " for each first one", Ratio, false, func(m *measured) float64 { return m.tries(i) }},
		{"wasted", name, "work of " + name + " for callers who had gone", Share, false, func(m *measured) float64 {
			w := &m.Services[i]
			return div(int64(w.Wasted), int64(w.Useful+w.Wasted))
		}},
		{"duplicates", name, "work done twice by " + name, Count, false, func(m *measured) float64 { return float64(m.Services[i].Duplicates) }},
		{"received", name, "requests that reached " + name, Count, false, func(m *measured) float64 { return float64(m.Services[i].Received) }},
	}
}

// ofRun are the metrics of a whole run.
var ofRun = []def{
	{"recovery", "", "time to recover", Seconds, false, nil},
	{"retry_tail", "", "retries go on after the trouble for", Seconds, false, nil},
	{"peak", "", "most requests afterwards, to those before", Ratio, false, nil},
	{"stuck", "", "stays down", Share, false, nil},
}

// div is a share, and unknown when there is nothing to have a share of.
func div(a, b int64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// quantile is unknown of so few calls that none of them is beyond it: of ten, the
// longest is no p99.
func quantile(f *sim.FleetCounts, p float64) float64 {
	if beyond := float64(f.Answered.N()) * (1 - p); beyond < 1-1e-9 {
		return math.NaN()
	}
	return f.Answered.Quantile(p).Seconds()
}

// mean is unknown of nothing.
func mean(h *sim.Hist) float64 {
	if h.N() == 0 {
		return math.NaN()
	}
	return h.Mean().Seconds()
}

// failedTime is how long calls that failed were waited for, spread over all calls, so
// that neither refusing at once nor failing seldom hides the other.
func (m *measured) failedTime() float64 {
	return float64(m.fleet.Failed.Mean().Seconds()*float64(m.fleet.Failed.N())) / float64(m.fleet.Offered)
}

// troubled are the services that a fault is at; none when only the load is unusual.
func (f *File) troubled() (services []int) {
	for i := range f.faults {
		if k := f.faults[i].service; k >= 0 && f.faults[i].Service != "" && !slices.Contains(services, k) {
			services = append(services, k)
		}
	}
	return services
}

// load is how many requests were sent to services for each that is needed there. Of no
// services it is that of the one that gets most.
func (m *measured) load(services []int) float64 {
	if len(services) == 0 {
		return m.mostAmplified()
	}
	sent, needed := 0.0, 0.0
	for _, k := range services {
		s, n := m.sent(k)
		sent, needed = sent+s, needed+n
	}
	if needed == 0 {
		return math.NaN()
	}
	return sent / needed
}

func (m *measured) refused() float64 {
	var local, calls int64
	for i, e := range m.world.edges {
		if e.fleet >= 0 {
			local, calls = local+m.Edges[i].Local, calls+m.Edges[i].Calls
		}
	}
	return div(local, calls)
}

func (m *measured) hedges() float64 {
	var hedges, calls int64
	for i := range m.Edges {
		hedges, calls = hedges+m.Edges[i].Hedges, calls+m.Edges[i].Calls
	}
	return div(hedges, calls)
}

func (m *measured) wasted() float64 {
	var wasted, all time.Duration
	for i := range m.Services {
		wasted, all = wasted+m.Services[i].Wasted, all+m.Services[i].Wasted+m.Services[i].Useful
	}
	return div(int64(wasted), int64(all))
}

func (m *measured) duplicates() float64 {
	n := int64(0)
	for i := range m.Services {
		n += m.Services[i].Duplicates
	}
	return float64(n)
}

// amplification is how many requests were sent to a service for each that clients'
// work would have made if nothing were tried again.
func (m *measured) amplification(service int) float64 {
	sent, needed := m.sent(service)
	if needed == 0 {
		return math.NaN()
	}
	return sent / needed
}

func (m *measured) sent(service int) (sent, needed float64) {
	n := int64(0)
	for i, e := range m.world.edges {
		if e.to == service {
			n += m.Edges[i].Attempts
		}
	}
	for i := range m.Fleets {
		needed += float64(float64(m.Fleets[i].Offered) * m.world.visits[i][service])
	}
	return float64(n), needed
}

// mostAmplified is the amplification of the service that has most.
func (m *measured) mostAmplified() float64 {
	most := math.NaN()
	for i := range m.Services {
		if a := m.amplification(i); !(a <= most) && !math.IsNaN(a) {
			most = a
		}
	}
	return most
}

// tries is how many attempts were made on the edges to a service for each first one.
func (m *measured) tries(service int) float64 {
	sent, first := int64(0), int64(0)
	for i, e := range m.world.edges {
		if e.to == service {
			sent, first = sent+m.Edges[i].Attempts, first+m.Edges[i].ByTry[0]
		}
	}
	return div(sent, first)
}
