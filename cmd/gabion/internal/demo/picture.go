package demo

import (
	"fmt"
	"html"
	"os"
	"strings"
)

// scene is what is shown of a run, while it goes on or when it is over.
type scene struct {
	plan  Plan
	about string // one line about the run
	sides []sample
}

// The picture's measures, in pixels.
const (
	chartWidth  = 384 // six for each column
	chartHeight = 56
	barWidth    = chartWidth / columns
	mostTimes   = 6.0 // requests ÷ calls at the chart's top
)

// A layout is where the parts of the picture are.
type layout struct {
	width, letters       int // letters of a line above
	head, rowHeight      int // from the last line above to the first row; of a row
	phases, titles       int // above the first row
	chartLeft, chartTop  int // of a row's chart
	name, figures, small int // in a row: the lines of the name, the figures, and when the client was well again
	large                int // the size of the figures
	ends                 [3]int
	words                [3]string
}

var (
	wide = layout{
		width: 900, letters: 200, head: 50, rowHeight: 86, phases: 32, titles: 18, chartLeft: 136, name: 24, figures: 32, small: 54, large: 26,
		ends: [3]int{652, 762, 884}, words: [3]string{"answered in time", "charged twice", "requests"},
	}
	narrow = layout{ // for a phone: the chart is below the figures
		width: 400, letters: 54, head: 68, rowHeight: 116, phases: 50, titles: 8, chartLeft: 8, chartTop: 30, name: 20, figures: 20, small: 103, large: 20,
		ends: [3]int{214, 310, 384}, words: [3]string{"in time", "charged twice", "requests"},
	}
)

// The animation: the run in some seconds, and its end for some more.
const (
	played = 11 // seconds
	cycle  = 16 // seconds
	frames = columns / 2
)

// writePicture writes the run as an animated SVG.
func (r *Report) writePicture(path string) error {
	if err := r.showable(path); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(r.scene().svg(wide, true)), 0o644)
}

// svg draws the scene. Animated, it plays the run from its beginning; where animations are not
// wanted, it is the end of it.
func (s scene) svg(to layout, animated bool) string {
	var b strings.Builder
	above := append(wrap(s.about, to.letters), wrap(s.plan.wrong(), to.letters)...)
	rowTop := 34 + 20*len(above) + to.head
	height := rowTop + to.rowHeight*len(s.sides) + 44
	first, key, second := height-19, 380, height-19
	if to.chartTop > 0 { // one below the other
		key, second = 16, height
		height += 16
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img" font-family="system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif" fill="#e6e9ef">`, to.width, height, height)
	fmt.Fprintf(&b, "\n<title>One outage, four clients</title>\n<desc>%s</desc>\n", html.EscapeString(s.words()))
	if animated {
		b.WriteString(animation())
	}
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="10" fill="#12161d"/>`+"\n", to.width, height)
	write(&b, 16, 32, `font-size="20" font-weight="700"`, "One outage, four clients")
	for i, line := range above {
		write(&b, 16, 54+20*i, `font-size="13" fill="#98a2b3"`, line)
	}
	for i, title := range to.words {
		write(&b, to.ends[i], rowTop-to.titles, `font-size="13" text-anchor="end" fill="#98a2b3"`, title)
	}
	s.drawPhases(&b, to, rowTop-to.phases, 20, true)
	for i, side := range s.sides {
		s.drawSide(&b, to, side, rowTop+i*to.rowHeight, animated)
	}
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="#3fb56f"/><path d="M%d %dh16" stroke="#f4a340" stroke-width="2"/>`+"\n", 16, first-9, key, second-4)
	write(&b, 32, first, `font-size="12" fill="#98a2b3"`, "calls answered in time, by arrival; pale: not over yet")
	write(&b, key+24, second, `font-size="12" fill="#98a2b3"`, fmt.Sprintf("requests at the provider for each call, up to %.0f", mostTimes))
	b.WriteString("</svg>\n")
	return b.String()
}

// write is one piece of text.
func write(b *strings.Builder, x, y int, with, text string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" %s>%s</text>`+"\n", x, y, with, html.EscapeString(text))
}

// drawPhases shades the phases in which something is wrong, and names all if they are to be.
func (s scene) drawPhases(b *strings.Builder, at layout, top, tall int, named bool) {
	line := newTimeline(s.plan)
	for i, p := range s.plan.Phases {
		from := at.chartLeft + barWidth*line.column(p.Start)
		to := at.chartLeft + chartWidth
		if i+1 < len(s.plan.Phases) {
			to = at.chartLeft + barWidth*line.column(p.End)
		}
		if p.wrong {
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#40262c"/>`+"\n", from, top, to-from, tall)
		}
		if named {
			write(b, from+3, top+14, `font-size="12" fill="#98a2b3"`, label(p.Name, (to-from)/7))
		}
	}
}

