package report

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// none is what stands where there is no number.
const none = "–"

// figure writes x with three significant digits and groups of thousands.
func figure(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return none
	}
	size := math.Abs(x)
	digits := 0
	switch {
	case size == 0 || size >= 99.95:
	case size >= 9.995:
		digits = 1
	case size >= 0.0995:
		digits = 2
	default:
		digits = 4
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		s = "0"
	}
	return strings.Replace(grouped(s), "-", "−", 1)
}

// grouped puts commas between thousands.
func grouped(s string) string {
	whole, rest, broken := strings.Cut(s, ".")
	first := 0
	if strings.HasPrefix(whole, "-") {
		first = 1
	}
	for i := len(whole) - 3; i > first; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if broken {
		return whole + "." + rest
	}
	return whole
}

// span writes seconds in the unit in which they are easiest to read.
func span(seconds float64) string {
	size := math.Abs(seconds)
	switch {
	case math.IsNaN(seconds) || math.IsInf(seconds, 0):
		return none
	case size == 0:
		return "0 s"
	case size < 0.9995e-3:
		return figure(seconds*1e6) + " µs"
	case size < 0.9995:
		return figure(seconds*1e3) + " ms"
	case size < 120:
		return figure(seconds) + " s"
	case size < 7200:
		return figure(seconds/60) + " min"
	}
	return figure(seconds/3600) + " h"
}

// moment writes a time after the start as a clock would: 90 s is 1:30.
func moment(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	if s < 3600 {
		return strconv.FormatInt(s/60, 10) + ":" + two(s%60)
	}
	return strconv.FormatInt(s/3600, 10) + ":" + two(s/60%60) + ":" + two(s%60)
}

func two(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// percent writes a share. What is almost all or nothing is never called all or
// nothing.
func percent(share float64) string {
	p := 100 * share
	switch {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return none
	case p == 0 || p == 100:
		return figure(p) + " %"
	case p < 0.01 && p > 0:
		return "< 0.01 %"
	case p > 99.99 && p < 100:
		return "> 99.99 %"
	case p > 99 && p < 100:
		return strconv.FormatFloat(math.Floor(p*100)/100, 'f', 2, 64) + " %"
	case math.Abs(p) >= 10:
		return strings.Replace(strings.TrimSuffix(strconv.FormatFloat(p, 'f', 1, 64), ".0"), "-", "−", 1) + " %"
	}
	return figure(p) + " %"
}

// measure writes a value in a metric's unit. What is infinite never came.
func measure(x float64, unit string) string {
	if math.IsInf(x, 1) {
		return "never"
	}
	switch unit {
	case scenario.Seconds:
		return span(x)
	case scenario.Share:
		return percent(x)
	case scenario.Ratio:
		return ratio(x)
	}
	return figure(x)
}

// ratio writes how many times as much something is.
func ratio(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) || math.Abs(x) >= 9.995 {
		return figure(x)
	}
	return strings.Replace(strconv.FormatFloat(x, 'f', 2, 64), "-", "−", 1)
}

// change writes a difference, always with its sign; one of shares is in points.
func change(x float64, unit string) string {
	s := measure(x, unit)
	if unit == scenario.Share && s != none && s != "never" {
		s = figure(100*x) + " pt"
	}
	if x > 0 && s != none && s != "never" {
		return "+" + s
	}
	return s
}

// between writes an interval; nothing when it is unbounded or no wider than its
// value.
func between(e scenario.Estimate, unit string, write func(float64, string) string) string {
	if math.IsInf(e.Low, -1) || math.IsNaN(e.Low) || math.IsNaN(e.High) || math.IsInf(e.High, 0) && math.IsInf(e.Low, 0) {
		return ""
	}
	low, high := write(e.Low, unit), write(e.High, unit)
	if low == high {
		return ""
	}
	if figures, of, ok := strings.Cut(low, " "); ok && strings.HasSuffix(high, " "+of) && !strings.HasPrefix(low, "<") && !strings.HasPrefix(low, ">") {
		low = figures // the unit is said once
	}
	return low + " to " + high
}

// hard is a space at which no line ends.
const hard = "\u00a0"

// unitAfter finds a number, and the space between it and its unit.
var unitAfter = regexp.MustCompile(`([0-9]) (s|ms|µs|min|h|%|pt|points?|runs?|times)\b|([0-9]) (%)`)

// together keeps numbers and their units on one line.
func together(text string) string {
	return unitAfter.ReplaceAllString(text, "$1$3"+hard+"$2$4")
}

// ordinal is the name of a try.
func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return strconv.Itoa(n) + "th"
}
