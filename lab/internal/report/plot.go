package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// Above the field stand the unit and the marks of the faults, below it the time.
const (
	above = 38
	below = 24
	slim  = 12 // above, where no text stands there
)

func (p *plot) above() float64 {
	if p.named && len(p.tagged) > 0 {
		return above + float64(tagHeight*(p.rows()-1))
	}
	if p.named || p.y.unit != scenario.Seconds && p.y.unit != scenario.Share {
		return above
	}
	return slim
}

// points is how many points of a series are drawn: more than a screen can show side by
// side only make the file longer. When a reader zooms, as many are drawn of the times around
// troubles alone.
const points = 240

// A plot is a picture of something over time.
type plot struct {
	id     string // unique on the page
	title  string
	about  string // what it shows, in words, for those who can't see it
	height float64
	from   time.Duration // what is shown
	end    time.Duration
	width  time.Duration // of a bin
	y      scale
	faults []shade
	named  bool    // the faults' marks carry their names
	per    float64 // the width of a letter, where the field is wide across
	field  []*node
	labels []label
	levels []level // how finely series are drawn; found when it is first needed
	groups []int   // of the level that is drawn
	tagged []tag
}

// A shade is a time in which something is wrong.
type shade struct {
	from, to time.Duration
	name     string
	load     bool // it is the load that is unusual
}

func (f shade) class() string {
	if f.load {
		return "spike"
	}
	return "fault"
}

// A label names a line at its right end.
type label struct {
	y           float64
	text, class string
}

func (p *plot) x(t time.Duration) float64 {
	return wide * float64(t-p.from) / float64(max(p.end-p.from, 1))
}

// at returns the height at which a value stands; 0 is the upper edge.
func (p *plot) at(v float64) float64 { return p.height - float64(p.height*p.y.share(v)) }

// bins returns the part of a series that is inside of the picture.
func (p *plot) bins(ys []float64) []float64 {
	from, to := int(p.from/max(p.width, 1)), int((p.end+p.width-1)/max(p.width, 1))
	return ys[min(from, len(ys)):min(to, len(ys))]
}

// thin puts groups of values together; those that are no numbers don't count.
func thin(ys []float64, group int, join func(a, b float64) float64, mean bool) []float64 {
	out := make([]float64, 0, len(ys)/group+1)
	for from := 0; from < len(ys); from += group {
		out = append(out, joined(ys[from:min(from+group, len(ys))], join, mean))
	}
	return out
}

func joined(ys []float64, join func(a, b float64) float64, mean bool) float64 {
	n, sum := 0, math.NaN()
	for _, y := range ys {
		if math.IsNaN(y) {
			continue
		}
		if n++; n == 1 {
			sum = y
		} else {
			sum = join(sum, y)
		}
	}
	if mean && n > 0 {
		sum /= float64(n)
	}
	return sum
}

func plus(a, b float64) float64    { return a + b }
func smaller(a, b float64) float64 { return min(a, b) }
func larger(a, b float64) float64  { return max(a, b) }

// line draws a series. Where there are no values there is no line.
func (p *plot) line(ys []float64, class string) {
	for _, l := range p.resolutions() {
		p.groups = l.groups
		p.stroke(p.grouped(ys, plus, true), class+l.class)
	}
}

func (p *plot) stroke(ys []float64, class string) {
	var d strings.Builder
	pen := false
	for i, y := range ys {
		if math.IsNaN(y) {
			pen = false
			continue
		}
		if pen && i+1 < len(ys) && y == ys[i-1] && y == ys[i+1] {
			continue // inside of a level piece
		}
		d.WriteString(map[bool]string{false: "M", true: " "}[pen])
		d.WriteString(coordinate(p.middle(i)) + " " + coordinate(p.at(y)))
		pen = true
	}
	p.draw(el("path", "class", "line "+class, "d", d.String()))
}

// band fills what is between two series: the range of most runs.
func (p *plot) band(low, high []float64, class string) {
	p.fills(low, high, smaller, larger, false, class)
}

// area fills what is between two series that lie on each other.
func (p *plot) area(low, high []float64, class string) {
	p.fills(low, high, plus, plus, true, class)
}

func (p *plot) fills(low, high []float64, join, over func(a, b float64) float64, mean bool, class string) {
	for _, l := range p.resolutions() {
		p.groups = l.groups
		p.fill(p.grouped(low, join, mean), p.grouped(high, over, mean), class+l.class)
	}
}

func (p *plot) fill(low, high []float64, class string) {
	n := min(len(low), len(high))
	var d strings.Builder
	for from := 0; from < n; {
		to := from
		for to < n && !math.IsNaN(low[to]) && !math.IsNaN(high[to]) {
			to++
		}
		if to > from {
			p.piece(&d, low, high, from, to)
		}
		from = to + 1
	}
	p.draw(el("path", "class", class, "d", d.String()))
}

