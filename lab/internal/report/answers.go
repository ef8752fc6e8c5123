package report

import (
	"slices"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// resent has a row for each answer of which a scenario says how often it comes: how much was sent again after it, by each side. It reports whether there
// is any.
func (t *screen) resent() bool {
	phase := whole
	if slices.ContainsFunc(t.Sides[0].Phases, func(ph scenario.Phase) bool { return ph.Name == during }) {
		phase = during
	}
	const nameWidth = 30
	column := min((t.width-nameWidth)/len(t.Sides), 24)
	begun := false
	for _, m := range t.metricsOf(0, phase) {
		if !strings.HasPrefix(m.Key, scenario.ResentKey) {
			continue
		}
		if head := strings.Repeat(" ", nameWidth); !begun {
			begun = true
			for i := range t.Sides {
				head += right(t.shortName(i, column-1), column)
			}
			t.line(faint, head)
		}
		row := ""
		for i := range t.Sides {
			for _, of := range t.metricsOf(i, phase) {
				if of.Key == m.Key && of.Of == m.Of {
					row += right(value(&of), column)
				}
			}
		}
		t.line("", left(oneLine(m.Name), nameWidth), "", row)
	}
	if begun {
		t.line()
	}
	return begun
}
