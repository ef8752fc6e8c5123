package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// frame is the time between two pictures of the live table.
const frame = 100 * time.Millisecond

// sample is a client's figures, while it runs or when it is over.
type sample struct {
	name, setup string
	line        timeline
	open        int
	back        string // when it was well again after the outage; empty while that is not known
}

// samples looks at all sides at once, more or less.
func (st *stage) samples() []sample {
	all := make([]sample, 0, len(st.sides))
	for _, sd := range st.sides {
		all = append(all, sample{name: sd.client.name, setup: sd.client.setup, open: int(sd.open.Load()), line: sd.judged(st.now())})
	}
	return all
}

// scene is what there is to see now.
func (st *stage) scene() scene { return scene{plan: st.plan, about: st.about(), sides: st.samples()} }

// about says what happens, and how far it is.
func (st *stage) about() string {
	at := min(max(0, st.now()), st.plan.Total)
	phase, index := st.plan.At(at)
	head := fmt.Sprintf("%.1f s of %.0f s", at.Seconds(), st.plan.Total.Seconds())
	if at >= st.plan.Busy() {
		return head + ": waiting for the last calls"
	}
	return fmt.Sprintf("%s, phase %d of %d: %s", head, index+1, len(st.plan.Phases), phase.says)
}

// watch shows the run until it is over.
func (st *stage) watch(w io.Writer, scr screen) {
	if scr.live {
		st.draw(w, scr.paint)
		return
	}
	st.tell(w)
}

// draw paints the live table, each picture over the last, and wipes it at the end.
func (st *stage) draw(w io.Writer, p paint) {
	const hide, show = "\x1b[?25l", "\x1b[?25h"
	fmt.Fprint(w, hide)
	defer fmt.Fprint(w, show)
	lines := 0
	st.every(frame, func() {
		picture := st.picture(p)
		fmt.Fprint(w, up(lines)+strings.Join(picture, "\x1b[K\n")+"\x1b[K\n")
		lines = len(picture)
	})
	fmt.Fprint(w, up(lines)+"\x1b[J")
}

// up moves the cursor to the start of the line n lines above.
func up(n int) string {
	if n == 0 {
		return "\r"
	}
	return fmt.Sprintf("\x1b[%dA\r", n)
}

// tell prints a plain line now and then: of each client, how many calls succeeded in
// time, and how many orders were charged twice.
func (st *stage) tell(w io.Writer) {
	const cell = 14
	head := left("  in time, charged twice", 26)
	for _, sd := range st.sides {
		head += right(sd.client.name, cell-1)
	}
	fmt.Fprintln(w, head)
	interval := min(10*time.Second, max(500*time.Millisecond, st.plan.Total/16))
	st.every(interval, func() {
		at := max(0, st.now())
		line := fmt.Sprintf("%8.1f s  %s", at.Seconds(), left(st.phaseName(at), 14))
		for _, s := range st.samples() {
			h := s.figures(columns)
			line += right(fmt.Sprintf("%.0f %%, %s", 100*h.share, h.doubles), cell-1)
		}
		fmt.Fprintln(w, line)
	})
}

// every calls do at once and then at each interval until the play is over.
func (st *stage) every(interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-st.done:
			return
		case <-ticker.C:
		}
	}
}

func (st *stage) phaseName(at time.Duration) string {
	if at >= st.plan.Busy() {
		return "last calls"
	}
	phase, _ := st.plan.At(at)
	return phase.Name
}

// picture is the live table.
func (st *stage) picture(p paint) []string {
	all := st.samples()
	lines := append([]string{""}, headlines(all, p)...)
	lines = append(lines, "")
	lines = append(lines, chart(st.plan, all, p)...)
	lines = append(lines, "")
	for i, line := range wrap(st.about(), minWidth-4) {
		if i == 0 {
			line = p.bold(line)
		}
		lines = append(lines, "  "+line)
	}
	return lines
}

// headlines are the figures that come first: what became of the calls, the money and the
// provider.
func headlines(all []sample, p paint) []string {
	lines := []string{p.dim("  " + left("", 13) + right("answered in time", 16) + right("charged twice", 15) + right("requests", 11) + right("after the outage", 21))}
	for _, s := range all {
		h := s.figures(columns)
		doubles := right(h.doubles, 15)
		if h.twice {
			doubles = p.red(doubles)
		}
		lines = append(lines, "  "+p.bold(left(s.name, 13))+p.bold(p.grade(h.share, right(h.inTime, 16)))+p.bold(doubles)+p.bold(right(h.requests, 11))+right(s.back, 21))
	}
	return lines
}

// chart draws the timelines under a ruler of phases.
func chart(plan Plan, all []sample, p paint) []string {
	rows := []string{p.dim("  in time      " + ruler(plan))}
	for _, s := range all {
		row := "  " + left(s.name, 13)
		for _, c := range s.line.cells {
			row += p.grade(c.share(), string(c.bar()))
		}
		rows = append(rows, row)
	}
	return rows
}

// ruler names the phases above the columns in which they begin.
func ruler(plan Plan) string {
	line := newTimeline(plan)
	row := ""
	for i, phase := range plan.Phases {
		end := columns
		if i+1 < len(plan.Phases) {
			end = line.column(plan.Phases[i+1].Start)
		}
		row += left(label(phase.Name, end-line.column(phase.Start)-1), end-line.column(phase.Start))
	}
	return row
}

// label is what fits of a phase's name, and nothing where that is part of a word.
func label(name string, width int) string {
	s := fit(name, width)
	if !strings.HasPrefix(name+" ", s+" ") {
		return ""
	}
	return s
}

// fit shortens a name: whole, or its first word, or as much as there is room for.
func fit(name string, width int) string {
	if len(name) > width {
		name, _, _ = strings.Cut(name, " ")
	}
	return name[:max(0, min(len(name), width))]
}
