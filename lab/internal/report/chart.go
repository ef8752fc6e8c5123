package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// A sheet is what all pictures of a study share.
type sheet struct {
	*scenario.Study // its Sides are those that are shown in full: one, or the two that are compared
	all             []scenario.Side
	end, bin        time.Duration
	shades          []shade
}

func newSheet(s *scenario.Study) *sheet {
	full := *s
	full.Sides = s.Sides[:min(len(s.Sides), 2)]
	sh := &sheet{Study: &full, all: s.Sides, end: clock(s.Duration), bin: max(clock(s.Bin), time.Millisecond)}
	for _, m := range s.Marks {
		if m.From < s.Duration {
			sh.shades = append(sh.shades, shade{clock(m.From), clock(max(m.To, m.From)), m.Text, m.Kind == "load"})
		}
	}
	return sh
}

// seen returns the shades that a picture of that time shows.
func (s *sheet) seen(from, end time.Duration) (seen []shade) {
	for _, f := range s.shades {
		if f.to >= from && f.from < end {
			seen = append(seen, f)
		}
	}
	return seen
}

// third is the plain client where it is a side of its own, which is not shown in full.
func (s *sheet) third() *scenario.Side {
	if len(s.all) < 3 {
		return nil
	}
	return &s.all[2]
}

// clock is a time of a study.
func clock(seconds float64) time.Duration { return time.Duration(seconds * 1e9) }

// sideName is the whole name of a side.
func (s *sheet) sideName(i int) string { return s.Sides[i].Name }

// A chart is pictures of one thing, one for each side, on the same scale.
type chart struct {
	id, title, note string
	height          float64
	y               scale
	keys            []key
	bare            bool // the lines carry no names: the keys are always shown
	named           bool
	from, end       time.Duration
	draw            func(p *plot, side *scenario.Side)
	about           func(side *scenario.Side) string
	lacks           func(side *scenario.Side) string // why there is no picture of a side; nil or empty where there is one
}

// A key says what a colour stands for.
type key struct{ class, text string }

func (s *sheet) figure(c chart) *node {
	fig := el("figure", "id", c.id)
	caption := el("figcaption").add(words("h3", "", c.title))
	if c.note != "" {
		caption.add(words("p", "", c.note))
	}
	fig.add(caption, keys(c.keys, c.bare))
	panels := el("div", "class", "panels n"+strconv.Itoa(len(s.Sides)))
	for i := range s.Sides {
		side := &s.Sides[i]
		p := &plot{
			id: c.id + "-" + strconv.Itoa(i), title: c.title + s.of(i), about: c.about(side), height: c.height,
			from: c.from, end: c.end, width: s.bin, y: c.y, named: c.named,
		}
		if c.end == 0 {
			p.end = s.end
		}
		p.faults = s.seen(p.from, p.end)
		p.per = lettersOf[len(s.Sides) > 1]
		p.tag()
		if c.lacks != nil {
			if text := c.lacks(side); text != "" {
				panels.add(s.panel(i, words("p", "lacks", text)))
				continue
			}
		}
		c.draw(p, side)
		panels.add(s.panel(i, p.svg()))
	}
	return fig.add(panels)
}

// of says whose picture it is, where there are two.
func (s *sheet) of(i int) string {
	if len(s.Sides) == 1 {
		return ""
	}
	return ", " + s.sideName(i)
}

func (s *sheet) panel(i int, picture *node) *node {
	panel := el("div", "class", "panel")
	if len(s.Sides) > 1 {
		panel.add(words("p", "side", s.sideName(i)))
	}
	return panel.add(el("div", "class", "frame").add(picture))
}

func keys(list []key, always bool) *node {
	if len(list) == 0 {
		return nil
	}
	class := "keys"
	if always {
		class = "keys always"
	}
	n := el("p", "class", class)
	for _, k := range list {
		n.add(el("span", "class", "key "+k.class).add(el("i"), &node{text: k.text}))
	}
	return n
}

