package learned

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// mean is an average that stands for so many samples.
type mean struct{ value, n float64 }

func (m *mean) set(v, n float64) { m.value, m.n = v, min(n, maxSamples) }

func (m *mean) add(v, n float64) {
	m.n = min(m.n+n, maxSamples)
	m.value += float64((v - m.value) * min(n/m.n, 1))
}

// noise is how far the mean of n attempts is off: about its value divided by the root of n.
type noise struct{ square, last, n float64 }

func (s *noise) of(n float64) float64 {
	return float64(math.Sqrt(max(s.square, 0.1) / max(n, 1)))
}

// see learns from the parts of a window, one after the other.
func (s *noise) see(mean, n float64) {
	if s.square == 0 {
		s.square = 1
	}
	if s.n > 0 {
		d := (mean - s.last) / ((mean + s.last) / 2)
		v := min(float64(d*d)/(1/n+1/s.n), 16)
		if v > s.square {
			s.square += float64((v - s.square) / 8)
		} else {
			s.square += float64((v - s.square) / 32)
		}
	}
	s.last, s.n = mean, n
}

// part is how far a window had come at the last look.
type part struct {
	good int64
	time time.Duration
}

// listen learns how noisy the window is, from what has come since the last look.
func (r *rule) listen(w *Window) {
	if w.Good < r.part.good || w.Time < r.part.time {
		r.part, r.noise.n, r.calm.n = part{}, 0, 0
	}
	good := w.Good - r.part.good
	if good < enough {
		return
	}
	mean := float64(w.Time-r.part.time) / float64(good)
	r.part = part{w.Good, w.Time}
	if r.phase == watching && w.Concurrency() >= inUse*float64(w.Limit) {
		r.noise.see(mean, float64(good))
	} else {
		r.calm.see(mean, float64(good))
	}
}

// hold keeps something from happening for a while, longer each time.
type hold struct {
	until clock.Instant
	span  time.Duration
}

func (h *hold) begin(now clock.Instant, least, most time.Duration) {
	if h.span == 0 || now > h.until.Add(4*h.span) {
		h.span = least
	} else {
		h.span = min(2*h.span, most)
	}
	h.until = now.Add(h.span)
}

func (h *hold) on(now clock.Instant) bool { return h.span > 0 && now < h.until }
