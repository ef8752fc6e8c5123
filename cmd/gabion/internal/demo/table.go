package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// lateEnough is how late, in milliseconds, calls may start before the report says
// that the machine is too busy to compare anything: a twentieth of the time that they have.
const lateEnough = 100

// judgeable is the shortest run, in seconds, whose figures are more than chance
// and its own edges.
const judgeable = 15

const (
	labelWidth  = 34
	figureWidth = 11
)

// figure is one row of the final table.
type figure struct {
	label string
	text  func(ClientReport) string
	value func(ClientReport) float64 // less is better; nil if the figure has no best
}

// figures are the rows, in the order in which people ask.
var figures = []figure{
	{"answered in time", func(c ClientReport) string { return percent(c.share(), c.Calls-c.Undecided) }, func(c ClientReport) float64 { return -c.share() }},
	{"orders charged twice or more", func(c ClientReport) string { return thousands(c.DoubleCharges) }, func(c ClientReport) float64 { return float64(c.DoubleCharges) }},
	{"requests at the provider", func(c ClientReport) string { return thousands(c.Attempts) }, func(c ClientReport) float64 { return float64(c.Attempts) }},
	{"well again after the outage", recoveryText, recoveryValue},
	{"attempts ÷ calls in the outage", func(c ClientReport) string { return fmt.Sprintf("%.2f", c.Amplification) }, func(c ClientReport) float64 { return c.Amplification }},
	{"charged, but caller got an error", func(c ClientReport) string { return thousands(c.ChargedNotTold) }, func(c ClientReport) float64 { return float64(c.ChargedNotTold) }},
	{"p50", func(c ClientReport) string { return duration(c.P50) }, func(c ClientReport) float64 { return c.P50 }},
	{"p99", func(c ClientReport) string { return duration(c.P99) }, func(c ClientReport) float64 { return c.P99 }},
	{"last retry after the outage", func(c ClientReport) string { return fmt.Sprintf("%.1f s", c.RetryTailS) }, func(c ClientReport) float64 { return c.RetryTailS }},
	{"calls", func(c ClientReport) string { return thousands(c.Calls) }, nil},
	{"set up as", func(c ClientReport) string { return c.Setup }, nil},
	{"sends a key with each order", func(c ClientReport) string { return yesNo(c.Keyed) }, nil},
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func recoveryText(c ClientReport) string {
	if !c.Recovered {
		return "never"
	}
	return fmt.Sprintf("%.1f s", c.RecoveryS)
}

func recoveryValue(c ClientReport) float64 {
	if !c.Recovered {
		return 1e9
	}
	return c.RecoveryS
}

// printTable writes the report for people.
func (r *Report) printTable(w io.Writer, p paint) {
	if r.Interrupted {
		fmt.Fprintln(w, p.amber("\n  Interrupted: this is what was seen until then, and not a comparison."))
	}
	if r.Seconds < judgeable {
		fmt.Fprintln(w, p.amber("\n  too short to judge: a plan whose phases last longer tells more"))
	}
	fmt.Fprintln(w)
	all := r.samples()
	for _, line := range append(append(headlines(all, p), ""), chart(r.plan, all, p)...) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	r.printFigures(w, p)
	fmt.Fprintln(w)
	r.printPhases(w, p)
	r.printNotes(w, p)
}

// samples are the clients as they were in the end.
func (r *Report) samples() []sample {
	all := make([]sample, len(r.Clients))
	for i, c := range r.Clients {
		all[i] = sample{name: c.Name, setup: c.Setup, line: r.lines[i], back: r.back(c)}
	}
	return all
}

// back says in words when a client's calls were well again after the outage.
func (r *Report) back(c ClientReport) string {
	switch {
	case r.Interrupted && !c.Recovered:
		return ""
	case !c.Recovered:
		return "never well again"
	case c.RecoveryS == 0:
		return "well again at once"
	}
	return fmt.Sprintf("well again in %.1f s", c.RecoveryS)
}

// scene is the run as it was in the end.
func (r *Report) scene() scene {
	capacity := "any number"
	if r.CapacityPerSec > 0 {
		capacity = fmt.Sprintf("%.0f", r.CapacityPerSec)
	}
	return scene{plan: r.plan, sides: r.samples(), about: fmt.Sprintf("%d orders a second, to be charged within %.0f s; each client's provider can do %s a second. Plan %s, seed %d.",
		r.CallsPerSec, r.InTimeMS/1000, capacity, r.Plan, r.Seed)}
}

func (r *Report) names() []string {
	names := make([]string, len(r.Clients))
	for i, c := range r.Clients {
		names[i] = c.Name
	}
	return names
}

// printFigures writes the figures of all clients, 80 columns wide.
func (r *Report) printFigures(w io.Writer, p paint) {
	head := left("", labelWidth)
	for _, name := range r.names() {
		head += right(name, figureWidth)
	}
	fmt.Fprintln(w, "  "+p.bold(head))
	for _, f := range figures {
		row := left(f.label, labelWidth)
		for _, c := range r.Clients {
			text := right(f.text(c), figureWidth)
			if r.Interrupted && text == right("never", figureWidth) {
				text = right("not seen", figureWidth)
			}
			if !r.Interrupted && r.best(f, c) {
				text = p.bold(p.green(text))
			}
			row += text
		}
		fmt.Fprintln(w, "  "+row)
	}
}

// best reports whether no client does better than c, and at least one does worse.
func (r *Report) best(f figure, c ClientReport) bool {
	if f.value == nil {
		return false
	}
	worse := false
	for _, other := range r.Clients {
		if f.value(other) < f.value(c) {
			return false
		}
		worse = worse || f.value(other) > f.value(c)
	}
	return worse
}

func (r *Report) printPhases(w io.Writer, p paint) {
	const width, cell = 14, 8
	block := cell * len(r.Clients)
	group := strings.Repeat(" ", width) + right("answered in time", block) + right("attempts ÷ calls", block)
	head := left("phase", width)
	for range 2 {
		for _, name := range r.names() {
			head += right(fit(name, cell-1), cell)
		}
	}
	fmt.Fprintln(w, "  "+p.dim(group))
	fmt.Fprintln(w, "  "+p.bold(head))
	for i, phase := range r.Phases {
		shares, factors := "", ""
		for _, c := range r.Clients {
			ph := c.Phases[i]
			shares += p.grade(ph.share(), right(ph.text(), cell))
			factors += right(fmt.Sprintf("%.2f", ph.Amplification), cell)
		}
		fmt.Fprintln(w, "  "+left(phase.Name, width)+shares+factors)
	}
}

// printNotes says what the table can't: what does not add up, where gabion is
// behind, and how things are counted.
func (r *Report) printNotes(w io.Writer, p paint) {
	if list := r.contradictions(); len(list) > 0 {
		paragraph(w, p.red("Something is wrong:"), list)
	}
	if !r.Interrupted {
		paragraph(w, p.bold("Where gabion is behind:"), r.behind())
	}
	counted := []string{
		fmt.Sprintf("In time is a success within %.0f s of the moment the call was meant to start. p50 and p99 are over all calls, failed ones too, from that moment.", r.InTimeMS/1000),
		"Attempts are the requests that reached the provider. Charges are read from its ledger file after the run; it works on for callers who have left.",
		fmt.Sprintf("A client is well again when the calls answered in time, by half-second of arrival, are at %.0f %% of the healthy start or more and stay there.", 100*nearness),
		"A retry is any request after an order's first.",
	}
	for _, c := range r.Clients {
		if c.Hidden > 0 {
			counted = append(counted, fmt.Sprintf("%s of the attempts of %s are net/http's own: it sends a request with a key again when a kept connection breaks, whatever client library calls it; only %[2]s counts that.", thousands(int(c.Hidden)), c.Name))
		}
	}
	paragraph(w, p.bold("How it is counted:"), counted)
}

func paragraph(w io.Writer, title string, items []string) {
	fmt.Fprintln(w, "\n  "+title)
	for _, item := range items {
		for i, line := range wrap(item, minWidth-6) {
			bullet := "    "
			if i == 0 {
				bullet = "  · "
			}
			fmt.Fprintln(w, bullet+line)
		}
	}
}

// behind lists what another client does better than gabion, by more than a
// percentage point or a twentieth.
func (r *Report) behind() []string {
	self := slices.IndexFunc(r.Clients, func(c ClientReport) bool { return c.Name == gabionName })
	if self < 0 {
		return nil
	}
	mine := r.Clients[self]
	var list []string
	for _, f := range figures {
		if best := r.leader(f); f.value != nil && clearlyLess(f.value(best), f.value(mine)) {
			list = append(list, fmt.Sprintf("%s: %s, against %s (%s).", f.label, f.text(mine), f.text(best), best.Name))
		}
	}
	for i, ph := range mine.Phases {
		best := r.leaderIn(i)
		theirs := best.Phases[i]
		if theirs.share() > ph.share()+0.01 {
			list = append(list, fmt.Sprintf("%s: %s in time with %.2f attempts a call, against %s with %.2f (%s).", ph.Name,
				ph.text(), ph.Amplification, theirs.text(), theirs.Amplification, best.Name))
		}
	}
	if len(list) == 0 {
		return []string{"in nothing that these tables show, in this run."}
	}
	return list
}

// leader is the client that is best in f.
func (r *Report) leader(f figure) ClientReport {
	best := r.Clients[0]
	for _, c := range r.Clients {
		if f.value != nil && f.value(c) < f.value(best) {
			best = c
		}
	}
	return best
}

// leaderIn is the client with the most success in phase i.
func (r *Report) leaderIn(i int) ClientReport {
	return slices.MaxFunc(r.Clients, func(a, b ClientReport) int { return cmp.Compare(a.Phases[i].share(), b.Phases[i].share()) })
}

// clearlyLess keeps noise out of the list.
func clearlyLess(a, b float64) bool { return b-a > max(0.01, 0.05*abs(b)) || (b < 0 && b-a > 0.01) }

func abs(x float64) float64 { return max(x, -x) }

// contradictions are what no client should ever show.
func (r *Report) contradictions() []string {
	var list []string
	for _, c := range r.Clients {
		if c.ToldNotCharged > 0 {
			list = append(list, fmt.Sprintf("%s reported %d orders as charged that are not in the ledger.", c.Name, c.ToldNotCharged))
		}
		if c.ChargedAndDenied > 0 {
			list = append(list, fmt.Sprintf("%s said of %d orders that nothing happened, and they are in the ledger.", c.Name, c.ChargedAndDenied))
		}
	}
	if r.LateP99 > lateEnough {
		list = append(list, fmt.Sprintf("this machine was busy: one call in a hundred started %s late or more, so that the figures are partly its own.", duration(r.LateP99)))
	}
	if r.Left > 0 {
		list = append(list, fmt.Sprintf("%s did not end within %s of the cancellation.", cli.Count(r.Left, "call"), lastCalls))
	}
	return list
}

func (p PhaseReport) text() string { return percent(p.share(), p.Calls-p.Undecided) }

// percent writes a share, unless nothing was counted.
func percent(share float64, counted int) string {
	if counted == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// duration writes milliseconds for people.
func duration(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
