package scenario

import (
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// forms are the ways to write a distribution, for findings.
const forms = "write 20ms, exp 20ms, lognormal 20ms/300ms, uniform 10ms..30ms, normal 20ms±5ms, pareto 10ms shape 1.5, " +
	"quantiles p50 20ms, p99 300ms, or parts such as 90% 20ms | 10% exp 1s"

// parseDist reads a distribution of durations.
func parseDist(s string) (any, string, string) {
	d, problem := readDist(s, true)
	if problem != "" {
		return nil, problem, forms
	}
	return dist{d, s}, "", ""
}

// readDist returns what a text means, or what is wrong with it. Parts of a mixture
// may not be mixtures.
func readDist(s string, parts bool) (draw.Dist, string) {
	if strings.Contains(s, "|") && parts {
		return readMixture(s)
	}
	text, more, shifted := strings.Cut(s, " + ")
	d, problem := readPlain(strings.TrimSpace(text))
	if problem != "" || !shifted {
		return d, problem
	}
	floor, problem := duration(more)
	return d.Plus(floor), problem
}

func readPlain(s string) (draw.Dist, string) {
	word, rest, found := strings.Cut(s, " ")
	if !found {
		d, problem := duration(s)
		return draw.Constant(d), problem
	}
	rest = strings.TrimSpace(rest)
	switch word {
	case "exp":
		d, problem := duration(rest)
		return draw.Exponential(d), problem
	case "lognormal":
		p50, p99, problem := pair(rest, "/")
		if problem == "" && p99 < p50 {
			problem = "has a p99 below its median"
		}
		return draw.LogNormal(p50, p99), problem
	case "uniform":
		from, to, problem := pair(rest, "..")
		if problem == "" && to < from {
			problem = "ends before it begins"
		}
		return draw.Uniform(from, to), problem
	case "normal":
		mean, deviation, problem := pair(rest, "±")
		return draw.AbsNormal(mean, deviation), problem
	case "pareto":
		return readPareto(rest)
	case "quantiles":
		return readQuantiles(rest)
	}
	return draw.Dist{}, "is not a distribution"
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
			return draw.Dist{}, "has a quantile that is none"
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
func readMixture(s string) (draw.Dist, string) {
	var parts []draw.Part
	sum := 0.0
	for _, item := range strings.Split(s, "|") {
		portion, rest, _ := strings.Cut(strings.TrimSpace(item), " ")
		v, problem, _ := parseShare(portion)
		if problem != "" {
			return draw.Dist{}, "has a part whose share " + problem
		}
		d, problem := readDist(strings.TrimSpace(rest), false)
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