// top is the largest value of a series on any side.
func (s *sheet) top(of func(*scenario.Series) []float64) (top float64) {
	for i := range s.Sides {
		for _, y := range of(&s.Sides[i].Series) {
			if !math.IsNaN(y) && !math.IsInf(y, 0) {
				top = max(top, y)
			}
		}
	}
	return top
}

// goodput is what clients wanted, what they got, and what they could have got.
func (s *sheet) goodput() *node {
	top := max(s.top(func(r *scenario.Series) []float64 { return r.Offered.High }), s.top(func(r *scenario.Series) []float64 { return r.Goodput.High }),
		s.top(func(r *scenario.Series) []float64 { return r.Offered.Mid }))
	note := "Calls that ended well and within their deadline, per second. The line is the middle run; nine of ten runs lie in the band."
	capacity := known(s.Capacity)
	switch high := highest(capacity); {
	case high <= 0:
		capacity = nil
	case high > 3*top:
		note += fmt.Sprintf(" Capacity, up to %s per second, is far above the picture.", figure(high))
		capacity = nil
	default:
		top = max(top, high)
	}
	keys := []key{{"offered", "offered"}, {"good", "goodput"}}
	if capacity != nil {
		keys = append(keys, key{"capacity", "capacity"})
		note += " Capacity is what the services, " + s.Bottleneck + " being the narrowest, could serve without a single retry."
	}
	third := s.third()
	if third != nil {
		keys = append(keys, key{"third", third.Name})
	}
	return s.figure(chart{
		id: "goodput", title: "Goodput against what was offered", note: note, keys: keys,
		height: 200, y: linear(top, "calls per second"), named: true,
		about: s.aboutGoodput,
		draw: func(p *plot, side *scenario.Side) {
			r := &side.Series
			p.band(r.Goodput.Low, r.Goodput.High, "band good")
			if capacity != nil {
				p.line(capacity, "capacity")
				p.name(capacity, "capacity", "capacity")
			}
			p.line(r.Offered.Mid, "offered")
			if third != nil {
				p.line(third.Series.Goodput.Mid, "third")
			}
			p.line(r.Goodput.Mid, "good")
			p.name(r.Offered.Mid, "offered", "offered")
			p.name(r.Goodput.Mid, "goodput", "good")
		},
	})
}

func (s *sheet) aboutGoodput(side *scenario.Side) string {
	about := "Goodput over time."
	for _, ph := range side.Phases {
		if m := find(ph.Metrics, "goodput"); m != nil {
			about += " " + phaseName(ph.Name) + ": " + value(m) + "."
		}
	}
	return about
}

// known returns a capacity with what is unbounded left out.
func known(xs []float64) []float64 {
	out := make([]float64, len(xs))
	for i, x := range xs {
		if out[i] = x; x < 0 {
			out[i] = math.NaN()
		}
	}
	return out
}

func highest(xs []float64) float64 {
	high := 0.0
	for _, x := range xs {
		if x > high {
			high = x
		}
	}
	return high
}

// stack adds series up: the i-th result is where the i-th begins, and the last is
// where all end.
func stack(bands []scenario.Band) [][]float64 {
	n := 0
	for _, b := range bands {
		n = max(n, len(b.Mid))
	}
	sums := [][]float64{make([]float64, n)}
	for _, b := range bands {
		next := slices.Clone(sums[len(sums)-1])
		for i, y := range b.Mid {
			next[i] += y
		}
		sums = append(sums, next)
	}
	return sums
}

