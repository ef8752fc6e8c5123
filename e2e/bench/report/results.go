package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// row is one entry in one mode.
type row struct{ contest, entry, mode string }

// results are the measurements of all rounds.
type results struct {
	cpu    string
	values map[row]map[string][]float64 // by unit
	slow   []float64                    // of each round: how much longer than usual everything took
	asked  []row                        // whose times were asked for
}

// read takes what go test printed, over any number of rounds, and levels the rounds.
func read(text []byte) (*results, error) {
	r := &results{values: map[row]map[string][]float64{}}
	in := benchfmt.NewReader(bytes.NewReader(text), "bench")
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, rec
		case *benchfmt.Result:
			r.add(rec)
		}
	}
	if len(r.values) == 0 && in.Err() == nil {
		return nil, io.ErrUnexpectedEOF
	}
	r.level()
	return r, in.Err()
}

func (r *results) add(rec *benchfmt.Result) {
	if cpu := rec.GetConfig("cpu"); cpu != "" {
		r.cpu = cpu
	}
	at := rowOf(rec.Name)
	if r.values[at] == nil {
		r.values[at] = map[string][]float64{}
	}
	for _, v := range rec.Values {
		value, unit := v.Value, v.Unit
		if v.OrigUnit != "" {
			value, unit = v.OrigValue, v.OrigUnit
		}
		r.values[at][unit] = append(r.values[at][unit], value)
	}
}

// rowOf reads Contest/<contest>/<entry>/<mode>-<procs>. An entry may have a slash
// in its name, as x/sync has.
func rowOf(name benchfmt.Name) row {
	base, parts := name.Parts()
	at := row{contest: string(base)}
	var path []string
	for _, p := range parts {
		if p[0] == '/' {
			path = append(path, string(p[1:]))
		}
	}
	if len(path) >= 3 {
		return row{path[0], strings.Join(path[1:len(path)-1], "/"), path[len(path)-1]}
	}
	at.entry = strings.Join(path, "/")
	return at
}

func (r *results) sample(contest, entry, mode, unit string) *benchmath.Sample {
	values := r.values[row{contest, entry, mode}][unit]
	if len(values) == 0 {
		return nil
	}
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

// median returns false when there is nothing measured.
func (r *results) median(contest, entry, mode, unit string) (float64, bool) {
	s := r.sample(contest, entry, mode, unit)
	if s == nil {
		return 0, false
	}
	if unit == "ns/op" {
		r.asked = append(r.asked, row{contest, entry, mode})
	}
	return benchmath.AssumeNothing.Summary(s, 0.95).Center, true
}

// spread is the 95 % confidence interval of the median, as benchstat gives it:
// the larger of its halves in percent.
func (r *results) spread(contest, entry, mode string) string {
	percent, ok := r.deviation(contest, entry, mode)
	switch {
	case !ok:
		return "–"
	case math.IsInf(percent, 0):
		return "n < 6" // too few rounds for 95 %
	}
	return fmt.Sprintf("±%.0f%%", percent)
}

// deviation is [results.spread] as a number: infinite if there were too few rounds.
func (r *results) deviation(contest, entry, mode string) (percent float64, ok bool) {
	s := r.sample(contest, entry, mode, "ns/op")
	if s == nil {
		return 0, false
	}
	sum := benchmath.AssumeNothing.Summary(s, 0.95)
	return 100 * max(sum.Hi-sum.Center, sum.Center-sum.Lo) / sum.Center, true
}

// differ reports whether two rows differ by more than chance, and the p-value.
func (r *results) differ(contest, one, other, mode string) (bool, string) {
	a, b := r.sample(contest, one, mode, "ns/op"), r.sample(contest, other, mode, "ns/op")
	if a == nil || b == nil {
		return false, "not measured"
	}
	c := benchmath.AssumeNothing.Compare(a, b)
	return c.P < c.Alpha, c.String()
}

// number writes a decimal only where it says something.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

func times(v float64) string { return fmt.Sprintf("%.2f×", v) }
