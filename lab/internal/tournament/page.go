package tournament

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/stat"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// HTML writes one page that needs nothing else: no script, no network.
func (r *Result) HTML(w io.Writer) error { return page.Execute(w, pages{r}.whole()) }

// pages makes the data of the page of a result.
type pages struct{ *Result }

// pageData is what the page shows, spelled.
type pageData struct {
	Title    string
	Entrants int
	Worlds   int
	Calls    string
	Seed     string
	Groups   []pageGroup
	Kinds    [][]string // cells of a row, the name first
	Below    []string   // what is below the plain client, a sentence each; the first is about all
	Losses   []pageLoss
	Breaks   int
	Sources  []Entrant
}

type pageGroup struct {
	Name                 string
	Worlds, Replications int
	Rows                 []pageRow
	Chart                chart
	Each                 []pageWorld
	Names                []string // of the columns of Each
}

type pageRow struct {
	Name   string
	Judged bool
	Front  bool
	Cells  []pageCell
}

type pageCell struct{ Label, Text, Class, Tip string }

type pageWorld struct {
	Name, Title string
	Cells       []pageCell
}

type pageLoss struct {
	Sentence, Command string
	Breaks            bool
}

func (r pages) whole() pageData {
	d := pageData{Title: r.Title, Entrants: len(r.Entrants), Worlds: len(r.Worlds), Calls: r.calls(), Seed: r.seed(), Sources: r.Entrants}
	for i := range r.Groups {
		d.Groups = append(d.Groups, r.group(&r.Groups[i]))
	}
	for i := range r.Kinds {
		d.Kinds = append(d.Kinds, r.Kinds[i].cells())
	}
	d.Below = r.bars()
	for i := range r.Losses {
		l := &r.Losses[i]
		d.Losses = append(d.Losses, pageLoss{l.Sentence(), l.Command, l.Breaks})
		if l.Breaks {
			d.Breaks++
		}
	}
	return d
}

func (r pages) group(g *Group) pageGroup {
	made := pageGroup{Name: g.Name, Worlds: g.Worlds, Replications: g.Replications, Chart: r.chart(g)}
	for e := range g.Rows {
		row := &g.Rows[e]
		made.Rows = append(made.Rows, pageRow{r.Entrants[e].Name, r.Entrants[e].Judged, row.Front, row.cells()})
		made.Names = append(made.Names, r.Entrants[e].Name)
	}
	for w := range r.Worlds {
		if r.Worlds[w].Group == g.Name {
			made.Each = append(made.Each, r.world(w))
		}
	}
	return made
}

// cells are the columns of a row.
func (row *Row) cells() []pageCell {
	of := func(label string, k column) pageCell {
		return pageCell{label, k.say(row.Mean[k]), classOf(row.Verdict[k]), row.tip(k)}
	}
	worst := func(label string, k column) pageCell {
		return pageCell{label, k.say(row.Worst[k]), "", row.WorstIn[k]}
	}
	return []pageCell{
		of("answered in time", answered), of("in the trouble", trouble), of("failed, a call", failing), of("load", load), worst("load, worst", load),
		{"dead load", load.show(row.Dead), "", ""}, of("recovery", recovery), worst("recovery, worst", recovery), worst("peak after, worst", peak),
		{"stays down", percent(row.StaysDown.Value) + " %", "", fmt.Sprintf("%s to %s %%", percent(row.StaysDown.Low), percent(row.StaysDown.High))},
	}
}

// tip says how sure a mean is of being another than the first's.
func (row *Row) tip(k column) string {
	d := row.Delta[k]
	if math.IsInf(d.Low, 0) || math.IsNaN(d.Value) || d.Low == d.High {
		return ""
	}
	scale := 1.0
	if k.more() {
		scale = 100
	}
	return fmt.Sprintf("%+.2f (%+.2f to %+.2f) against the first", scale*d.Value, scale*d.Low, scale*d.High)
}

// classOf is the class by which a page colours a verdict.
func classOf(v stat.Verdict) string { return [...]string{"", "better", "worse"}[v] }

// pageWorld is one world: how many each entrant answers in time, at what load.
func (r pages) world(w int) pageWorld {
	made := pageWorld{Name: r.Worlds[w].File.Name, Title: r.Worlds[w].File.Title}
	for e := range r.Entrants {
		c := &r.cells[e][w]
		_, verdict := compare(&r.cells[0][w], c, answered)
		made.Cells = append(made.Cells, pageCell{r.Entrants[e].Name, answered.show(c.mean(answered)), classOf(verdict), "load " + load.show(c.mean(load)) + ", recovery " + recovery.show(c.mean(recovery)) + " s"})
	}
	return made
}

// chart is answers against load, one point for each entrant.
type chart struct {
	Points         []chartPoint
	Line           string // through the front
	Left, Right    string
	Bottom, Top    string
	Width, Height  int
	PlotX, PlotY   int // where the plot begins
	PlotW, PlotH   int
	MiddleX        int
	Baseline, Text int
}

type chartPoint struct {
	X, Y, Radius, LabelY float64
	Name, Tip, Anchor    string
	LabelX               float64
	Front, Judged        bool
}

