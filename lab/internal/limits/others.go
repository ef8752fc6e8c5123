package limits

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
)

// failsafe is the adaptive limiter of failsafe-go v0.9.8. Its 90th percentile is exact here,
// where the library estimates it by a t-digest.
type failsafe struct {
	moving
	next     clock.Instant
	times    []float64
	peak     int
	filter   []float64 // of the last percentiles
	recent   average
	usual    average
	rate     correlation
	duration correlation
}

func newFailsafe() learned.Rule {
	return &failsafe{
		moving: moving{start, 1, 200}, recent: average{age: 5}, usual: average{age: 10},
	}
}

func (r *failsafe) Sample(now clock.Instant, took time.Duration, v learned.Verdict, out int) int {
	if v == learned.Worked {
		r.times = append(r.times, float64(took))
		r.peak = max(r.peak, out)
	}
	if now <= r.next || len(r.times) < 50 {
		return int(r.limit)
	}
	slices.Sort(r.times)
	shortest := time.Duration(r.times[0])
	r.update(r.smoothed(r.times[len(r.times)*9/10]), out >= int(r.limit))
	r.times, r.peak = r.times[:0], 0
	r.next = now.Add(min(max(2*shortest, time.Second), 30*time.Second))
	return int(r.limit)
}

// smoothed is the average of medians of five.
func (r *failsafe) smoothed(t float64) float64 {
	if r.filter = append(r.filter, t); len(r.filter) >= 5 {
		r.filter = r.filter[len(r.filter)-5:]
		sorted := slices.Sorted(slices.Values(r.filter))
		t = sorted[2]
	}
	return r.recent.add(t)
}

func (r *failsafe) update(t float64, full bool) {
	queue := math.Ceil(float64(r.limit * (1 - r.usual.add(t)/t)))
	out := float64(r.peak)
	rate := out / (t / 1e9)
	follows, spread := r.rate.add(out, rate)
	slower, _ := r.duration.add(out, t)
	step := root10(r.limit)
	next := r.limit
	switch {
	case queue > 6*step, full && (follows < 0 || follows < 0.3 && slower > 0.5 || spread < 0.2 && slower > 0.5):
		next -= step
	case queue < 3*step:
		next += step
	}
	if most := 5 * out; next > most {
		next = max(most, r.limit-step)
	}
	r.set(next)
}

// average is exponential after the first ten, which count alike.
type average struct{ age, n, value float64 }

func (a *average) add(v float64) float64 {
	if a.n < 10 {
		a.n++
		a.value += (v - a.value) / a.n
	} else {
		a.value += float64((v - a.value) * (2 / (a.age + 1)))
	}
	return a.value
}

// correlation is of the last fifty pairs.
type correlation struct{ x, y []float64 }

// add returns how the two go together, and how much the second varies.
func (c *correlation) add(x, y float64) (together, spread float64) {
	c.x, c.y = append(c.x, x), append(c.y, y)
	if len(c.x) > 50 {
		c.x, c.y = c.x[1:], c.y[1:]
	}
	n := float64(len(c.x))
	if n < 10 {
		return 0, 0
	}
	var sx, sy, xx, yy, xy float64
	for i := range c.x {
		sx, sy = sx+c.x[i], sy+c.y[i]
	}
	for i := range c.x {
		dx, dy := c.x[i]-sx/n, c.y[i]-sy/n
		xx, yy, xy = xx+float64(dx*dx), yy+float64(dy*dy), xy+float64(dx*dy)
	}
	sdx, sdy := math.Sqrt(xx/n), math.Sqrt(yy/n)
	spread = sdy / (sy / n)
	if sdx/(sx/n) < 0.01 || spread < 0.01 {
		return 0, spread
	}
	return xy / n / float64(sdx*sdy), spread
}

// bbr is aegis v0.2.0, which go-kratos uses: most passes in a bucket × least time of a
// bucket, over a hundred buckets of 100 ms. Its limit is in force only while the processor is
// busy; a client does not know the dependency's, so here it always is.
type bbr struct {
	moving
	at     int64 // the newest bucket
	passes [100]float64
	times  [100]float64
}

func newBBR() learned.Rule { return &bbr{moving: moving{start, 1, 1000}} }

func (r *bbr) Sample(now clock.Instant, took time.Duration, v learned.Verdict, _ int) int {
	at := int64(now) / int64(100*time.Millisecond)
	if moved := at > r.at; moved {
		for b := max(r.at+1, at-99); b <= at; b++ {
			r.passes[b%100], r.times[b%100] = 0, 0
		}
		r.at = at
		defer r.reckon()
	}
	if v != learned.Nothing {
		r.passes[at%100]++
		r.times[at%100] += math.Ceil(took.Seconds() * 1e3)
	}
	return int(r.limit)
}

// reckon leaves the newest bucket out, as the library does.
func (r *bbr) reckon() {
	most, least := 1.0, math.MaxFloat64
	for i := range r.passes {
		if n := r.passes[i]; n > 0 && int64(i) != r.at%100 {
			most, least = max(most, n), min(least, r.times[i]/n)
		}
	}
	if least < math.MaxFloat64 {
		r.set(math.Floor(float64(most*math.Ceil(least)*10)/1000) + 1) // requests above that are refused
	}
}
