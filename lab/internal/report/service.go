package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// tints is how many colours lines of the same kind have.
const tints = 6

func tint(i int) string { return "tint" + strconv.Itoa(i%tints+1) }

// most is how many lines of the same kind a picture holds.
const most = 6

// budget is how many re-sends callers still had.
func (s *sheet) budget() *node {
	top := 0.0
	for i := range s.Sides {
		for _, e := range s.Sides[i].Series.Edges {
			if !e.Unbudgeted {
				top = max(top, highest(e.Budget.Mid))
			}
		}
	}
	if top == 0 {
		return nil
	}
	return s.figure(chart{
		id: "budget", title: "Retry budget", height: 110, y: linear(top, "re-sends"), keys: s.edgeKeys(),
		note: "How many more re-sends a caller's budget allowed, on average over callers. At zero it fails instead of trying again. Callers without a budget have no line.",
		about: func(side *scenario.Side) string {
			about := "Re-sends that budgets allowed over time."
			for _, e := range first(side.Series.Edges) {
				if !e.Unbudgeted {
					about += fmt.Sprintf(" %s to %s: at least %s.", e.Caller, e.Service, figure(lowest(e.Budget.Mid)))
				}
			}
			return about
		},
		lacks: func(side *scenario.Side) string {
			if slices.ContainsFunc(side.Series.Edges, func(e scenario.EdgeSeries) bool { return !e.Unbudgeted }) {
				return ""
			}
			return "There is no retry budget: nothing but the number of tries bounds what is sent again."
		},
		draw: func(p *plot, side *scenario.Side) {
			for i, e := range first(side.Series.Edges) {
				if e.Unbudgeted {
					continue
				}
				p.line(e.Budget.Mid, tint(i))
				p.name(e.Budget.Mid, "→ "+e.Service, tint(i))
			}
		},
	})
}

func (s *sheet) edgeKeys() (list []key) {
	for i, e := range first(s.Sides[0].Series.Edges) {
		list = append(list, key{tint(i), e.Caller + " → " + e.Service})
	}
	return list
}

func first[T any](xs []T) []T { return xs[:min(len(xs), most)] }

func lowest(xs []float64) float64 {
	low := math.Inf(1)
	for _, x := range xs {
		low = min(low, x)
	}
	return low
}

// services is one picture for each kind of number that services have.
func (s *sheet) services(id, title, note string, y func(top float64) scale, of func(*scenario.ServiceSeries) scenario.Band) *node {
	top := 0.0
	var list []key
	for i := range s.Sides {
		for k := range first(s.Sides[i].Series.Services) {
			v := &s.Sides[i].Series.Services[k]
			top = max(top, highest(of(v).Mid))
			if len(s.Sides[i].Series.Services) == 1 { // its band is drawn too
				top = max(top, highest(of(v).High))
			}
			if i == 0 {
				list = append(list, key{tint(k), v.Name})
			}
		}
	}
	if top == 0 {
		return nil
	}
	return s.figure(chart{
		id: id, title: title, note: note, height: 130, y: y(top), keys: list,
		about: func(side *scenario.Side) string {
			about := title + " over time."
			for _, v := range first(side.Series.Services) {
				about += fmt.Sprintf(" %s: at most %s.", v.Name, measure(highest(of(&v).Mid), y(top).unit))
			}
			return about
		},
		draw: func(p *plot, side *scenario.Side) {
			alone := len(side.Series.Services) == 1
			for k, v := range first(side.Series.Services) {
				b := of(&v)
				if alone {
					p.band(b.Low, b.High, "band "+tint(k))
				}
				p.line(b.Mid, tint(k))
				p.name(b.Mid, v.Name, tint(k))
			}
		},
	})
}

func (s *sheet) queues() *node {
	return s.services("queues", "Queues", "Requests that waited at each service when a bin ended, in the middle run.",
		func(top float64) scale { return linear(top, "waiting") }, func(v *scenario.ServiceSeries) scenario.Band { return v.Queue })
}

func (s *sheet) useful() *node {
	return s.services("useful", "Useful work",
		"The share of the workers' time that went into answers whose caller was still waiting. A full queue over a low line here is a system that is busy with the past.",
		func(float64) scale { return scale{high: 1, unit: scenario.Share} }, func(v *scenario.ServiceSeries) scenario.Band { return v.Useful })
}
