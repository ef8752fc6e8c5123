package limits

import (
	"fmt"
	"strings"
	"time"
)

// Contenders are gabion's limit and those of others.
func Contenders() []Contender {
	return []Contender{
		{Name: "gabion"},
		{Name: "Vegas", Rule: newVegas},
		{Name: "Gradient2", Rule: newGradient2},
		{Name: "AIMD", Rule: newAIMD},
		{Name: "failsafe-go", Rule: newFailsafe},
		{Name: "aegis BBR", Rule: newBBR},
	}
}

// Best is the best fixed limit of a world, known in hindsight: of those whose goodput is
// within half a percent of the most, the one with the least latency.
func (w *World) Best(seed uint64) (limit int, best Score, err error) {
	var all []Score
	var limits []int
	most := 0.0
	for _, share := range []float64{0.5, 0.8, 0.9, 1, 1.1, 1.2, 1.35, 1.5, 2} {
		n := max(int(share*float64(w.Workers)/float64(len(w.Clients))+0.5), 1)
		s, err := w.Run(Contender{Fixed: n}, seed)
		if err != nil {
			return 0, s, err
		}
		all, limits, most = append(all, s), append(limits, n), max(most, s.Goodput)
	}
	for i, s := range all {
		if s.Goodput >= 0.995*most && (limit == 0 || s.P99 < best.P99) {
			limit, best = limits[i], s
		}
	}
	return limit, best, nil
}

// Row is a contender in all worlds.
type Row struct {
	Name   string
	Scores []Score
}

// Table is all contenders in all worlds.
type Table struct {
	Worlds []World
	Best   []Score
	Limits []int // that was best
	Rows   []Row
}

// Compare runs all that there is.
func Compare(seed uint64) (t Table, err error) {
	t.Worlds = Worlds()
	for i := range t.Worlds {
		n, best, err := t.Worlds[i].Best(seed)
		if err != nil {
			return t, err
		}
		t.Limits, t.Best = append(t.Limits, n), append(t.Best, best)
	}
	for _, c := range Contenders() {
		row := Row{Name: c.Name}
		for i := range t.Worlds {
			s, err := t.Worlds[i].Run(c, seed)
			if err != nil {
				return t, err
			}
			row.Scores = append(row.Scores, s)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// Markdown returns the table for documents: goodput as a share of the best fixed limit's, and
// the 99th percentile as a multiple of its.
func (t *Table) Markdown() string {
	var b strings.Builder
	b.WriteString("| world | best fixed limit |")
	for _, r := range t.Rows {
		fmt.Fprintf(&b, " %s |", r.Name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(t.Rows)) + "\n")
	for i, w := range t.Worlds {
		best := &t.Best[i]
		fmt.Fprintf(&b, "| %s: %s | %d: %.0f/s, %v |", w.Name, w.Says, t.Limits[i], best.Goodput, best.P99.Round(time.Millisecond))
		for k := range t.Rows {
			b.WriteString(" " + t.cell(i, k) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (t *Table) cell(world, row int) string {
	return t.Rows[row].Scores[world].against(&t.Best[world])
}

func (s *Score) against(best *Score) string {
	return fmt.Sprintf("%.1f %%, %.2f×", 100*s.Goodput/best.Goodput, s.P99.Seconds()/best.P99.Seconds())
}
