package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/e2e/bench"
	"github.com/gabion-go/gabion/internal/report"
)

// page is docs/performance.md while it is written.
type page struct {
	report.Page
	r *results
}

// render writes docs/performance.md: what a reader wants to know first.
func render(r *results, m machine) string {
	p := &page{r: r}
	p.Line("# Performance")
	p.Line("")
	p.Line("<!-- Written by `make bench`, never by hand. A test compares this file with itself and with README.md. -->")
	p.Line("")
	p.Line("gabion and comparable libraries, in one run, on one machine. Compare the ratios: the nanoseconds are those of this machine. " +
		"[All figures](performance-figures.md) of the same run.")
	p.Line("")
	p.headline()
	p.method(m)
	p.targets()
	p.machine(m)
	return p.String()
}

// renderFigures writes docs/performance-figures.md: every row of every contest.
func renderFigures(r *results) string {
	p := &page{r: r}
	p.Line("# Performance: all figures")
	p.Line("")
	p.Line("<!-- Written by `make bench`, never by hand. -->")
	p.Line("")
	p.Line("[Performance](performance.md) says how they were measured, on which machine, and what they mean.")
	p.Line("")
	for _, c := range bench.Contests() {
		p.contest(c)
	}
	p.memory()
	return p.String()
}

// The marks round the rows that README shows too.
const (
	openMark  = "<!-- bench -->"
	closeMark = "<!-- /bench -->"
)

// inReadme are the contests of the table that README shows, with the modes that it shows.
var inReadme = map[string][]string{"stack": {"single", "parallel"}, "stack-done": {"single"}, "http": {"16"}}

// headline is the table that README shows.
func (p *page) headline() {
	p.Line("%s", openMark)
	p.Table(1, "Nanoseconds and allocations a call", "gabion", "failsafe-go", "leanest by hand", "usual by hand", "context.WithTimeout alone")
	stack := func(title, contest, mode, floor string) {
		p.Cells(title, p.brief(contest, "gabion", mode), p.brief(contest, "failsafe-go", mode), p.brief(contest, "hand-leanest", mode),
			p.brief(contest, "hand-usual", mode), p.brief("floor", floor, mode))
	}
	stack("timeout, retry, breaker, bulkhead; Done not asked for", "stack", "single", "context.WithTimeout")
	stack("the same on every processor at once", "stack", "parallel", "context.WithTimeout")
	stack("Done asked for", "stack-done", "single", "context.WithTimeout+Done")
	p.Cells("HTTP over loopback, 16 in flight", p.brief("http", "gabion", "16"), p.brief("http", "failsafehttp", "16"), "–",
		p.brief("http", "hand-usual", "16"), p.brief("http", "bare+WithTimeout", "16"))
	p.Line("%s", closeMark)
	p.Line("")
}

// brief is "170 ns, 1".
func (p *page) brief(contest, entry, mode string) string {
	ns, ok := p.r.median(contest, entry, mode, "ns/op")
	if !ok {
		return "–"
	}
	allocs, _ := p.r.median(contest, entry, mode, "allocs/op")
	return number(ns) + " ns, " + number(allocs)
}

func (p *page) method(m machine) {
	p.Line("## How it is measured")
	p.Line("")
	p.Line("`%s`, which took %s. The rounds go through all benchmarks in turn, so that changes of the machine's "+
		"speed affect all of them: %d rounds for the rows that matter most, %d for the others, %s each.", m.command, m.took, m.headline, m.rest, m.benchtime)
	if len(p.r.slow) > 0 {
		p.Line("")
		p.Line("The rows that were measured in every round say how fast the machine was in it: everything took between %.2f and %.2f times what it usually took. "+
			"All times of a round are divided by that. Ratios within a round do not change.", slices.Min(p.r.slow), slices.Max(p.r.slow))
	}
	p.Line("")
	p.Line("%s", bench.Settings)
	p.Line("")
	p.Line("Every call's result is compared with what its work returned, and each run's number of executions with its number of calls. " +
		"Figures are medians. ± is the 95 %% confidence interval of the median, as benchstat gives it. *Parallel* is wall time per call with one " +
		"goroutine on each processor, so half of single is perfect on two. Closures that a library needs are made once, outside of the " +
		"measurement, unless they must hold the call's own context. A name in *italics* does less than the task requires, and does not count in comparisons.")
	p.Line("")
	p.Line("The rows called Do use all of gabion. No part is left out for the benchmark, and it does more than its peers: %s", bench.Extra)
	p.Line("")
}

func (p *page) targets() {
	p.Line("## Targets")
	p.Line("")
	if read, ok := minus(ns("floor", "monotonic-read", "single"), ns("floor", "function-call", "single"))(p.r); ok {
		p.Line("Those in nanoseconds were set on a machine that reads its monotonic clock in %v ns and on which the harness takes %v ns. In this run a reading "+
			"took %s ns. The verdict is about the measured value. A row that differs between rounds by more than ±%d %% gives no verdict. *Adjusted* subtracts only the additional time of the clock and the harness on this machine. "+
			"*Primitives* is the time that would remain if gabion's own code took none: the clock readings, atomic operations, locks, allocations and timers that the promises need, each with its time in this run. A target below it can't be met on this machine.",
			referenceRead, referenceCall, number(read), mostSpread)
		p.Line("")
	}
	p.Table(2, "", "What", "Measured", "Target", "", "Adjusted", "Primitives")
	for _, t := range targets() {
		measured, verdict := t.verdict(p.r)
		p.Cells(t.id, t.text, measured, t.limit(), verdict, t.adjusted(p.r), t.primitives(p.r))
	}
	p.Line("")
}

