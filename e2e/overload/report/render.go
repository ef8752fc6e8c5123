package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gabion-go/gabion/e2e/overload"
	"github.com/gabion-go/gabion/internal/report"
)

// page is docs/overload.md while it is written.
type page struct{ report.Page }

func render(f figures) string {
	p := new(page)
	p.Line("# Overload")
	p.Line("")
	p.Line("<!-- Written by `make overload`, never by hand. A test reads it back. -->")
	p.Line("")
	w := overload.Large
	p.Line("What becomes of a server that gets more requests than it can serve, with and without protection. The server is real and is called over loopback. "+
		"It has %d workers, each busy for %s with a request, so it can serve %.0f requests a second. Up to %d requests wait for a worker. "+
		"A caller waits %s for an answer, and %s in all if it tries again. The server does the work of callers who have gone too, as most servers do.",
		w.Workers, w.Work, w.Capacity(), w.Queue, overload.Patience, overload.CallTime)
	p.Line("")
	p.shows(f)
	long, short := f.of(overload.Large.Trigger), f.of(overload.Short)
	p.runs(fmt.Sprintf("%s at %g times the capacity", spell(overload.Large.Trigger), w.Peak), long)
	p.runs("A spike of "+spell(overload.Short), short)
	p.Line("That it is an overload is known after a second, in which requests wait for up to a second. In a short spike these make the p99. A goodput above 100 %% is of calls that were " +
		"due in the spike and made after it: clients with the defaults space their calls when they are refused.")
	p.Line("")
	p.targets(f)
	p.lab(f)
	p.method(f)
	return p.Text()
}

// shows says in words what the tables show, with their figures.
func (p *page) shows(f figures) {
	long := map[overload.Case]overload.Result{}
	least, most, slowest := 1.0, 0.0, 0.0
	for _, r := range f.of(overload.Large.Trigger) {
		long[r.Case] = r
		if r.Case.Admits() {
			least, most, slowest = min(least, r.Real.Trigger.Goodput), max(most, times(r)), max(slowest, endless(r.Real.Recovery))
		}
	}
	once, ok1 := long[overload.Case{Server: overload.Bare, Callers: overload.Plain}]
	naive, ok2 := long[overload.Case{Server: overload.Bare, Callers: overload.Naive}]
	limited, ok3 := long[overload.Case{Server: overload.Bare, Callers: overload.Limited}]
	if !ok1 || !ok2 || !ok3 || most == 0 {
		return // only some of it was run
	}
	p.Line("* **Without protection** the server answers %s of its capacity in time. It is busy all the time, with work for callers who have gone. When the load is "+
		"normal again, callers who try once are answered as before after %s, when the queue is worked off. Callers who try three times at once keep it full: recovery, %s.",
		percent(once.Real.Trigger.Goodput), recovered(once.Real.Recovery), recovered(naive.Real.Recovery))
	p.Line("* **With admission** the server works at %s of its capacity or more, whatever its callers do, and the p99 of what it lets in is at most %s times that of an idle server. "+
		"It recovers within %s. What it can't do it refuses at once.", percent(least), report.Decimals(most), recovered(slowest))
	p.Line("* **Clients that learn a limit** keep a server without admission at %s of its capacity. They see nothing of its queue but how long they wait, so they keep it longer: the p99 is %s times that of an idle server.",
		percent(limited.Real.Trigger.Goodput), report.Decimals(times(limited)))
	p.Line("")
}

// of are the results of the runs with such a trigger, in the order of the plan.
func (f *figures) of(trigger time.Duration) (all []overload.Result) {
	for _, p := range plan() {
		if !strings.HasSuffix(p.name, "/"+trigger.String()) {
			continue
		}
		for _, r := range f.Results {
			if r.Name == p.name {
				all = append(all, r)
			}
		}
	}
	return all
}

