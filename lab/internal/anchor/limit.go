package anchor

import (
	"context"
	"math"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// saturated is a server with a number of slots under more demand than it can serve, seen by a
// limiter: as many requests as the limit allows are always out, those beyond the slots wait, and
// each round trip is one sample. The limiters below are reference models of what Netflix's
// concurrency-limits documents, with its published defaults. They are not gabion's.
type saturated struct {
	slots float64
	rtt   time.Duration // without waiting
}

// sample returns a round trip in milliseconds.
func (s saturated) sample(limit float64) float64 {
	return s.rtt.Seconds() * 1e3 * max(1, math.Floor(limit)/s.slots)
}

// limiter learns a limit from round trips.
type limiter interface {
	learn(rtt float64) (limit float64)
}

// settle runs a limiter for a while and returns its limit and the last round trip.
func (s saturated) settle(l limiter, start float64, duration time.Duration) (limit, rtt float64) {
	limit = start
	for left := duration.Seconds() * 1e3; left > 0; left -= rtt {
		rtt = s.sample(limit)
		limit = l.learn(rtt)
	}
	return math.Floor(limit), rtt
}

func limitSettings(more ...setting) []setting {
	return append([]setting{
		{"capacity", "100", "requests that are served at once", whole(1, 100_000)},
		{"start", "20", "the limit to begin with", whole(1, 100_000)},
		{"duration", "30s", "how long the limiter learns", span(0, aDay)},
		{"rtt", "10ms", "a round trip without waiting", span(time.Microsecond, time.Minute)},
	}, append(more, seeded)...)
}

func server(v values) saturated { return saturated{float64(v.count("capacity")), v.duration("rtt")} }

// vegasModel is the Vegas limiter: it estimates its own queue from the shortest
// round trip seen and keeps it between alpha and beta.
var vegasModel = model{
	name: "vegas",
	says: "where a Vegas concurrency limit settles (Netflix concurrency-limits; a reference model, not gabion's)",
	settings: limitSettings(
		setting{"most", "1000", "the highest limit", whole(1, 1_000_000)},
		setting{"probe", "0", "after how many times the limit of samples the shortest round trip is measured anew; the library's default is 30, and 0 is the published case, in which it is known", whole(0, 1_000_000)}),
	run: func(_ context.Context, v values) ([]Figure, error) {
		l := &vegas{limit: float64(v.count("start")), most: float64(v.count("most")), probe: float64(v.count("probe")), draws: draw.New(uint64(v.count("seed")), forProbes, 0)}
		limit, rtt := server(v).settle(l, l.limit, v.duration("duration"))
		return []Figure{{"limit", limit}, {"queue", limit - float64(v.count("capacity"))}, {"rtt_ms", rtt}, {"shortest_rtt_ms", l.shortest}}, nil
	},
}

type vegas struct {
	limit, most float64
	shortest    float64 // round trip, which counts as that without a queue
	probe       float64
	samples     float64
	jitter      float64
	draws       draw.Stream
}

func (l *vegas) learn(rtt float64) float64 {
	l.samples++
	if l.probes() {
		l.samples, l.jitter, l.shortest = 0, 0, rtt
		return l.limit
	}
	if l.shortest == 0 || rtt < l.shortest {
		l.shortest = rtt
		return l.limit
	}
	step := decimals(l.limit)
	queue := math.Ceil(float64(l.limit * (1 - l.shortest/rtt)))
	switch alpha, beta := 3*step, 6*step; {
	case queue <= step:
		l.limit += beta
	case queue < alpha:
		l.limit += step
	case queue > beta:
		l.limit -= step
	}
	l.limit = min(max(l.limit, 1), l.most)
	return l.limit
}

// probes reports whether the shortest round trip is to be measured anew, which is
// drawn between half of the period and all of it.
func (l *vegas) probes() bool {
	if l.probe == 0 {
		return false
	}
	if l.jitter == 0 {
		l.jitter = 0.5 + l.draws.U()/2
	}
	return float64(l.jitter*l.probe)*l.limit <= l.samples
}

// decimals is the whole part of the decimal logarithm, at least 1.
func decimals(limit float64) float64 {
	n := 1.0
	for x := limit; x >= 100; x /= 10 {
		n++
	}
	return n
}

// gradientModel is the Gradient2 limiter: it compares each round trip with a long
// average. Under saturation that lasts, the average follows what it should judge.
var gradientModel = model{
	name: "gradient",
	says: "where a Gradient2 concurrency limit settles (Netflix concurrency-limits; a reference model, not gabion's)",
	settings: limitSettings(
		setting{"least", "20", "the lowest limit", whole(1, 1_000_000)},
		setting{"most", "200", "the highest limit", whole(1, 1_000_000)},
		setting{"tolerance", "1.5", "how much longer than the average a round trip may be", number(1, 100)},
		setting{"baseline", "measured", "the long average, or a round trip without waiting", oneOf("measured", "known")}),
	run: func(_ context.Context, v values) ([]Figure, error) {
		s := server(v)
		l := &gradient{limit: float64(v.count("start")), least: float64(v.count("least")), most: float64(v.count("most")), tolerance: v.number("tolerance")}
		if v.word("baseline") == "known" {
			l.known = s.sample(0)
		}
		limit, rtt := s.settle(l, l.limit, v.duration("duration"))
		return []Figure{{"limit", limit}, {"queue", limit - s.slots}, {"rtt_ms", rtt}, {"long_rtt_ms", l.long}}, nil
	},
}

type gradient struct {
	limit, least, most float64
	tolerance          float64
	known              float64 // round trip without waiting; 0 if it is to be learnt
	long               float64 // average
	n                  float64
}

// Published defaults of Gradient2.
const (
	longWindow = 600
	warmup     = 10
	smoothing  = 0.2
	allowance  = 4
)

func (l *gradient) learn(rtt float64) float64 {
	l.average(rtt)
	long := l.long
	if long/rtt > 2 {
		l.long = float64(l.long * 0.95)
	}
	slope := max(0.5, min(1, float64(l.tolerance*long)/rtt))
	next := float64(l.limit*slope) + allowance
	next = float64(l.limit*(1-smoothing)) + float64(next*smoothing)
	l.limit = max(l.least, min(l.most, next))
	return l.limit
}

// average is exponential after the first few samples, which count alike.
func (l *gradient) average(rtt float64) {
	l.n++
	switch {
	case l.known > 0:
		l.long = l.known
	case l.n <= warmup:
		l.long += (rtt - l.long) / l.n
	default:
		l.long += float64((rtt - l.long) * (2.0 / (longWindow + 1)))
	}
}
