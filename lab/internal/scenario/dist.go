package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// distForm is a way to write a distribution of durations.
type distForm struct {
	word    string // with which it begins; empty is a duration alone
	example string
	says    string // for the documentation
	pattern string // of what follows the word, for the schema
	read    func(f *files, rest string) (draw.Dist, string)
}

// Patterns of the schema.
const (
	durationPattern = `([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+`
	numberPattern   = `[0-9]+(\.[0-9]+)?`
)

// distForms are all of them. Each may have " + 10ms" behind it, and be a part of a mixture.
func distForms() []distForm {
	return []distForm{
		{"", "20ms", "always as long", durationPattern, func(_ *files, rest string) (draw.Dist, string) {
			d, problem := duration(rest)
			return draw.Constant(d), problem
		}},
		{"exp", "exp 20ms", "exponential, with that mean", durationPattern, func(_ *files, rest string) (draw.Dist, string) {
			d, problem := duration(rest)
			return draw.Exponential(d), problem
		}},
		{"lognormal", "lognormal 20ms/300ms", "log-normal, with that median and that p99", durationPattern + " */ *" + durationPattern, readLogNormal},
		{"uniform", "uniform 10ms..30ms", "anything between, equally likely", durationPattern + ` *\.\. *` + durationPattern, readUniform},
		{"normal", "normal 20ms±5ms", "normal, with that mean and standard deviation; what would be negative counts as positive", durationPattern + " *± *" + durationPattern, func(_ *files, rest string) (draw.Dist, string) {
			mean, deviation, problem := pair(rest, "±")
			return draw.AbsNormal(mean, deviation), problem
		}},
		{"pareto", "pareto 10ms shape 1.5", "Pareto, with that least value and that shape, 0.5 to 100: the smaller, the heavier the tail", durationPattern + " +shape +" + numberPattern, func(_ *files, rest string) (draw.Dist, string) { return readPareto(rest) }},
		{"quantiles", "quantiles p50 20ms, p99 300ms", "known by its percentiles, at most a hundred; between two of them linear, above the median in the logarithm of what is left, so that tails are straight; what is below the first begins at half of it, and the last is the longest", "p" + numberPattern + " +" + durationPattern + "( *, *p" + numberPattern + " +" + durationPattern + ")*", func(_ *files, rest string) (draw.Dist, string) { return readQuantiles(rest) }},
		{"from", "from latencies.csv, column took ms", "as it was measured: see below", `\S.*`, (*files).samples},
	}
}

// forms are the ways to write a distribution, for findings.
func forms() string {
	var examples []string
	for _, f := range distForms() {
		examples = append(examples, f.example)
	}
	return "write " + strings.Join(examples, ", ") + ", or parts such as 90% 20ms | 10% exp 1s"
}

// dist reads a distribution of durations.
func (f *files) dist(s string) (any, string, string) {
	d, problem := f.readDist(s, true)
	if problem != "" {
		return nil, problem, proposal(problem, forms())
	}
	return dist{d, s}, "", ""
}

// readDist returns what a text means, or what is wrong with it. Parts of a mixture
// may not be mixtures.
func (f *files) readDist(s string, parts bool) (draw.Dist, string) {
	if strings.Contains(s, "|") && parts {
		return f.readMixture(s)
	}
	text, more, shifted := strings.Cut(s, " + ")
	d, problem := f.readPlain(strings.TrimSpace(text))
	if problem != "" || !shifted {
		return d, problem
	}
	floor, problem := duration(more)
	return d.Plus(floor), problem
}

func (f *files) readPlain(s string) (draw.Dist, string) {
	word, rest, found := strings.Cut(s, " ")
	if !found {
		word, rest = "", s
	}
	for _, form := range distForms() {
		if form.word == word {
			return form.read(f, strings.TrimSpace(rest))
		}
	}
	return draw.Dist{}, "is not a distribution"
}

func readLogNormal(_ *files, rest string) (draw.Dist, string) {
	p50, p99, problem := pair(rest, "/")
	if problem == "" && p99 < p50 {
		problem = "has a p99 below its median"
	}
	return draw.LogNormal(p50, p99), problem
}

func readUniform(_ *files, rest string) (draw.Dist, string) {
	from, to, problem := pair(rest, "..")
	if problem == "" && to < from {
		problem = "ends before it begins"
	}
	return draw.Uniform(from, to), problem
}

func duration(s string) (time.Duration, string) {
	d, problem, _ := parseSpan(strings.TrimSpace(s))
	if problem != "" {
		return 0, "has a duration that " + problem
	}
	return time.Duration(d), ""
}

func pair(s, between string) (a, b time.Duration, problem string) {
	first, second, ok := strings.Cut(s, between)
	if !ok {
		return 0, 0, "has one value where two belong"
	}
	a, problem = duration(first)
	if problem == "" {
		b, problem = duration(second)
	}
	return a, b, problem
}

func readPareto(s string) (draw.Dist, string) {
	least, shape, ok := strings.Cut(s, " shape ")
	if !ok {
		return draw.Dist{}, "has no shape"
	}
	d, problem := duration(least)
	if problem != "" {
		return draw.Dist{}, problem
	}
	k, err := strconv.ParseFloat(strings.TrimSpace(shape), 64)
	if err != nil || !(k >= 0.5 && k <= 100) {
		return draw.Dist{}, "has a shape that is not between 0.5 and 100"
	}
	return draw.Pareto(d, k), ""
}

// readQuantiles reads p50 20ms, p99 300ms: where nothing is said of p0, it is half
// of the first; the last is the longest.
func readQuantiles(s string) (draw.Dist, string) {
	var points []draw.Point
	for _, item := range strings.Split(s, ",") {
		name, at, _ := strings.Cut(strings.TrimSpace(item), " ")
		percent, ok := strings.CutPrefix(name, "p")
		p, err := strconv.ParseFloat(percent, 64)
		if !ok || err != nil || !(p >= 0 && p <= 100) {
			return draw.Dist{}, "has an unknown quantile"
		}
		d, problem := duration(at)
		if problem != "" {
			return draw.Dist{}, problem
		}
		points = append(points, draw.Point{P: p / 100, At: d})
	}
	if points[0].P > 0 {
		points = append([]draw.Point{{At: points[0].At / 2}}, points...)
	}
	for i, p := range points[1:] {
		if p.P <= points[i].P || p.At < points[i].At {
			return draw.Dist{}, "has quantiles that do not rise"
		}
	}
	if len(points) > 100 {
		return draw.Dist{}, "has more than a hundred quantiles"
	}
	return draw.Quantiles(points...), ""
}

// readMixture reads 90% 20ms | 10% exp 1s.
func (f *files) readMixture(s string) (draw.Dist, string) {
	var parts []draw.Part
	sum := 0.0
	for _, item := range strings.Split(s, "|") {
		portion, rest, _ := strings.Cut(strings.TrimSpace(item), " ")
		v, problem, _ := parseShare(portion)
		if problem != "" {
			return draw.Dist{}, "has a part whose share " + problem
		}
		d, problem := f.readDist(strings.TrimSpace(rest), false)
		if problem != "" {
			return draw.Dist{}, "has a part that " + problem
		}
		parts = append(parts, draw.Part{Share: float64(v.(share)), Dist: d})
		sum += float64(v.(share))
	}
	if sum < 0.999999 || sum > 1.000001 {
		return draw.Dist{}, "has shares that do not make 100%"
	}
	return draw.Mixture(parts...), ""
}