// columns of a contest's table beside the modes.
var extras = []struct{ unit, head string }{{"cpu-ns/op", "cpu ns"}, {"goroutines", "goroutines"}}

func (p *page) contest(c *bench.Contest) {
	p.Line("## %s", c.Title)
	p.Line("")
	p.Line("%s", c.About)
	p.Line("")
	modes := c.Measured()
	head := []string{c.Title}
	for _, m := range modes {
		head = append(head, "ns "+m, "±", "× gabion")
	}
	for _, x := range p.extras(c) {
		head = append(head, x.head+" "+modes[len(modes)-1])
	}
	p.Table(1, append(head, "B", "allocs", "note")...)
	us := ours(c)
	for _, e := range c.Entries {
		p.entry(c, e, us, modes)
	}
	p.Line("")
	if us != "" {
		p.summary(c, us, modes)
	}
}

func (p *page) extras(c *bench.Contest) (found []struct{ unit, head string }) {
	for _, x := range extras {
		for _, e := range c.Entries {
			modes := c.Measured()
			if p.r.sample(c.Name, e.Name, modes[len(modes)-1], x.unit) != nil {
				found = append(found, x)
				break
			}
		}
	}
	return found
}

// ours is the entry that others are compared with.
func ours(c *bench.Contest) string {
	for _, e := range c.Entries {
		if e.Kind == bench.Gabion {
			return e.Name
		}
	}
	return ""
}

func (p *page) entry(c *bench.Contest, e bench.Entry, us string, modes []string) {
	name := e.Name
	switch {
	case e.Kind == bench.Gabion:
		name = "**" + name + "**"
	case e.Weaker:
		name = "*" + name + "*"
	}
	cells := []string{name}
	for _, m := range modes {
		ns, ok := p.r.median(c.Name, e.Name, m, "ns/op")
		own, known := p.r.median(c.Name, us, m, "ns/op")
		switch {
		case !ok:
			cells = append(cells, "–", "–", "–")
		case !known:
			cells = append(cells, number(ns), p.r.spread(c.Name, e.Name, m), "–")
		default:
			cells = append(cells, number(ns), p.r.spread(c.Name, e.Name, m), times(ns/own))
		}
	}
	last := modes[len(modes)-1]
	for _, x := range p.extras(c) {
		cells = append(cells, p.one(c.Name, e.Name, last, x.unit))
	}
	p.Cells(append(cells, p.one(c.Name, e.Name, modes[0], "B/op"), p.one(c.Name, e.Name, modes[0], "allocs/op"), e.Note)...)
}

func (p *page) one(contest, entry, mode, unit string) string {
	v, ok := p.r.median(contest, entry, mode, unit)
	if !ok {
		return "–"
	}
	return number(v)
}

// summary says who is the best peer and how far the floor is.
func (p *page) summary(c *bench.Contest, us string, modes []string) {
	for _, m := range modes {
		own, ok := p.r.median(c.Name, us, m, "ns/op")
		if !ok {
			continue
		}
		var said []string
		if best, ns := p.best(c, m); best != "" {
			_, how := p.r.differ(c.Name, us, best, m)
			said = append(said, fmt.Sprintf("the best peer, %s, takes %s of gabion's time (%s)", best, times(ns/own), how))
		}
		if floor, ok := p.floor(c, m); ok {
			said = append(said, fmt.Sprintf("gabion takes %s of the floor, %s", times(own/floor), c.Floor))
		}
		if len(said) > 0 {
			p.Line("* %s: %s.", m, strings.Join(said, "; "))
		}
	}
	p.Line("")
}

// floor is the least possible time: of an entry of the contest itself, or of one of the floors.
func (p *page) floor(c *bench.Contest, mode string) (float64, bool) {
	if ns, ok := p.r.median(c.Name, c.Floor, mode, "ns/op"); ok {
		return ns, ok
	}
	return p.r.median("floor", c.Floor, mode, "ns/op")
}

// best is the fastest peer that does the task, hand-written ones included.
func (p *page) best(c *bench.Contest, mode string) (name string, least float64) {
	for _, e := range c.Entries {
		if e.Kind != bench.Peer && e.Kind != bench.Hand || e.Weaker {
			continue
		}
		if ns, ok := p.r.median(c.Name, e.Name, mode, "ns/op"); ok && (name == "" || ns < least) {
			name, least = e.Name, ns
		}
	}
	return name, least
}

func (p *page) memory() {
	p.Line("## Memory")
	p.Line("")
	p.Line("In use after two collections, names and maps included. Counters are spread over shards by the number of processors, and so is what they take.")
	p.Line("")
	p.Table(1, "Memory", "bytes each", "measured with")
	for _, h := range bench.Holdings() {
		p.Cells(h.Title, p.one("Holdings", h.Name, "", "B/each"), fmt.Sprint(h.Count))
	}
	p.Line("")
}

func (p *page) machine(m machine) {
	p.Line("## Machine and versions")
	p.Line("")
	p.Line("* %s, %d processors, %s/%s, %s", p.r.cpu, m.procs, m.os, m.arch, m.goVersion)
	if m.load != "" {
		p.Line("* load average before the run: %s", m.load)
	}
	p.Line("* command: `%s`", m.command)
	for _, v := range m.modules {
		p.Line("* %s", v)
	}
}
