package recorded

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

// longest is the longest latency, and the longest recording: what is beyond would only
// ever be a wrong unit.
const longest = 31 * 24 * time.Hour

// Unreadable is in the problem of a spec whose file can't be read.
const Unreadable = "that can't be read"

// Latencies reads durations, and returns them in their order of size. What is wrong with
// the spec, or that the file can't be read, is the problem; what is wrong in the file are
// findings with their places.
func Latencies(dir, spec string) (sorted []time.Duration, found yamlstrict.Findings, problem string) {
	s, problem := parse(spec, ofLatencies)
	if problem != "" {
		return nil, nil, problem
	}
	t := table{shape: s.shape(), parts: []string{s.Column.Name}}
	err := t.each(dir, s.File, func(cells []cell) bool {
		d, ok := t.duration(cells[0], s.Column.Unit)
		if ok {
			sorted = append(sorted, d)
		}
		return ok
	})
	switch {
	case err != nil:
		return nil, nil, fmt.Sprintf("names a file, %s, %s: %v", t.name, Unreadable, err)
	case len(t.found) == 0 && len(sorted) == 0:
		t.line, t.text = 1, ""
		t.fail(1, "there is no latency", "write one a line")
	}
	slices.Sort(sorted)
	return sorted, t.found, ""
}

// Calls are recorded calls, in the order of their times.
type Calls struct {
	At     []time.Duration // the first is at the recording's beginning
	Took   []time.Duration // nil means unknown
	Status []int           // nil means that all were answered
}

// NoConnection is the status of a call that found no connection, which a file spells refused.
const NoConnection = -1

// Read reads calls, as Latencies reads latencies.
func Read(dir, spec string) (calls Calls, found yamlstrict.Findings, problem string) {
	s, problem := parse(spec, ofCalls)
	if problem != "" {
		return calls, nil, problem
	}
	begin := time.Duration(0)
	if s.Begin != "" && s.Begin != "0s" {
		var err error
		if begin, err = policy.ParseDuration(s.Begin); err != nil || begin < 0 || begin > longest {
			return calls, nil, fmt.Sprintf("begins at %q, which is no time", s.Begin) //nolint:nilerr // the text says it
		}
	}
	t := table{shape: s.shape(), parts: []string{s.At.Name}}
	for _, p := range []Part{s.Took, s.Status} {
		if p.set {
			t.parts = append(t.parts, p.Name)
		}
	}
	var all []call
	err := t.each(dir, s.File, func(cells []cell) bool {
		c, ok := t.call(cells, &s)
		if ok {
			all = append(all, c)
		}
		return ok
	})
	switch {
	case err != nil:
		return calls, nil, fmt.Sprintf("names a file, %s, %s: %v", t.name, Unreadable, err)
	case len(t.found) == 0 && len(all) == 0:
		t.line, t.text = 1, ""
		t.fail(1, "there is no call", "write one a line")
	}
	if len(t.found) == 0 {
		calls = t.lay(all, &s, begin)
	}
	return calls, t.found, ""
}

// call is one line.
type call struct {
	at, took int64
	status   int
	line     int
}

func (t *table) call(cells []cell, s *Spec) (c call, ok bool) {
	c.line = t.line
	if c.at, ok = t.time(cells[0], s.At.Unit); !ok {
		return c, false
	}
	if s.Took.set {
		took, ok := t.duration(cells[1], s.Took.Unit)
		if c.took = int64(took); !ok {
			return c, false
		}
	}
	if s.Status.set {
		n, err := strconv.Atoi(cells[2].text)
		switch c.status = n; {
		case cells[2].text == "refused":
			c.status = NoConnection
		case err != nil || n != 0 && (n < 100 || n > 599):
			t.fail(cells[2].col, fmt.Sprintf("%.60q is no status of HTTP", cells[2].text), "write one such as 200 or 503")
			return c, false
		}
	}
	return c, true
}

// lay orders calls by their times, and makes the first be at the beginning. Logs are
// written when calls end, and not in this order.
func (t *table) lay(all []call, s *Spec, begin time.Duration) (calls Calls) {
	slices.SortStableFunc(all, func(a, b call) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	if span := float64(all[len(all)-1].at) - float64(all[0].at); span > float64(longest) {
		t.line, t.text = all[len(all)-1].line, ""
		t.fail(1, fmt.Sprintf("the calls span %.0f days, and %.0f are the most", span/float64(24*time.Hour), longest.Hours()/24), "is the unit right?")
		return Calls{}
	}
	for _, c := range all {
		calls.At = append(calls.At, time.Duration(c.at-all[0].at)+begin)
		if s.Took.set {
			calls.Took = append(calls.Took, time.Duration(c.took))
		}
		if s.Status.set {
			calls.Status = append(calls.Status, c.status)
		}
	}
	return calls
}

// duration reads a latency.
func (t *table) duration(c cell, unit time.Duration) (time.Duration, bool) {
	ns, ok := t.number(c, unit, "latency")
	if ok && ns > int64(longest) {
		t.fail(c.col, fmt.Sprintf("%.60q is longer than a month", c.text), "is the unit right?")
		return 0, false
	}
	return time.Duration(ns), ok
}

// time reads when something was: a number or a duration since any beginning, or a date.
func (t *table) time(c cell, unit time.Duration) (int64, bool) {
	if strings.Count(c.text, "-") >= 2 {
		at, err := time.Parse(time.RFC3339Nano, c.text)
		if err != nil || at.Year() < 1970 || at.Year() > 2200 {
			t.fail(c.col, fmt.Sprintf("%.60q is no time of RFC 3339", c.text), "write one such as 2026-11-21T10:00:00.123Z")
			return 0, false
		}
		return at.UnixNano(), true
	}
	return t.number(c, unit, "time")
}

// number reads a number of units, or a duration with its own.
func (t *table) number(c cell, unit time.Duration, what string) (int64, bool) {
	if n, err := strconv.ParseInt(c.text, 10, 64); err == nil && n > 0 && unit > 0 && n <= math.MaxInt64/int64(unit)/2 {
		return n * int64(unit), true
	}
	x, err := strconv.ParseFloat(c.text, 64)
	bare := err == nil && strings.Trim(c.text, "0123456789.eE+-") == ""
	switch {
	case c.text == "":
		t.fail(c.col, "there is no "+what, "write one, or leave the line out")
	case bare && x < 0:
		t.fail(c.col, fmt.Sprintf("%.60q is negative", c.text), "")
	case bare && x == 0:
		return 0, true
	case bare && unit == 0:
		t.fail(c.col, fmt.Sprintf("%.60q has no unit", c.text), "say which behind the name in the scenario, such as ms or s")
		t.stop = true // nor have the other lines
	case bare && x*float64(unit) >= math.MaxInt64/2:
		t.fail(c.col, fmt.Sprintf("%.60q is too large", c.text), "is the unit right?")
	case bare:
		return int64(math.Round(float64(x * float64(unit)))), true
	default:
		d, err := policy.ParseDuration(c.text)
		if err == nil && d >= 0 {
			return int64(d), true
		}
		if strings.Trim(c.text, "0.nuµmsh") == "" && strings.HasPrefix(c.text, "0") {
			return 0, true // 0s, 0.0ms
		}
		t.fail(c.col, fmt.Sprintf("%.60q is no %s", c.text, what), "write one such as 12.5 or 12.5ms")
	}
	return 0, false
}
