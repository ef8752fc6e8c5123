package report

import (
	"math"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// latency is how long calls took, failures included.
func (s *sheet) latency() *node {
	low, high := math.Inf(1), 0.0
	for i := range s.Sides {
		r := &s.Sides[i].Series
		for _, ys := range [][]float64{r.P50.Mid, r.P90.Mid, r.P99.Mid} {
			for _, y := range ys {
				if y > 0 {
					low, high = min(low, y), max(high, y)
				}
			}
		}
	}
	if high == 0 {
		return nil
	}
	return s.figure(chart{
		id: "latency", title: "How long calls took", height: 180, y: logarithmic(low, high, scenario.Seconds), named: true,
		note: "From the moment a client wanted an answer until it had one or an error: half of all calls, nine of ten, and 99 of 100 took no longer. The scale is logarithmic; what is below it stands on its lower edge.",
		keys: []key{{"p99", "p99"}, {"p90", "p90"}, {"p50", "p50"}},
		lacks: func(side *scenario.Side) string {
			if highest(side.Series.P99.Mid) > 0 {
				return ""
			}
			return "Nothing was answered in the middle run."
		},
		about: func(side *scenario.Side) string {
			about := "Percentiles of latency over time."
			for _, ph := range side.Phases {
				if m := find(ph.Metrics, "p99"); m != nil {
					about += " " + phaseName(ph.Name) + ": p99 " + value(m) + "."
				}
			}
			return about
		},
		draw: func(p *plot, side *scenario.Side) {
			r := &side.Series
			p50, p90, p99 := answered(r, r.P50.Mid), answered(r, r.P90.Mid), answered(r, r.P99.Mid)
			p.area(p90, p99, "area p99")
			p.area(p50, p90, "area p90")
			for _, l := range []struct {
				ys   []float64
				name string
			}{{p99, "p99"}, {p90, "p90"}, {p50, "p50"}} {
				p.line(l.ys, l.name)
				p.name(l.ys, l.name, l.name)
			}
		},
	})
}

// answered leaves out the bins in which nothing was answered.
func answered(r *scenario.Series, ys []float64) []float64 {
	out := make([]float64, len(ys))
	for i, y := range ys {
		if out[i] = y; !(y > 0) && !(wasAnswered(r, i) > 0) {
			out[i] = math.NaN()
		}
	}
	return out
}

// wasAnswered is how many calls were answered in a bin, a second.
func wasAnswered(r *scenario.Series, i int) (n float64) {
	for _, ys := range [][]float64{r.Goodput.Mid, r.Late.Mid} {
		if i < len(ys) {
			n += ys[i]
		}
	}
	return n
}
