package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/e2e/bench"
	"github.com/gabion-go/gabion/internal/report"
)

// target is one promise about speed, with its number.
type target struct {
	id, text string
	measure  func(*results) (float64, bool)
	unit     string
	most     bool    // the bound is the most; otherwise the least
	bound    float64 // of the measure
	needs    needs   // what a call of what is measured can't do without; of times only
	more     bool    // the measure is a difference of two rows, so clock and harness are not in it
}

// needs are the primitives that every implementation of a call needs, as its promises are worded: a
// reading of the clock for each boundary that is timed, an atomic operation for each word that is
// shared with other calls, an allocation for each value that outlives the call's frame.
type needs struct {
	reads   int // of the monotonic clock
	atomics int
	locks   int // taken and given back
	allocs  int // of a cache line with pointers
	timers  int // armed and stopped
}

// primitives is what the needs alone take on this machine, harness included, each
// measured by itself in the same run.
func (t target) primitives(r *results) string {
	if t.unit != "ns" || t.needs == (needs{}) {
		return ""
	}
	sum, ok := r.median("floor", "function-call", "single", "ns/op")
	for _, part := range []struct {
		floor string
		n     int
	}{
		{"monotonic-read", t.needs.reads}, {"atomic-add", t.needs.atomics}, {"mutex", t.needs.locks},
		{"allocation-64", t.needs.allocs}, {"timer-reset-stop", t.needs.timers},
	} {
		each, known := minus(ns("floor", part.floor, "single"), ns("floor", "function-call", "single"))(r)
		sum, ok = sum+float64(part.n)*each, ok && known
	}
	if !ok {
		return ""
	}
	return number(sum) + " ns"
}

// What the floors take on the machine that the targets were set on.
const (
	referenceRead = 21.4
	referenceCall = 1.1
)

// adjusted is what was measured less what clock and harness take more here.
func (t target) adjusted(r *results) string {
	harness, known := r.median("floor", "function-call", "single", "ns/op")
	read, also := minus(ns("floor", "monotonic-read", "single"), ns("floor", "function-call", "single"))(r)
	v, ok := t.measure(r)
	if t.unit != "ns" || !ok || !known || !also || t.more {
		return ""
	}
	return number(v-(harness-referenceCall)-float64(t.needs.reads)*(read-referenceRead)) + " ns"
}

func (t target) verdict(r *results) (measured, verdict string) {
	if r != nil {
		r.asked = nil
	}
	v, ok := t.measure(r)
	switch {
	case !ok:
		return "–", report.NotMeasured
	case r != nil && slices.ContainsFunc(r.asked, r.unsteady):
		return t.format(v), report.NotKnown
	}
	return t.format(v), report.Verdict(v, !t.most, t.bound)
}

// unsteady reports whether a row differs too much between rounds for a verdict.
func (r *results) unsteady(at row) bool {
	percent, ok := r.deviation(at.contest, at.entry, at.mode)
	return ok && !math.IsInf(percent, 0) && percent > mostSpread
}

func (t target) format(v float64) string {
	switch t.unit {
	case "×":
		return times(v)
	case "":
		return number(v)
	}
	return number(v) + " " + t.unit
}

func (t target) limit() string {
	if t.most {
		return "≤ " + t.format(t.bound)
	}
	return "≥ " + t.format(t.bound)
}

// ns is a row's median time, of what is gabion's unless said otherwise.
func ns(contest, entry, mode string) func(*results) (float64, bool) {
	return value(contest, entry, mode, "ns/op")
}

func value(contest, entry, mode, unit string) func(*results) (float64, bool) {
	return func(r *results) (float64, bool) { return r.median(contest, entry, mode, unit) }
}

func ratio(over, under func(*results) (float64, bool)) func(*results) (float64, bool) {
	return func(r *results) (float64, bool) {
		a, ok := over(r)
		b, also := under(r)
		return a / b, ok && also && b != 0
	}
}

func minus(a, b func(*results) (float64, bool)) func(*results) (float64, bool) {
	return func(r *results) (float64, bool) {
		x, ok := a(r)
		y, also := b(r)
		return x - y, ok && also
	}
}

// worst is the largest of several measures.
func worst(all ...func(*results) (float64, bool)) func(*results) (float64, bool) {
	return func(r *results) (most float64, ok bool) {
		for i, f := range all {
			v, known := f(r)
			if !known {
				return 0, false
			}
			if i == 0 || v > most {
				most = v
			}
		}
		return most, true
	}
}

