package limits

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// What follows is what others have published, written anew from their sources, with the
// defaults of their libraries; but all begin with start.

// moving is what all of them share.
type moving struct{ limit, least, most float64 }

func (m *moving) Limit() int { return int(m.limit) }

func (m *moving) SetBounds(learned.Bounds) int { return int(m.limit) }

func (m *moving) Judge(clock.Instant, *learned.Window) (limit, verdict int, settle time.Duration) {
	return int(m.limit), learned.Anew, 0
}

func (m *moving) set(to float64) int {
	m.limit = max(m.least, min(m.most, to))
	return int(m.limit)
}

// start is the limit that all begin with.
const start = 100

// root10 is the whole part of the decimal logarithm, at least 1.
func root10(n float64) float64 {
	d := 1.0
	for x := n; x >= 100; x /= 10 {
		d++
	}
	return d
}

// vegas is VegasLimit of Netflix's concurrency-limits, as in
// platinummonkey/go-concurrency-limits v0.8.0.
type vegas struct {
	moving
	shortest float64
	samples  float64
	jitter   float64
	draws    draw.Stream
}

func newVegas() learned.Rule {
	return &vegas{moving: moving{start, 1, 1000}, jitter: 0.75, draws: draw.New(1, 1, 0)}
}

func (r *vegas) Sample(_ clock.Instant, took time.Duration, v learned.Verdict, out int) int {
	if v == learned.Nothing {
		return int(r.limit)
	}
	rtt := float64(took)
	r.samples++
	if float64(r.jitter*30)*r.limit <= r.samples {
		r.jitter, r.samples, r.shortest = 0.5+r.draws.U()/2, 0, rtt
		return int(r.limit)
	}
	if r.shortest == 0 || rtt < r.shortest {
		r.shortest = rtt
		return int(r.limit)
	}
	step := root10(r.limit)
	queue := math.Ceil(float64(r.limit * (1 - r.shortest/rtt)))
	switch {
	case v != learned.Worked:
		return r.set(r.limit - step)
	case float64(2*out) < r.limit:
	case queue < step:
		return r.set(r.limit + 6*step)
	case queue < 3*step:
		return r.set(r.limit + step)
	case queue > 6*step:
		return r.set(r.limit - step)
	}
	return int(r.limit)
}

// gradient2 is Gradient2Limit of Netflix's concurrency-limits.
type gradient2 struct {
	moving
	long, n float64
}

func newGradient2() learned.Rule { return &gradient2{moving: moving{start, 20, 200}} }

func (r *gradient2) Sample(_ clock.Instant, took time.Duration, v learned.Verdict, out int) int {
	if v == learned.Nothing {
		return int(r.limit)
	}
	rtt := float64(took)
	if r.n++; r.n <= 10 {
		r.long += (rtt - r.long) / r.n
	} else {
		r.long += float64((rtt - r.long) * (2.0 / 601))
	}
	long := r.long
	if long/rtt > 2 {
		r.long = float64(r.long * 0.95)
	}
	if float64(2*out) < r.limit {
		return int(r.limit)
	}
	slope := max(0.5, min(1, float64(1.5*long)/rtt))
	next := float64(r.limit*slope) + 4
	return r.set(float64(r.limit*0.8) + float64(next*0.2))
}

// aimd is AIMDLimit of the same: one more where the limit is used up, a tenth less for an
// attempt that was late or found no room.
type aimd struct{ moving }

func newAIMD() learned.Rule { return &aimd{moving{start, 1, 1000}} }

func (r *aimd) Sample(_ clock.Instant, _ time.Duration, v learned.Verdict, out int) int {
	switch {
	case v == learned.Late || v == learned.Busy:
		return r.set(min(r.limit-1, math.Floor(float64(r.limit*0.9))))
	case v == learned.Worked && out >= int(r.limit):
		return r.set(r.limit + 1)
	}
	return int(r.limit)
}
