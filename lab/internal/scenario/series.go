package scenario

import (
	"slices"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// The channels of a series, in their order; services and edges follow.
const (
	chOffered = iota
	chGood
	chLate
	chBad
	chRefused
	chAttempts
	chP50
	chP90
	chP99
	chTry
	fixed = chTry + Tries
)

// Of each service and of each edge.
const (
	chServiceAttempts = iota
	chUseful
	chQueue
	perService
)
const (
	chOpen = iota
	chBudget
	perEdge
)

// channels are the series of a run, in rates and shares.
func (f *File) channels(w *world, r *sim.Result) [][]float32 {
	n := f.binCount()
	made := make([][]float32, fixed+perService*len(w.Services)+perEdge*len(w.edges))
	for i := range made {
		made[i] = make([]float32, n)
	}
	width := r.Width.Seconds()
	for i := range min(n, len(r.Bins)) {
		b := &r.Bins[i]
		put := func(channel int, x float64) { made[channel][i] = float32(x) }
		put(chOffered, float64(b.Offered)/width)
		put(chGood, float64(b.Good)/width)
		put(chLate, float64(b.Late)/width)
		put(chBad, float64(b.Bad)/width)
		put(chRefused, float64(b.Local)/width)
		put(chAttempts, total(b)/width)
		put(chP50, b.Latency.Quantile(0.5).Seconds())
		put(chP90, b.Latency.Quantile(0.9).Seconds())
		put(chP99, b.Latency.Quantile(0.99).Seconds())
		for k, x := range b.ByTry {
			put(chTry+k, float64(x)/width)
		}
		for k := range w.Services {
			at := fixed + perService*k
			put(at+chServiceAttempts, float64(b.Attempts[k])/width)
			if workers := w.workers(k); workers > 0 {
				put(at+chUseful, float64(b.Useful[k])/(float64(r.Width)*float64(workers)))
			}
			put(at+chQueue, float64(b.Queue[k]))
		}
		for k := range w.edges {
			at := fixed + perService*len(w.Services) + perEdge*k
			put(at+chOpen, float64(b.Open[k])/float64(max(b.Looked[k], 1)))
			put(at+chBudget, float64(b.Budget[k])/float64(max(b.Looked[k], 1)))
		}
	}
	return made
}

// workers is how many a service has in all; 0 means any number.
func (w *world) workers(service int) int {
	return w.Services[service].Workers * max(w.Services[service].Replicas, 1)
}

// binCount is how many bins the load lasts.
func (f *File) binCount() int { return int((f.duration + f.bin - 1) / f.bin) }

// band reduces a channel of all runs.
func (rs *runs) band(channel int) Band {
	kept := rs.runs[:min(len(rs.runs), seriesRuns)]
	n := len(kept[0].bins[channel])
	b := Band{Mid: make([]float64, n), Low: make([]float64, n), High: make([]float64, n)}
	xs := make([]float64, len(kept))
	for i := range n {
		for k := range kept {
			xs[k] = float64(kept[k].bins[channel][i])
		}
		slices.Sort(xs)
		at := func(p float64) float64 { return round6(xs[int(p*float64(len(xs)-1)+0.5)]) }
		b.Mid[i], b.Low[i], b.High[i] = at(0.5), at(0.05), at(0.95)
	}
	return b
}

func (f *File) series(rs *runs) Series {
	s := Series{
		Offered: rs.band(chOffered), Goodput: rs.band(chGood), Late: rs.band(chLate), Bad: rs.band(chBad), Refused: rs.band(chRefused),
		Attempts: rs.band(chAttempts), P50: rs.band(chP50), P90: rs.band(chP90), P99: rs.band(chP99),
	}
	for k := range Tries {
		s.ByTry = append(s.ByTry, rs.band(chTry+k))
	}
	for k := range f.services {
		at := fixed + perService*k
		s.Services = append(s.Services, ServiceSeries{
			Name: f.services[k].name, Attempts: rs.band(at + chServiceAttempts), Useful: rs.band(at + chUseful), Queue: rs.band(at + chQueue),
			Capacity: f.capacity(rs.world, k),
		})
	}
	for k, e := range rs.world.edges {
		at := fixed + perService*len(f.services) + perEdge*k
		s.Edges = append(s.Edges, EdgeSeries{
			Caller: f.caller(e), Service: f.services[e.to].name, Policy: e.policy, Open: rs.band(at + chOpen), Budget: rs.band(at + chBudget), Unbudgeted: e.unbudgeted, Unguarded: e.unguarded,
		})
	}
	return s
}

func (f *File) caller(e worldEdge) string {
	if e.fleet >= 0 {
		return f.fleets[e.fleet].name
	}
	return f.services[e.service].name
}
