package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// A level is how finely series are drawn.
type level struct {
	class  string // of what is drawn so, after a space; empty where there is one level
	groups []int  // where each point begins, in bins of what is shown; the last is the end
}

// resolutions are how finely series are drawn: all of the run alike, and for a reader who
// zooms finer where something goes wrong.
func (p *plot) resolutions() []level {
	if p.levels != nil {
		return p.levels
	}
	width := max(p.width, 1)
	n := int((p.end - p.from + width - 1) / width)
	near, most := make([]bool, n), 0
	for _, f := range p.faults {
		around := max(f.to-f.from, 10*width)
		for i := max(int((f.from-around-p.from)/width), 0); i < min(int((f.to+around-p.from)/width)+1, n); i++ {
			if !near[i] {
				most++
			}
			near[i] = true
		}
	}
	step := max((n+points-1)/points, 1)
	fine := max((most+points-1)/points, 1)
	p.levels = []level{{"", groups(make([]bool, n), step, step)}}
	if fine < step && most > 0 {
		p.levels[0].class = " far"
		p.levels = append(p.levels, level{" near", groups(near, step, fine)})
	}
	return p.levels
}

// groups puts bins together, of those that are near something fewer.
func groups(near []bool, step, fine int) []int {
	list := []int{0}
	for at := 0; at < len(near); {
		size := step
		if near[at] {
			size = fine
		}
		next := at + 1
		for next < min(at+size, len(near)) && near[next] == near[at] {
			next++
		}
		list = append(list, next)
		at = next
	}
	return list
}

// grouped puts bins together that stand for one point.
func (p *plot) grouped(ys []float64, join func(a, b float64) float64, mean bool) []float64 {
	ys = p.bins(ys)
	out := make([]float64, 0, len(p.groups))
	for i := 0; i+1 < len(p.groups) && p.groups[i] < len(ys); i++ {
		out = append(out, joined(ys[p.groups[i]:min(p.groups[i+1], len(ys))], join, mean))
	}
	return out
}

// middle is the place of a point.
func (p *plot) middle(i int) float64 {
	from, to := p.groups[i], p.groups[i+1]
	return p.x(p.from + time.Duration(from)*p.width + time.Duration(to-from)*p.width/2)
}

// zooms marks a picture of the whole run as one that can be zoomed.
func (p *plot) zooms(out *node) {
	if p.from > 0 {
		out.attr = append(out.attr, "class", "plot")
		return
	}
	out.attr = append(out.attr, "class", "plot zooms", "data-end", strconv.FormatFloat(p.end.Seconds(), 'f', -1, 64))
}

// times writes the time below the field.
func (p *plot) times(out *node) {
	group := el("g", "class", "times")
	step := timeStep(p.end - p.from)
	for t := (p.from + step - 1) / step * step; t <= p.end; t += step {
		x := p.x(t)
		anchor := "middle"
		switch t {
		case p.from:
			anchor = "start"
		case p.end:
			anchor = "end"
		}
		group.add(
			el("line", "class", "axis", "x1", across(x), "x2", across(x), "y1", coordinate(p.above()+p.height), "y2", coordinate(p.above()+p.height+4)),
			place(across(x), p.above()+p.height+18, "0", anchor, "tick", timeLabel(t, step, p.end)))
	}
	out.add(group)
}

// A tag is the name of a trouble over the field.
type tag struct {
	name   string
	class  string
	from   float64 // where the trouble begins and ends
	to     float64
	x      float64 // where the name begins or, if it stands before x, ends
	before bool
	row    int // 0 is next to the field
}

// lettersOf is how wide a letter is where one or two pictures stand next to each other
// on a wide screen; narrow ones hide the names, and have a list instead.
var lettersOf = map[bool]float64{false: 8, true: 15}

const tagHeight = 15

// tag finds a place for the name of each trouble: those that come again are named once,
// and those that are near each other stand above each other.
func (p *plot) tag() {
	if !p.named {
		return
	}
	seen := map[string]int{}
	for _, f := range p.faults {
		if i, ok := seen[f.name]; ok {
			p.tagged[i].row++ // counts for now
			continue
		}
		seen[f.name] = len(p.tagged)
		from, to := p.edges(f)
		p.tagged = append(p.tagged, tag{name: f.name, class: f.class() + "name", from: from, to: to, x: from})
	}
	taken := [][][2]float64{}
	order := make([]int, len(p.tagged))
	for i := range p.tagged {
		g := &p.tagged[i]
		if g.row > 0 {
			g.name = fmt.Sprintf("%s (comes %d times)", g.name, g.row+1)
		}
		order[i], g.row = i, 0
		if length := p.length(g); g.from+length > wide {
			if g.before = g.to > length; g.before {
				g.x = g.to
			} else {
				g.x = max(wide-length, 0)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.tagged[b].x, p.tagged[a].x) }) // so that no line to the field crosses a name
	for _, i := range order {
		g := &p.tagged[i]
		left, right := g.x, g.x+p.length(g)
		if g.before {
			left, right = g.x-p.length(g), g.x
		}
		for g.row = 0; ; g.row++ {
			if g.row == len(taken) {
				taken = append(taken, nil)
			}
			if !slices.ContainsFunc(taken[g.row], func(t [2]float64) bool { return left < t[1] && t[0] < right }) {
				break
			}
		}
		taken[g.row] = append(taken[g.row], [2]float64{left, right})
	}
}

func (p *plot) length(g *tag) float64 { return p.per * float64(utf8.RuneCountInString(g.name)+1) }

// rows is how many rows the names have.
func (p *plot) rows() int {
	rows := 1
	for i := range p.tagged {
		rows = max(rows, p.tagged[i].row+1)
	}
	return rows
}

// marks draws a bracket over each trouble, and its name.
func (p *plot) marks(out *node) {
	at := coordinate(p.above() - 5)
	for _, f := range p.faults {
		from, to := p.edges(f)
		out.add(p.spanning(el("line", "class", f.class()+"mark", "x1", across(from), "x2", across(to), "y1", at, "y2", at), from, to).
			add(words("title", "", moment(f.from)+" to "+moment(f.to)+": "+f.name)))
	}
	for i := range p.tagged {
		g := &p.tagged[i]
		y := p.above() - 11 - float64(tagHeight*g.row)
		anchor := "start"
		if g.before {
			anchor = "end"
		}
		if g.row > 0 {
			out.add(p.spanning(el("line", "class", "leader", "x1", across(g.x), "x2", across(g.x), "y1", coordinate(y+3), "y2", at), g.x, g.x))
		}
		out.add(p.spanning(place(across(g.x), y, "0", anchor, g.class, g.name), g.from, g.to))
	}
}

// spanning says at which shares of the run something begins and ends, for the zoom.
func (p *plot) spanning(n *node, from, to float64) *node {
	n.attr = append(n.attr, "data-a", coordinate(from), "data-b", coordinate(to))
	return n
}