// drawSide is one client: its name, its chart and its three figures.
func (s scene) drawSide(b *strings.Builder, to layout, side sample, top int, animated bool) {
	weight := 600
	if side.name == gabionName {
		weight = 800
	}
	write(b, 16, top+to.name, fmt.Sprintf(`font-size="17" font-weight="%d"`, weight), side.name)
	if to.chartTop == 0 {
		write(b, 16, top+44, `font-size="12" fill="#98a2b3"`, side.setup)
	}
	chart := top + to.chartTop
	s.drawPhases(b, to, chart, chartHeight, false)
	fmt.Fprintf(b, `<svg x="%d" y="%d" width="%d" height="%d">`+"\n", to.chartLeft, chart, chartWidth, chartHeight)
	path := ""
	for i, c := range side.line.cells {
		switch {
		case c.open:
			if tall := int(ratio(c.good, c.arrived)*chartHeight + 0.5); tall > 0 {
				fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="#98a2b3" fill-opacity="0.4"/>`, i*barWidth, chartHeight-tall, barWidth-1, tall)
			}
		case c.settled > 0:
			tall := max(1, int(c.share()*chartHeight+0.5))
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, i*barWidth, chartHeight-tall, barWidth-1, tall, grade(c.share()))
		}
		if c.arrived > 0 {
			times := min(ratio(c.requests, c.arrived), mostTimes)
			path += fmt.Sprintf("%c%d %.1f", "ML"[min(len(path), 1)], i*barWidth+barWidth/2, chartHeight-1-times/mostTimes*(chartHeight-2))
		}
	}
	fmt.Fprintf(b, "\n"+`<path d="%s" fill="none" stroke="#f4a340" stroke-width="2"/>`+"\n", path)
	if animated {
		fmt.Fprintf(b, `<rect class="veil" width="%d" height="%d" fill="#12161d"/>`+"\n", chartWidth, chartHeight)
	}
	b.WriteString("</svg>\n")
	fmt.Fprintf(b, `<path d="M%d %dh%d" stroke="#344054"/>`+"\n", to.chartLeft, chart+chartHeight, chartWidth)
	last := ""
	if animated {
		for n := range frames - 1 {
			writeFigures(b, to, side.figures((n+1)*columns/frames), top, fmt.Sprintf(` class="f f%d"`, n))
		}
		last = fmt.Sprintf(` class="f f%d"`, frames-1)
	}
	writeFigures(b, to, side.figures(columns), top, last)
	write(b, to.ends[2], top+to.small, `font-size="13" text-anchor="end" fill="#98a2b3"`+last, side.back)
}

// headline are a client's three figures, first and large wherever it is shown.
type headline struct {
	inTime, doubles, requests string
	share                     float64
	twice                     bool
}

// figures are those of the first columns of a run.
func (s sample) figures(first int) headline {
	var all cell
	for _, c := range s.line.cells[:first] {
		all.requests, all.doubles = all.requests+c.requests, all.doubles+c.doubles
		if !c.open {
			all.settled, all.good = all.settled+c.settled, all.good+c.good
		}
	}
	return headline{percent(all.share(), all.settled), thousands(all.doubles), thousands(all.requests), all.share(), all.doubles > 0}
}

func writeFigures(b *strings.Builder, to layout, h headline, top int, class string) {
	doubles := "#e6e9ef"
	if h.twice {
		doubles = grade(0)
	}
	for i, f := range []struct{ text, colour string }{{h.inTime, grade(h.share)}, {h.doubles, doubles}, {h.requests, "#e6e9ef"}} {
		write(b, to.ends[i], top+to.figures, fmt.Sprintf(`font-size="%d" font-weight="700" text-anchor="end" fill="%s"%s`, to.large, f.colour, class), f.text)
	}
}

// grade is a colour for a share, by the steps of the terminal.
func grade(share float64) string {
	switch {
	case share >= wellAbove:
		return "#3fb56f"
	case share >= poorBelow:
		return "#d9b13b"
	}
	return "#ef5b5b"
}

// animation plays the frames one after the other, and lifts the veils from the charts.
func animation() string {
	const end = 100.0 * played / cycle
	var b strings.Builder
	fmt.Fprintf(&b, "<style>.f{opacity:0}.f%d{opacity:1}.veil{transform:translateX(%dpx)}\n@media (prefers-reduced-motion:no-preference){\n", frames-1, chartWidth)
	fmt.Fprintf(&b, ".f{animation:%ds step-end infinite}.veil{animation:veil %ds linear infinite}\n", cycle, cycle)
	fmt.Fprintf(&b, "@keyframes veil{0%%{transform:translateX(0)}%.2f%%,100%%{transform:translateX(%dpx)}}\n", end, chartWidth)
	for n := range frames {
		from, to := end*float64(n)/frames, end*float64(n+1)/frames
		switch n {
		case 0:
			fmt.Fprintf(&b, ".f0{animation-name:f0}@keyframes f0{0%%{opacity:1}%.2f%%,100%%{opacity:0}}\n", to)
		case frames - 1:
			fmt.Fprintf(&b, ".f%d{animation-name:f%[1]d}@keyframes f%[1]d{0%%{opacity:0}%.2f%%,100%%{opacity:1}}\n", n, from)
		default:
			fmt.Fprintf(&b, ".f%d{animation-name:f%[1]d}@keyframes f%[1]d{0%%{opacity:0}%.2f%%{opacity:1}%.2f%%,100%%{opacity:0}}\n", n, from, to)
		}
	}
	b.WriteString("}</style>\n")
	return b.String()
}

// words are the picture for those who do not see it.
func (s scene) words() string {
	all := []string{strings.TrimSuffix(s.about, ".")}
	for _, side := range s.sides {
		h := side.figures(columns)
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s: %s answered in time, %s orders charged twice, %s requests at the provider; %s", side.name, h.inTime, h.doubles, h.requests, side.back), "; "))
	}
	return strings.Join(all, ". ")
}
