package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// breakers is a strip for each edge, stronger where more breakers are open.
func (s *sheet) breakers() *node {
	ever := s.top(func(r *scenario.Series) (all []float64) {
		for _, e := range r.Edges {
			all = append(all, e.Open.High...)
			all = append(all, e.Open.Mid...)
		}
		return all
	}) > 0
	if !ever {
		return nil
	}
	fig := el("figure", "id", "breakers").add(el("figcaption").add(words("h3", "", "Breakers"),
		words("p", "", "The share of callers whose breaker refuses, in the middle run: the stronger the colour, the more.")))
	fig.add(keys([]key{{"open25", "a quarter open"}, {"open50", "half"}, {"open100", "all"}}, true))
	panels := el("div", "class", "panels n"+strconv.Itoa(len(s.Sides)))
	for i := range s.Sides {
		if !slices.ContainsFunc(s.Sides[i].Series.Edges, func(e scenario.EdgeSeries) bool { return !e.Unguarded }) {
			panels.add(s.panel(i, words("p", "lacks", "There is no breaker.")))
			continue
		}
		panels.add(s.panel(i, s.strips(i)))
	}
	return fig.add(panels)
}

const (
	stripHeight = 16
	stripApart  = 42
)

func (s *sheet) strips(i int) *node {
	side := &s.Sides[i]
	edges := first(side.Series.Edges)
	p := &plot{end: s.end, width: s.bin, faults: s.shades, y: scale{unit: scenario.Share}, height: float64(stripApart * len(edges))}
	about := "Share of open breakers over time."
	for _, e := range edges {
		about += fmt.Sprintf(" %s to %s: at most %s.", e.Caller, e.Service, percent(highest(e.Open.Mid)))
	}
	out := picture("breakers-"+strconv.Itoa(i), "Breakers"+s.of(i), about, p.above()+p.height+below)
	p.zooms(out)
	h := coordinate(p.height)
	inner := el("svg", "y", coordinate(p.above()), "width", "100%", "height", h, "viewBox", "0 0 "+strconv.Itoa(wide)+" "+h, "preserveAspectRatio", "none")
	p.shades(inner)
	for k, e := range edges {
		y := float64(k * stripApart)
		name := e.Caller + " → " + e.Service
		if e.Unguarded {
			name += ", without a breaker"
		}
		out.add(place("0", p.above()+y+14, "0", "start", "tick", name))
		if !e.Unguarded {
			p.strip(inner, e.Open.Mid, y+stripApart-stripHeight-4)
		}
	}
	out.add(inner)
	p.times(out)
	p.marks(out)
	return out
}

// strip draws neighbours of the same colour as one.
func (p *plot) strip(inner *node, open []float64, y float64) {
	for i, l := range p.resolutions() {
		p.groups = l.groups
		p.stripe(inner, p.grouped(open, plus, true), y, l.class, i == 0)
	}
}

func (p *plot) stripe(inner *node, levels []float64, y float64, class string, shut bool) {
	row := func(class string, x, to float64) *node {
		return el("rect", "class", class, "x", coordinate(x), "y", coordinate(y), "width", coordinate(to-x), "height", strconv.Itoa(stripHeight))
	}
	if shut {
		inner.add(row("shut", 0, wide))
	}
	edge := func(i int) float64 { return min(p.x(time.Duration(p.groups[i])*p.width), wide) }
	for from := 0; from < len(levels); {
		to := from + 1
		for to < len(levels) && twentieth(levels[to]) == twentieth(levels[from]) {
			to++
		}
		if level := twentieth(levels[from]); level > 0 {
			n := row("open"+class, edge(from), edge(to))
			n.attr = append(n.attr, "fill-opacity", strconv.FormatFloat(float64(level)/20, 'f', -1, 64))
			inner.add(n)
		}
		from = to
	}
}

// twentieth rounds a share, up from nothing.
func twentieth(share float64) int {
	if !(share > 0) {
		return 0
	}
	return min(max(int(float64(share*20)+0.5), 1), 20)
}

// dots shows each run as a dot: where runs end in two ways there are two heaps,
// and no mean.
func (s *sheet) dots(id, title string, unit string, of func(side int) []scenario.Number) *node {
	top, never := 0.0, false
	for i := range s.Sides {
		for _, v := range of(i) {
			if x := float64(v); math.IsInf(x, 0) || math.IsNaN(x) {
				never = true
			} else {
				top = max(top, x)
			}
		}
	}
	y := linear(top, unit)
	if unit == scenario.Share {
		y = scale{high: 1, unit: unit}
	}
	const row, pad = 44.0, 26.0
	height := pad + float64(row*float64(len(s.Sides))) + below
	about := title + ", each run one dot."
	for i := range s.Sides {
		about += " " + s.sideName(i) + ": " + strconv.Itoa(len(of(i))) + " runs."
	}
	out := picture(id, title, about, height)
	out.attr = append(out.attr, "class", "dots")
	for _, v := range y.ticks() {
		x := percentage(0.9 * y.share(v))
		out.add(el("line", "class", "grid", "x1", x, "x2", x, "y1", coordinate(pad-8), "y2", coordinate(height-below)))
		if !never || y.share(v) < 0.9 {
			out.add(place(x, height-6, "0", "middle", "tick", measure(v, unit)))
		}
	}
	for i := range s.Sides {
		at := pad + float64(row*float64(i))
		if len(s.Sides) > 1 {
			out.add(place("0", at+2, "0", "start", "tick", s.sideName(i)))
		}
		for k, v := range of(i) {
			out.add(dot(float64(v), y, at+18, k))
		}
	}
	if never {
		out.add(place("97%", height-6, "0", "middle", "tick never", "never"))
	}
	return el("figure", "id", id+"-f").add(el("figcaption").add(words("h3", "", title)), el("div", "class", "frame slim").add(out))
}

// dot is one run. Runs that never came there stand at the right end.
func dot(x float64, y scale, at float64, k int) *node {
	class, share := "dot", 0.9*y.share(x)
	if math.IsInf(x, 0) || math.IsNaN(x) {
		class, share = "dot away", 0.97
	}
	jitter := float64(k*7%5-2) * 3.2 // so that equal ones are seen
	return el("circle", "class", class, "cx", percentage(share), "cy", coordinate(at+jitter), "r", "3.5")
}
