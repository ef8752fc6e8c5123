package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// A graph is who calls whom.
type graph struct {
	names []string // in the order in which they are met, callers before what they call
	calls map[string][]string
	depth map[string]int // the longest way to it
}

// graph returns the scenario's map of calls.
func (s *sheet) graph() *graph {
	g := &graph{calls: map[string][]string{}, depth: map[string]int{}}
	if len(s.Sides) == 0 {
		return g
	}
	meet := func(name string) {
		if !slices.Contains(g.names, name) {
			g.names = append(g.names, name)
		}
	}
	edges := s.Sides[0].Series.Edges
	for _, e := range edges {
		meet(e.Caller)
		meet(e.Service)
		if !slices.Contains(g.calls[e.Caller], e.Service) {
			g.calls[e.Caller] = append(g.calls[e.Caller], e.Service)
		}
	}
	for range g.names { // no way is longer, and in a circle none grows for ever
		for _, e := range edges {
			g.depth[e.Service] = min(max(g.depth[e.Service], g.depth[e.Caller]+1), len(g.names)-1)
		}
	}
	return g
}

// String writes the graph on a line: what is called by several is followed once.
func (g *graph) String() string {
	followed := map[string]bool{}
	var follow func(name string) string
	follow = func(name string) string {
		to := g.calls[name]
		if followed[name] || len(to) == 0 {
			return name
		}
		followed[name] = true
		var all []string
		for _, k := range to {
			all = append(all, follow(k))
		}
		if len(all) == 1 {
			return name + " → " + all[0]
		}
		return name + " → (" + strings.Join(all, ", ") + ")"
	}
	var all []string
	for _, name := range g.names {
		if g.depth[name] == 0 {
			all = append(all, follow(name))
		}
	}
	return strings.Join(all, "; ")
}

// calls is who calls whom.
func (t *screen) calls() {
	if text := oneLine(t.graph().String()); text != "" {
		t.wrapped(faint, "calls: "+text, 2)
	}
}

// A cause is a trouble of one kind, which may come several times.
type cause struct {
	name     string
	from, to time.Duration // the first time
	until    time.Duration // the end of the last time
	times    int
	load     bool
}

// when says when it is.
func (c *cause) when() string {
	text := moment(c.from) + " to " + moment(c.to)
	if c.times > 1 {
		text += fmt.Sprintf(", %d times until %s", c.times, moment(c.until))
	}
	return text
}

// causes are the troubles, those with the same words as one.
func (s *sheet) causes() (list []*cause) {
	for _, f := range s.shades {
		i := slices.IndexFunc(list, func(c *cause) bool { return c.name == f.name })
		if i < 0 {
			list = append(list, &cause{name: f.name, from: f.from, to: f.to, until: f.to, times: 1, load: f.load})
			continue
		}
		list[i].times++
		list[i].until = max(list[i].until, f.to)
	}
	return list
}

// stays is the map of where runs stay down: load across, trigger upwards.
func (t *screen) stays() {
	m := t.Map
	if m == nil || len(m.Loads) == 0 || len(m.Triggers) == 0 {
		return
	}
	const label, cell = 9, 7
	sides := 1
	if len(m.Against) > 0 && len(t.Sides) > 1 && t.width >= 2*(label+cell*len(m.Loads))+2 {
		sides = 2
	}
	head := left("trigger ↑", label+1)
	if len(t.Sides) > 1 {
		head += t.shortName(0, cell*len(m.Loads)-12) + " "
	}
	head = left(head+"stays down", label+cell*len(m.Loads))
	if sides > 1 {
		head += "  " + left("trigger ↑", label+1) + t.shortName(1, cell*len(m.Loads)-12) + " stays down"
	}
	t.line(faint, head)
	for r := len(m.Triggers) - 1; r >= 0; r-- {
		pieces := []string{}
		for i := range sides {
			if i > 0 {
				pieces = append(pieces, "", "  ")
			}
			pieces = append(pieces, faint, left(times(m.Triggers[r]), label))
			for _, c := range t.stuckRow(i, r) {
				pieces = append(pieces, stuckColour(c.Stuck.Value), right(roughly(c.Stuck.Value), cell))
			}
		}
		t.line(pieces...)
	}
	row := left("load →", label)
	for _, load := range m.Loads {
		row += right(times(load), cell)
	}
	if sides > 1 {
		row += "  " + row
	}
	t.line(faint, row)
	t.line()
}

// stuckRow is a row of a side's map.
func (t *screen) stuckRow(i, r int) []scenario.Cell {
	cells := t.Map.Cells
	if i == 1 {
		cells = t.Map.Against
	}
	if r >= len(cells) {
		return nil
	}
	return cells[r][:min(len(cells[r]), len(t.Map.Loads))]
}

// stuckColour is the colour of a probability of staying down.
func stuckColour(p float64) string {
	switch {
	case p > 0.5:
		return red
	case p > 0:
		return amber
	}
	return ""
}