func spell(d time.Duration) string {
	if d >= time.Minute {
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	return fmt.Sprintf("%.0f seconds", d.Seconds())
}

// runs is a table of runs.
func (p *page) runs(title string, all []overload.Result) {
	if len(all) == 0 {
		return
	}
	p.Line("## %s", title)
	p.Line("")
	p.Table(2, "server", "callers", "goodput", "p99 ms", "of an idle server's", "attempts a call", "wasted work", "goodput afterwards", "recovery")
	for _, r := range all {
		t := r.Real.Trigger
		p.Cells(words["server "+string(r.Case.Server)], words[r.Case.Callers], percent(t.Goodput), some(t.Admitted, ""), some(times(r), "×"),
			report.Decimals(t.PerCall), percent(r.Real.Wasted), percent(r.Real.After.Goodput), recovered(r.Real.Recovery))
	}
	p.Line("")
}

// words are the names of servers and callers for people.
var words = map[string]string{
	"server " + string(overload.Bare):    "no protection",
	"server " + string(overload.Fixed):   "admission, as many as workers",
	"server " + string(overload.Learned): "admission, learned limit",
	overload.Plain:                       "one try",
	overload.Naive:                       "three tries at once",
	overload.Default:                     "gabion's defaults",
	overload.Limited:                     "defaults, learned limit",
}

// times is the p99 of what was admitted as a multiple of that of an idle server.
func times(r overload.Result) float64 { return r.Real.Trigger.Admitted / (float64(r.Ping.P99) / 1e6) }

func recovered(seconds float64) string {
	if seconds == overload.Never {
		return "never"
	}
	return report.Decimals(seconds) + " s"
}

// A target is a bound and what was measured of what it bounds.
type target struct {
	report.Target
	measured float64
}

// targets are the bounds of all runs: protected servers serve nine tenths of their
// capacity, soon enough, and recover; the unprotected one does not, or there would be nothing to
// protect.
func (f *figures) targets() (all []target) {
	long, short := f.of(overload.Large.Trigger), f.of(overload.Short)
	for _, r := range long {
		name := title(r)
		t := r.Real.Trigger
		switch {
		case r.Case == overload.Case{Server: overload.Bare, Callers: overload.Plain}:
			all = append(all, target{report.Target{What: name + ": goodput, for comparison", Bound: 5, Unit: " %"}, 100 * t.Goodput})
		case r.Case.Admits():
			all = append(all, target{report.Target{What: name + ": goodput", Least: true, Bound: 90, Unit: " %"}, 100 * t.Goodput},
				target{report.Target{What: name + ": p99 of an idle server's", Bound: 2, Unit: "×"}, times(r)})
		}
	}
	for _, r := range append(long, short...) {
		if r.Case.Admits() {
			all = append(all, target{report.Target{What: fmt.Sprintf("%s, %s: recovery", title(r), spell(r.World.Trigger)), Bound: 5, Unit: " s"}, endless(r.Real.Recovery)})
		}
	}
	return all
}

func title(r overload.Result) string {
	return words["server "+string(r.Case.Server)] + ", " + words[r.Case.Callers]
}

func endless(recovery float64) float64 {
	if recovery == overload.Never {
		return math.Inf(1)
	}
	return recovery
}

func (p *page) targets(f figures) {
	p.Line("## Targets")
	p.Line("")
	p.Table(1, "", "measured", "target", "")
	for _, t := range f.targets() {
		p.Cells(t.Cells(t.measured, true)...)
	}
	p.Line("")
}

// lab compares with what the lab said.
func (p *page) lab(f figures) {
	p.Line("## What the lab said")
	p.Line("")
	p.Line("The same cases as scenarios: the same policies, and calls at the same times. Each cell is the real run and the lab. " +
		"The lab is said to be within 5 points of the capacity for goodput, within 5 %% for attempts and within 15 %% for p99 (25 %% in the trouble) ([lab.md](lab.md#how-far-to-believe-it)).")
	p.Line("")
	p.Table(3, "server", "callers", "overload", "goodput", "goodput afterwards", "attempts a call", "p99 before", "p99", "recovery", "off by more")
	for _, r := range append(f.of(overload.Large.Trigger), f.of(overload.Short)...) {
		all := overload.Compare(r.Lab, r.Real)
		row := []string{words["server "+string(r.Case.Server)], words[r.Case.Callers], spell(r.World.Trigger)}
		for _, what := range overload.Compared {
			cell := "–"
			for _, d := range all {
				if d.What == what {
					cell = shown(d)
				}
			}
			row = append(row, cell)
		}
		p.Cells(append(row, wrong(all))...)
	}
	p.Line("")
}

// wrong names the figures of which the lab is off by more than it is said to be.
func wrong(all []overload.Deviation) string {
	var names []string
	for _, d := range all {
		if d.Wrong() {
			names = append(names, "**"+d.What+"**")
		}
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func shown(d overload.Deviation) string {
	switch d.Kind {
	case overload.Points:
		return percent(d.Real) + ", " + percent(d.Lab)
	case overload.Seconds:
		return recovered(d.Real) + ", " + recovered(d.Lab)
	}
	return report.Decimals(d.Real) + ", " + report.Decimals(d.Lab)
}

func (p *page) method(f figures) {
	w := overload.Large
	p.Line("## How it is measured")
	p.Line("")
	p.Line("`%s`. Each run is a process of its own, with the server and its callers; %d at a time. After %d requests to the idle server, the load is %.0f %% of the capacity for %s, "+
		"%.0f %% for the time of the overload, and %.0f %% again for %s. Calls come at random (Poisson), at times that do not depend on what became of others. "+
		"A call's time counts from when it was due, and %d clients make them, each knowing of its own calls only.",
		f.Command, f.AtOnce, w.Pings, 100*w.Base, w.Before, 100*w.Peak, 100*w.Base, w.After, w.Clients)
	p.Line("")
	p.Line("*Goodput* is the calls that were answered in time, in percent of what the server can serve. *p99* is of the attempts that were answered well, while the overload lasts. " +
		"*Recovery* is the time from the end of the overload until the last second in which fewer calls than before ended well (less than 99 %% of the share, beyond chance). " +
		"*Wasted work* is the share of all work whose caller had gone.")
	p.Line("")
	p.Line("%s, %d processors, %s, %s. %s", f.CPU, f.Processors, f.System, f.Go, f.Note)
	p.Line("")
	p.Table(1, "run", "processor", "timers late, one in ten", "timers late, at most", "load of the machine")
	for _, r := range append(f.of(overload.Large.Trigger), f.of(overload.Short)...) {
		p.Cells(r.Name, percent(r.CPU.Seconds()/r.Took.Seconds()), report.Decimals(float64(r.Late.Usual)/1e6)+" ms", report.Decimals(float64(r.Late.Most)/1e6)+" ms", r.Load)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// some is a figure that may be missing.
func some(v float64, unit string) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return report.Decimals(v) + unit
}
