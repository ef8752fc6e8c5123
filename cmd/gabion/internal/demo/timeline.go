package demo

import "time"

// columns is how many stretches of time a timeline has: one character each.
const columns = 64

// timeline counts calls by the stretch of time in which they arrived. Not safe
// for concurrent use.
type timeline struct {
	width time.Duration // of one column
	cells [columns]cell
}

// cell is what is known of the calls that arrived in one column, and what happened at the
// provider at that time.
type cell struct {
	arrived, settled, good, requests, doubles int
	open                                      bool // calls of it may still succeed, and their clients are not behind
}

func newTimeline(plan Plan) timeline { return timeline{width: plan.Busy()/columns + 1} }

func (l *timeline) arrive(at time.Duration) { l.cells[l.column(at)].arrived++ }

func (l *timeline) settle(at time.Duration, good bool) {
	c := &l.cells[l.column(at)]
	c.settled++
	if good {
		c.good++
	}
}

func (l *timeline) column(at time.Duration) int {
	return max(0, min(columns-1, int(at/l.width)))
}

// judged is the timeline as it stands at now: calls that are still out when their
// time is over have not succeeded in it, whatever becomes of them. Before that their column is open. What fails at once would
// count there, and what is tried in vain for long would not.
func (l timeline) judged(now time.Duration) timeline {
	for i := range l.cells {
		c := &l.cells[i]
		if time.Duration(i+1)*l.width+inTime <= now {
			c.settled = max(c.settled, c.arrived)
		}
		c.open = c.settled < c.arrived
	}
	return l
}

// closed is a timeline of a run that is over: calls that it left behind count for nothing.
func (l timeline) closed() timeline {
	for i := range l.cells {
		l.cells[i].open = false
	}
	return l
}

// bars are the heights of a column, from nothing to everything.
var bars = []rune("▁▂▃▄▅▆▇█")

// bar is the column's character: its share of calls that succeeded in time, of
// those of which it is known.
func (c cell) bar() rune {
	switch {
	case c.arrived == 0:
		return ' '
	case c.settled == 0 || c.open:
		return '·'
	}
	return bars[c.good*(len(bars)-1)/c.settled]
}

// share is the part of the calls that succeeded in time, of those of which it is
// known.
func (c cell) share() float64 { return ratio(c.good, c.settled) }

// ratio is a ÷ b, and 0 when nothing was counted.
func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