func (r pages) chart(g *Group) chart {
	c := chart{Width: 360, Height: 260, PlotX: 40, PlotY: 12, PlotW: 305, PlotH: 205}
	c.Baseline, c.Text, c.MiddleX = c.PlotY+c.PlotH, c.PlotY+c.PlotH+16, c.PlotX+c.PlotW/2
	x0, x1, y0, y1 := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for e := range g.Rows {
		if x, y := g.Rows[e].Mean[load], g.Rows[e].Mean[answered]; !math.IsNaN(x) && !math.IsNaN(y) {
			x0, x1, y0, y1 = min(x0, x), max(x1, x), min(y0, y), max(y1, y)
		}
	}
	if x1 <= x0 || y1 <= y0 {
		return chart{}
	}
	dx, dy := (x1-x0)*0.08, (y1-y0)*0.08
	x0, x1, y0, y1 = x0-dx, x1+dx, y0-dy, y1+dy
	c.Left, c.Right, c.Bottom, c.Top = load.show(x0), load.show(x1), answered.show(y0)+" %", answered.show(y1)+" %"
	for e := range g.Rows {
		row := &g.Rows[e]
		if math.IsNaN(row.Mean[load]) || math.IsNaN(row.Mean[answered]) {
			continue
		}
		p := chartPoint{
			X: float64(c.PlotX) + (row.Mean[load]-x0)/(x1-x0)*float64(c.PlotW), Y: float64(c.Baseline) - (row.Mean[answered]-y0)/(y1-y0)*float64(c.PlotH),
			Radius: 4, Name: r.Entrants[e].Name, Front: row.Front, Judged: r.Entrants[e].Judged, Anchor: "start",
			Tip: fmt.Sprintf("%s: %s %% at a load of %s, recovery %s s", r.Entrants[e].Name, answered.show(row.Mean[answered]), load.show(row.Mean[load]), recovery.show(row.Mean[recovery])),
		}
		p.LabelX, p.LabelY = p.X+7, p.Y+4
		if p.X > float64(c.PlotX)+0.6*float64(c.PlotW) {
			p.LabelX, p.Anchor = p.X-7, "end"
		}
		p.X, p.Y, p.LabelX, p.LabelY = tenth(p.X), tenth(p.Y), tenth(p.LabelX), tenth(p.LabelY)
		c.Points = append(c.Points, p)
	}
	c.spread()
	return c
}

// spread moves labels down until none stands on another.
func (c *chart) spread() {
	for i := range c.Points {
		for moved := true; moved; {
			moved = false
			for k := range i {
				if c.Points[k].Anchor == c.Points[i].Anchor && math.Abs(c.Points[k].LabelY-c.Points[i].LabelY) < 11 &&
					math.Abs(c.Points[k].LabelX-c.Points[i].LabelX) < 90 && c.Points[i].LabelY < float64(c.Baseline) {
					c.Points[i].LabelY, moved = tenth(c.Points[k].LabelY+11), true
				}
			}
		}
	}
}

func tenth(x float64) float64 { return math.Round(10*x) / 10 }

// Markdown writes the tables and all losses, to be part of a document.
func (r *Result) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d entrants in %d scenarios, about %s calls%s.\n", len(r.Entrants), len(r.Worlds), r.calls(), r.seed())
	for i := range r.Groups {
		g := &r.Groups[i]
		fmt.Fprintf(&b, "\n### %s: %d, %d runs each\n\n", upper(g.Name), g.Worlds, g.Replications)
		b.WriteString("| | answered in time | in the trouble | failed, s a call | load: mean, worst | dead load | recovery: mean, worst | peak after | stays down |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
		for e := range g.Rows {
			r.markdownRow(&b, g, e)
		}
	}
	b.WriteString("\n**Bold** is on the front: no other is better at answers, load or recovery without being worse at another of them. " +
		"↑ and ↓ are better and worse than the first row, resolved in pairs.\n")
	r.kindMarkdown(&b)
	r.markdownLosses(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) markdownRow(b *strings.Builder, g *Group, e int) {
	row, name := &g.Rows[e], r.Entrants[e].Name
	if row.Front {
		name = "**" + name + "**"
	}
	m := func(k column) string {
		return k.say(row.Mean[k]) + [...]string{"", " ↑", " ↓"}[row.Verdict[k]]
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s, %s | %s | %s, %s | %s | %s %% |\n", name, m(answered), m(trouble), m(failing), m(load), load.show(row.Worst[load]),
		load.show(row.Dead), m(recovery), recovery.say(row.Worst[recovery]), peak.show(row.Worst[peak]), percent(row.StaysDown.Value))
}

func (r *Result) markdownLosses(b *strings.Builder) {
	b.WriteString("\n### Where it loses\n")
	if len(r.Losses) == 0 {
		b.WriteString("\nNo loss is resolved.\n")
	}
	for i := range r.Losses {
		l := &r.Losses[i]
		begin := ""
		if l.Breaks {
			begin = "**More than a point, at no higher a load:** "
			if l.To == plain {
				begin = "**More than a point below the plain client:** "
			}
		}
		fmt.Fprintf(b, "\n- %s%s\n  `%s`\n", begin, l.Sentence(), l.Command)
	}
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