// wholeStack is what a call of the full stack needs: the clock when it begins and
// when each attempt ends, a deposit into the budget; for each attempt a context
// that may outlive it and must end, a slot taken and given back, and a count in the
// breaker's window; for each retry one step that asks the budget and takes from it.
func wholeStack(attempts int) needs {
	return needs{reads: 1 + attempts, atomics: 1 + 4*attempts, locks: attempts - 1, allocs: attempts}
}

func missing(*results) (float64, bool) { return 0, false }

func targets() []target {
	one, two := "single", "parallel"
	atMost := func(id, text, unit string, bound float64, m func(*results) (float64, bool)) target {
		return target{id, text, m, unit, true, bound, needs{}, unit == "ns"}
	}
	atLeast := func(id, text string, bound float64, m func(*results) (float64, bool)) target {
		return target{id, text, m, "×", false, bound, needs{}, false}
	}
	timed := func(id, text string, needs needs, bound float64, m func(*results) (float64, bool)) target {
		return target{id, text, m, "ns", true, bound, needs, false}
	}
	all := []target{
		timed("L1", "full stack, Done not asked for", wholeStack(1), 170, ns("stack", "gabion", one)),
		atMost("L1", "the same, allocations", "", 1, value("stack", "gabion", one, "allocs/op")),
		atMost("L1", "full stack, Done asked for, against context.WithTimeout + Done", "×", 1.35,
			ratio(ns("stack-done", "gabion", one), ns("floor", "context.WithTimeout+Done", one))),
		atMost("L1", "the same, allocations", "", 6, value("stack-done", "gabion", one, "allocs/op")),
		atLeast("L1", "faster than failsafe-go's stack, single", 11.5, ratio(ns("stack", "failsafe-go", one), ns("stack", "gabion", one))),
		atLeast("L1", "the same, parallel", 13, ratio(ns("stack", "failsafe-go", two), ns("stack", "gabion", two))),
		atLeast("L1", "faster than the leanest hand-written stack, single", 5, ratio(ns("stack", "hand-leanest", one), ns("stack", "gabion", one))),
		atLeast("L1", "the same, parallel", 1, ratio(ns("stack", "hand-leanest", two), ns("stack", "gabion", two))),
		atLeast("L1", "the same with Done asked for, single", 1, ratio(ns("stack-done", "hand-leanest", one), ns("stack-done", "gabion", one))),
		atLeast("L1", "the same with Done asked for, parallel", 1, ratio(ns("stack-done", "hand-leanest", two), ns("stack-done", "gabion", two))),
		timed("L2", "breaker closed, package breaker", needs{reads: 1, atomics: 1}, 45, ns("breaker-closed", "gabion", one)),
		timed("L2", "breaker closed with slow-call rate, package breaker", needs{reads: 2, atomics: 1}, 70, ns("breaker-slow", "gabion", one)),
		atMost("L2", "both, allocations", "", 0,
			worst(value("breaker-closed", "gabion", one, "allocs/op"), value("breaker-slow", "gabion", one, "allocs/op"))),
		atMost("L2", "breaker closed, parallel against single", "×", 1, ratio(ns("breaker-closed", "gabion", two), ns("breaker-closed", "gabion", one))),
		timed("L2", "breaker open, refusal, package breaker", needs{reads: 1}, 30, ns("breaker-open", "gabion", one)),
		timed("L3", "retry, first try, from the parts", needs{}, 10, ns("retry-first", "gabion-parts", one)),
		timed("L3", "retry, two failures, from the parts", needs{atomics: 3}, 60, ns("retry-two", "gabion-parts", one)),
		atMost("L3", "retry, two failures, allocations, from the parts", "", 0, value("retry-two", "gabion-parts", one, "allocs/op")),
		timed("L3", "full stack, two failures", wholeStack(3), 300, ns("stack-two", "gabion", one)),
		timed("L3", "bulkhead, package bulkhead", needs{atomics: 2}, 16, ns("bulkhead", "gabion", one)),
		timed("L3", "rate limiter, package ratelimit", needs{reads: 1, atomics: 1}, 30, ns("rate-limit", "gabion", one)),
		timed("L3", "throttle, package throttle", needs{reads: 1, atomics: 2}, 50, ns("throttle", "gabion", one)),
		atMost("L3", "learned limit: time more than with a fixed one", "ns", 70, minus(ns("learned", "gabion", one), ns("learned", "gabion-fixed", one))),
		atMost("L3", "the same, allocations more", "", 0,
			minus(value("learned", "gabion", one, "allocs/op"), value("learned", "gabion-fixed", one, "allocs/op"))),
		atMost("L3", "server admission, the limit is learned: time more than the handler alone", "ns", 300,
			minus(ns("admission", "gabion", one), ns("admission", "bare", one))),
		atMost("L3", "the same, allocations", "", 0, value("admission", "gabion", one, "allocs/op")),
		timed("L3", "hedge armed, primary wins", needs{reads: 2, atomics: 2, locks: 2, allocs: 1, timers: 1}, 300, ns("hedge", "gabion", one)),
		atMost("L4", "HTTP with the full stack, 16 in flight, against bare + context.WithTimeout", "×", 1.08,
			ratio(ns("http", "gabion", "16"), ns("http", "bare+WithTimeout", "16"))),
		atMost("L4", "the same, allocations more, one in flight", "", 3,
			minus(value("http", "gabion", "1", "allocs/op"), value("http", "bare+WithTimeout", "1", "allocs/op"))),
		atMost("L4", "the same, goroutines started", "", 0, value("http-stub", "gabion", one, "goroutines")),
		atMost("Observer", "full stack, observed: allocations more", "", 2,
			minus(value("stack", "gabion-observed", one, "allocs/op"), value("stack", "gabion", one, "allocs/op"))),
		atMost("Observer", "full stack, observed: time more", "ns", 200, minus(ns("stack", "gabion-observed", one), ns("stack", "gabion", one))),
		atMost("Watched", "Prometheus alone: time more", "ns", 35, minus(ns("watched", "gabion-prom", one), ns("watched", "gabion", one))),
		atMost("Watched", "the same, allocations more", "", 0,
			minus(value("watched", "gabion-prom", one, "allocs/op"), value("watched", "gabion", one, "allocs/op"))),
		atMost("Watched", "Prometheus, and traces of which 1 % are kept", "×", 1.5, ratio(ns("watched", "gabion-both-below", one), ns("watched", "gabion", one))),
		atMost("Watched", "the same, allocations more", "", 2,
			minus(value("watched", "gabion-both-below", one, "allocs/op"), value("watched", "gabion", one, "allocs/op"))),
		atMost("Watched", "the same, where each call asks for a root span", "×", 2, ratio(ns("watched", "gabion-both", one), ns("watched", "gabion", one))),
		atMost("Watched", "the same, allocations more", "", 2,
			minus(value("watched", "gabion-both", one, "allocs/op"), value("watched", "gabion", one, "allocs/op"))),
		atMost("Memory", fmt.Sprintf("%d keyed breakers, default policy, MiB", bench.Keyed), "MiB", 100, keyedMiB),
	}
	return append(all, scaling()...)
}

func keyedMiB(r *results) (float64, bool) {
	each, ok := r.median("Holdings", "partition", "", "B/each")
	return each * bench.Keyed / (1 << 20), ok
}

// scaling: a second processor must not make a call dearer.
func scaling() (all []target) {
	for _, c := range []struct{ contest, entry, text string }{
		{"stack", "gabion", "full stack"}, {"stack-done", "gabion", "full stack, Done asked for"},
		{"stack-two", "gabion", "full stack, two failures"}, {"breaker-slow", "gabion", "breaker with slow-call rate"},
		{"breaker-open", "gabion", "breaker open"}, {"retry-first", "gabion", "retry, first try"},
		{"bulkhead", "gabion", "bulkhead"}, {"rate-limit", "gabion", "rate limiter"}, {"throttle", "gabion", "throttle"},
		{"learned", "gabion", "learned limit"}, {"admission", "gabion", "server admission"},
		{"timeout", "gabion", "timeout"}, {"hedge", "gabion", "hedge"},
	} {
		all = append(all, target{
			"Scaling", c.text + ", parallel against single",
			ratio(ns(c.contest, c.entry, "parallel"), ns(c.contest, c.entry, "single")), "×", true, 1, needs{}, false,
		})
	}
	return all
}
