package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// vulnerable is where runs stay down: load across, trigger upwards.
func (s *sheet) vulnerable() *node {
	m := s.Map
	if m == nil || len(m.Loads) == 0 || len(m.Triggers) == 0 {
		return nil
	}
	panels := el("div", "class", "panels n"+strconv.Itoa(len(s.Sides)))
	for i := range s.Sides {
		cells := m.Cells
		if i == 1 {
			cells = m.Against
		}
		if len(cells) > 0 {
			panels.add(s.panel(i, s.heat(m, cells, i)))
		}
	}
	note := fmt.Sprintf("The probability that goodput stays down after the trouble, from %s for each field. Load and trigger are multiples of the scenario's own, which is the framed field. "+
		"Point at a field for its interval.", counted(m.Replications, "run"))
	return section("map", "Where it stays down", words("p", "note", note), panels)
}

const (
	cellHeight = 38
	heatLeft   = 12.0 // percent of the width, for the triggers' labels
)

func (s *sheet) heat(m *scenario.Map, cells [][]scenario.Cell, i int) *node {
	rows := min(len(cells), len(m.Triggers))
	height := float64(cellHeight*rows) + 44
	about := "Load, trigger and the probability of staying down."
	for r := range rows {
		for c := range min(len(cells[r]), len(m.Loads)) {
			about += fmt.Sprintf(" Load %s, trigger %s: %s.", times(m.Loads[c]), times(m.Triggers[r]), stuckCell(&cells[r][c]))
		}
	}
	out := picture("map-"+strconv.Itoa(i), "Probability of staying down"+s.of(i), about, height)
	out.attr = append(out.attr, "class", "heat")
	for r := range rows {
		y := float64(cellHeight * (rows - 1 - r))
		out.add(place(percentage(heatLeft/100), y+cellHeight/2+4, "-8", "end", "tick", times(m.Triggers[r])))
		for c := range min(len(cells[r]), len(m.Loads)) {
			out.add(heatCell(m, &cells[r][c], r, c, y)...)
		}
	}
	for c, load := range m.Loads {
		x, w := heatPlace(m, c)
		out.add(place(percentage((x+w/2)/100), float64(cellHeight*rows)+18, "0", "middle", "tick", times(load)))
	}
	return out.add(place("0", height-4, "0", "start", "unit", "trigger ↑"), place(percentage((heatLeft+100)/200), height-4, "0", "middle", "unit", "load →"))
}

// heatPlace returns where a column begins and how wide it is, in percent.
func heatPlace(m *scenario.Map, c int) (x, w float64) {
	w = (100 - heatLeft) / float64(len(m.Loads))
	return heatLeft + float64(float64(c)*w), w
}

func heatCell(m *scenario.Map, cell *scenario.Cell, r, c int, y float64) []*node {
	x, w := heatPlace(m, c)
	p := cell.Stuck.Value
	text := roughly(p)
	class, ink := "cell", "celltext"
	if m.Loads[c] == 1 && m.Triggers[r] == 1 {
		class = "cell here"
	}
	switch { // what can be read on it
	case p > 0.8:
		ink = "celltext full"
	case p > 0.5:
		ink = "celltext half"
	}
	box := el("rect", "class", class, "x", percentage(x/100), "y", coordinate(y+1), "width", percentage((w-0.4)/100), "height", strconv.Itoa(cellHeight-2), "rx", "3",
		"fill-opacity", strconv.FormatFloat(opacity(p), 'f', 3, 64))
	box.add(words("title", "", fmt.Sprintf("load %s, trigger %s: stays down with %s; goodput after it %s", times(m.Loads[c]), times(m.Triggers[r]), stuckCell(cell), percent(float64(cell.Goodput)))))
	return []*node{box, place(percentage((x+w/2)/100), y+cellHeight/2+4, "0", "middle", ink, text)}
}

// roughly writes a probability in whole percent.
func roughly(p float64) string {
	if math.IsNaN(p) {
		return none
	}
	return strconv.FormatFloat(100*p, 'f', 0, 64) + " %"
}

// opacity is that of a probability; one that is unknown has no colour.
func opacity(p float64) float64 {
	if math.IsNaN(p) {
		return 0
	}
	return 0.05 + float64(0.95*max(min(p, 1), 0))
}

func stuckCell(c *scenario.Cell) string {
	if interval := between(c.Stuck, scenario.Share, measure); interval != "" {
		return percent(c.Stuck.Value) + " (" + interval + ")"
	}
	return percent(c.Stuck.Value)
}

func times(x float64) string { return "× " + figure(x) }