// attempts is what the services had to take, by number of the try.
func (s *sheet) attempts() *node {
	top, tries := s.top(func(r *scenario.Series) []float64 { return r.Offered.Mid }), 1
	for i := range s.Sides {
		sums := stack(s.Sides[i].Series.ByTry)
		top = max(top, highest(sums[len(sums)-1]))
		for k, b := range s.Sides[i].Series.ByTry {
			if highest(b.Mid) > 0 {
				tries = max(tries, k+1)
			}
		}
	}
	var keys []key
	for k := range tries {
		name := ordinal(k + 1)
		if k == 0 {
			name = "first try"
		} else if k+1 == scenario.Tries {
			name = ordinal(k+1) + " and later"
		}
		keys = append(keys, key{"try" + strconv.Itoa(k+1), name})
	}
	one := len(s.Sides[0].Series.Services) == 1 // of several, each is sent what is offered
	if one {
		keys = append(keys, key{"offered", "offered"})
	}
	third := s.third()
	if third != nil {
		keys = append(keys, key{"third", "all of " + third.Name})
		top = max(top, highest(third.Series.Attempts.Mid))
	}
	return s.figure(chart{
		id: "attempts", title: "Attempts by number of the try", keys: keys, bare: true,
		note:   "What all services together were sent, per second. Whatever is above the first tries exists because something failed or was slow.",
		height: 200, y: linear(top, "attempts per second"),
		about: func(side *scenario.Side) string {
			sums := stack(side.Series.ByTry)
			return "Attempts over time, stacked by number of the try. At most " + figure(highest(sums[len(sums)-1])) + " per second."
		},
		draw: func(p *plot, side *scenario.Side) {
			sums := stack(side.Series.ByTry)
			for k := 0; k < min(tries, len(sums)-1); k++ {
				p.area(sums[k], sums[k+1], "try"+strconv.Itoa(k+1))
			}
			if one {
				p.line(side.Series.Offered.Mid, "offered")
			}
			if third != nil {
				p.line(third.Series.Attempts.Mid, "third")
			}
		},
	})
}

// retries adds up all tries but the first.
func retries(r *scenario.Series) []float64 {
	if len(r.ByTry) < 2 {
		return nil
	}
	sums := stack(r.ByTry[1:])
	return sums[len(sums)-1]
}

// tail is how long retries go on after the trouble.
func (s *sheet) tail() *node {
	if s.During[1] <= s.During[0] || s.During[1] >= s.Duration {
		return nil
	}
	over := clock(s.During[1])
	before := min(max(10*s.bin, (s.end-over)/12), over)
	end := min(s.end, over+s.settled(over)+before)
	if end < over+2*before {
		end = min(s.end, over+2*before)
	}
	top := 0.0
	for i := range s.Sides {
		r := retries(&s.Sides[i].Series)
		top = max(top, highest(r[min(len(r), int((over-before)/s.bin)):]))
	}
	if top == 0 {
		return nil
	}
	return s.figure(chart{
		id: "tail", title: "Retries after the trouble", height: 120, y: linear(top, "retries per second"),
		note: fmt.Sprintf("The same retries, from shortly before the trouble ends at %s until they are back to what they were. While they last, the services work for the past.", moment(over)),
		from: (over - before).Truncate(s.bin), end: end,
		about: func(side *scenario.Side) string {
			if m := find(side.Metrics, "retry_tail"); m != nil {
				return "Retries per second after the trouble. They go on for " + value(m) + "."
			}
			return "Retries per second after the trouble."
		},
		draw: func(p *plot, side *scenario.Side) {
			r := retries(&side.Series)
			p.area(make([]float64, len(r)), r, "band retry")
			p.line(r, "retry")
		},
	})
}

// settled returns how long after the trouble the retries of every side are at
// most what they were before it, and a hundredth of what they were at their worst.
func (s *sheet) settled(over time.Duration) (longest time.Duration) {
	for i := range s.Sides {
		r := retries(&s.Sides[i].Series)
		begun := min(int(clock(s.During[0])/s.bin), len(r))
		limit := max(highest(r[:begun]), highest(r)/100)
		for k := min(len(r), int(s.end/s.bin)) - 1; k >= 0; k-- {
			if at := time.Duration(k) * s.bin; r[k] > limit {
				longest = max(longest, at-over)
				break
			}
		}
	}
	return longest
}
