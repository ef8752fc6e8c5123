package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// frame is the time between two pictures of the live table.
const frame = 100 * time.Millisecond

// sample is a client's figures while it runs.
type sample struct {
	name     string
	line     timeline
	arrived  int
	judged   int // calls of which it is known whether they succeeded in time
	good     int
	open     int
	requests int
	doubles  int
}

// samples looks at all sides at once, more or less.
func (st *stage) samples() []sample {
	all := make([]sample, 0, len(st.sides))
	for _, sd := range st.sides {
		all = append(all, sd.sample(st.now()))
	}
	return all
}

func (sd *side) sample(now time.Duration) sample {
	s := sample{name: sd.client.name, open: int(sd.open.Load())}
	s.requests, s.doubles = sd.provider.sofar()
	s.line = sd.judged(now)
	for _, c := range s.line.cells {
		s.arrived, s.judged, s.good = s.arrived+c.arrived, s.judged+c.settled, s.good+c.good
	}
	return s
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
			line += right(fmt.Sprintf("%.0f %%, %d", 100*ratio(s.good, s.judged), s.doubles), cell-1)
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
	at := min(max(0, st.now()), st.plan.Total)
	phase, index := st.plan.At(at)
	head := fmt.Sprintf("%.1f s of %d s   phase %d of %d: ", at.Seconds(), st.settings.Seconds, index+1, len(st.plan.Phases))
	what := phase.Name
	if at >= st.plan.Busy() {
		head, what = fmt.Sprintf("%.1f s of %d s   ", at.Seconds(), st.settings.Seconds), "waiting for the last calls"
	}
	lines := []string{"", "  " + head + p.bold(what), "  " + p.dim(saysNow(phase, at, st.plan)), ""}
	all := st.samples()
	names, rows := make([]string, len(all)), make([]timeline, len(all))
	for i, s := range all {
		names[i], rows[i] = s.name, s.line
	}
	lines = append(lines, chart(st.plan, names, rows, p)...)
	lines = append(lines, "", p.dim("  so far          in time   attempts ÷ calls   charged twice   calls open"))
	for _, s := range all {
		lines = append(lines, s.row(p))
	}
	return lines
}

func saysNow(phase Phase, at time.Duration, plan Plan) string {
	if at >= plan.Busy() {
		return "no new ones arrive"
	}
	return phase.says()
}

func (s sample) row(p paint) string {
	share := ratio(s.good, s.judged)
	return "  " + left(s.name, 13) +
		p.grade(share, right(fmt.Sprintf("%.0f %%", 100*share), 10)) +
		right(fmt.Sprintf("%.2f", ratio(s.requests, s.arrived)), 19) +
		right(fmt.Sprint(s.doubles), 16) +
		right(fmt.Sprint(s.open), 13)
}

// chart draws the timelines under a ruler of phases.
func chart(plan Plan, names []string, lines []timeline, p paint) []string {
	rows := []string{p.dim("  in time      " + ruler(plan))}
	for i, name := range names {
		row := "  " + left(name, 13)
		for _, c := range lines[i].cells {
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
		row += left(fit(phase.Name, end-line.column(phase.Start)-1), end-line.column(phase.Start))
	}
	return row
}

// fit shortens a name: whole, or its first word, or as much as there is room for.
func fit(name string, width int) string {
	if len(name) > width {
		name, _, _ = strings.Cut(name, " ")
	}
	return name[:max(0, min(len(name), width))]
}