func (p *plot) piece(d *strings.Builder, low, high []float64, from, to int) {
	before := byte('M')
	put := func(i int, y float64) {
		d.WriteByte(before)
		d.WriteString(coordinate(p.middle(i)) + " " + coordinate(p.at(y)))
		before = ' '
	}
	level := func(ys []float64, i int) bool {
		return i > from && i+1 < to && ys[i] == ys[i-1] && ys[i] == ys[i+1]
	}
	for i := from; i < to; i++ {
		if !level(high, i) {
			put(i, high[i])
		}
	}
	for i := to - 1; i >= from; i-- {
		if !level(low, i) {
			put(i, low[i])
		}
	}
	d.WriteByte('Z')
}

func (p *plot) draw(n *node) { p.field = append(p.field, n) }

// name puts a label at the height of a line's last value.
func (p *plot) name(ys []float64, text, class string) {
	ys = p.bins(ys)
	for i := len(ys) - 1; i >= 0; i-- {
		if !math.IsNaN(ys[i]) {
			p.labels = append(p.labels, label{p.at(ys[i]), text, class})
			return
		}
	}
}

// svg returns the picture.
func (p *plot) svg() *node {
	h := coordinate(p.height)
	out := picture(p.id, p.title, p.about, p.above()+p.height+below)
	p.zooms(out)
	inner := el("svg", "y", coordinate(p.above()), "width", "100%", "height", h, "viewBox", "0 0 "+strconv.Itoa(wide)+" "+h, "preserveAspectRatio", "none")
	p.shades(inner)
	p.grid(out, inner)
	inner.add(p.field...)
	out.add(inner)
	p.times(out)
	p.marks(out)
	p.names(out)
	return out
}

// picture returns an empty picture with its title and description.
func picture(id, title, about string, height float64) *node {
	return el("svg", "width", "100%", "height", coordinate(height), "role", "img", "aria-labelledby", id+"-t "+id+"-d").
		add(el("title", "id", id+"-t").say(title), el("desc", "id", id+"-d").say(about))
}

// edges returns where a shade begins and ends; none is too thin to be seen.
func (p *plot) edges(f shade) (from, to float64) {
	from = p.x(max(f.from, p.from))
	return from, max(p.x(min(f.to, p.end)), from+2)
}

func (p *plot) shades(inner *node) {
	for _, f := range p.faults {
		from, to := p.edges(f)
		inner.add(el("rect", "class", f.class(), "x", coordinate(from), "y", "0", "width", coordinate(to-from), "height", coordinate(p.height)),
			el("path", "class", "edge "+f.class(), "d", "M"+coordinate(from)+" 0V"+coordinate(p.height)))
	}
}

func (p *plot) grid(out, inner *node) {
	ticks := p.y.ticks()
	for i, v := range ticks {
		y := p.at(v)
		class := "grid"
		if i == 0 {
			class = "axis"
		}
		inner.add(el("path", "class", class, "d", "M0 "+coordinate(y)+"H"+strconv.Itoa(wide)))
		out.add(place("0", p.above()+y+4, "-8", "end", "tick", p.tick(v)))
	}
	if p.y.unit != scenario.Seconds && p.y.unit != scenario.Share {
		out.add(place("0", 9, "-44", "start", "unit", p.y.unit))
	}
}

func (p *plot) tick(v float64) string { return measure(v, p.y.unit) }

// names writes the labels of the lines, each as near to its line as the others
// leave room.
func (p *plot) names(out *node) {
	const apart = 14
	placed := make([]float64, len(p.labels))
	order := make([]int, len(p.labels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.labels[a].y, p.labels[b].y) })
	at := math.Inf(-1)
	for _, i := range order {
		at = max(p.labels[i].y, at+apart)
		placed[i] = at
	}
	limit := p.height + 2
	for k := len(order) - 1; k >= 0; k-- { // what went too low goes up again
		placed[order[k]] = min(placed[order[k]], limit)
		limit = placed[order[k]] - apart
	}
	for i, l := range p.labels {
		out.add(place("100%", p.above()+placed[i]+4, "8", "start", "name "+l.class, l.text))
	}
}

// across is a place on the field as a share of the width of what is around it.
func across(x float64) string { return percentage(x / wide) }

func percentage(share float64) string {
	return strconv.FormatFloat(100*share, 'f', 2, 64) + "%"
}

// place returns a text at a share of the width, moved by dx.
func place(x string, y float64, dx, anchor, class, s string) *node {
	n := el("text", "x", x, "y", coordinate(y))
	if dx != "0" {
		n.attr = append(n.attr, "dx", dx)
	}
	if anchor != "start" {
		n.attr = append(n.attr, "text-anchor", anchor)
	}
	n.attr = append(n.attr, "class", class)
	return n.say(s)
}
