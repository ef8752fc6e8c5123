package dashboard

import (
	"math"
	"math/bits"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// Times in the collector are since the page began, so that a recording is shown by the same
// code as a living program.

const (
	historySeconds = 120 // what a sparkline shows
	slotSeconds    = 5
	slotCount      = 6 // what the numbers beside it are about: the last 25 to 30 s

	maxReasons = 64 // policy has 28, and a later one must not end the program
	maxClasses = 16
)

// An ending is how a call ended, as the bar of outcomes shows it.
type ending uint8

const (
	endedFirst    ending = iota // answered at the first attempt
	endedRescued                // answered, and it took a retry or a hedge
	endedAnswered               // a valid "no": the failure is permanent, and the dependency works
	endedFailed                 // the dependency could not be had
	endedRefused                // refused here: nothing was sent
	endedLeft                   // the caller gave up
	numEndings
)

// endingOf reads the end of a call.
func endingOf(e *policy.Event) ending {
	switch {
	case e.Reason == policy.None && (e.Attempt > 1 || e.Hedge):
		return endedRescued
	case e.Reason == policy.None:
		return endedFirst
	case e.Reason.Local() && e.Attempt == 0:
		return endedRefused
	case e.Reason == policy.Canceled:
		return endedLeft
	case e.Reason == policy.NotRetryable:
		return endedAnswered
	}
	return endedFailed
}

// A second is what the sparkline knows of one second.
type second struct {
	calls, failed, refused uint32
	attempts, resends      uint32
}

// A slot holds the counts of some seconds.
type slot struct {
	endings  [numEndings]uint32
	refused  [maxReasons]uint32 // by reason
	classes  [maxClasses]uint32 // of attempts
	attempts uint32
	hedges   uint32
	latency  histogram
}

// flow is what happened lately. The zero flow has seen nothing.
type flow struct {
	now     int64 // the newest second
	seconds [historySeconds]second
	slots   [slotCount]slot
}

// turn moves on to the second of that time. A time that lies behind counts as the newest.
func (f *flow) turn(now time.Duration) {
	s := int64(now / time.Second)
	if s <= f.now {
		return
	}
	for n := max(f.now+1, s-historySeconds+1); n <= s; n++ {
		f.seconds[n%historySeconds] = second{}
	}
	first, last := f.now/slotSeconds+1, s/slotSeconds
	for n := max(first, last-slotCount+1); n <= last; n++ {
		f.slots[n%slotCount] = slot{}
	}
	f.now = s
}

func (f *flow) second() *second { return &f.seconds[f.now%historySeconds] }
func (f *flow) slot() *slot     { return &f.slots[f.now/slotSeconds%slotCount] }

// sum adds up the slots into s, which the caller has emptied.
func (f *flow) sum(s *slot) {
	for i := range f.slots {
		one := &f.slots[i]
		s.attempts += one.attempts
		s.hedges += one.hedges
		for j, n := range one.endings {
			s.endings[j] += n
		}
		for j, n := range one.refused {
			s.refused[j] += n
		}
		for j, n := range one.classes {
			s.classes[j] += n
		}
		if one.attempts > 0 || one.latency.total > 0 {
			s.latency.add(&one.latency)
		}
	}
}

// rate is the calls per second of the last ten whole seconds.
func (f *flow) rate() float64 {
	const span = 10
	var calls uint32
	n := int64(0)
	for ; n < span && f.now-1-n >= 0; n++ {
		calls += f.seconds[(f.now-1-n)%historySeconds].calls
	}
	return float64(calls) / float64(max(n, 1))
}

// lately is what happened in a second, as the mean of the last five.
type lately struct {
	calls, refused, attempts, resends float64
}

func (f *flow) lately() (l lately) {
	const span = 5
	n := int64(0)
	for ; n < span && f.now-1-n >= 0; n++ {
		s := &f.seconds[(f.now-1-n)%historySeconds]
		l.calls += float64(s.calls)
		l.refused += float64(s.refused)
		l.attempts += float64(s.attempts)
		l.resends += float64(s.resends)
	}
	for _, sum := range []*float64{&l.calls, &l.refused, &l.attempts, &l.resends} {
		*sum /= float64(max(n, 1))
	}
	return l
}

// A histogram counts durations in buckets of an eighth of their power of two, so that what
// it says of a percentile is wrong by 6 % at most.
type histogram struct {
	total   uint32
	buckets [histogramBuckets]uint32
}

const (
	histogramLow     = 14 // 2^14 ns: 16 µs and less are one bucket
	histogramOctaves = 23 // up to 137 s
	histogramBuckets = histogramOctaves << 3
)

func bucketOf(d time.Duration) int {
	if d < 1<<histogramLow {
		return 0
	}
	octave := bits.Len64(uint64(d)) - 1
	b := (octave-histogramLow)<<3 | int(d>>(octave-3))&7
	return min(b, histogramBuckets-1)
}

// bucketLow is the least duration of a bucket.
func bucketLow(b int) float64 {
	return math.Ldexp(1+float64(b&7)/8, histogramLow+b>>3)
}

func (h *histogram) count(d time.Duration) {
	h.total++
	h.buckets[bucketOf(d)]++
}

func (h *histogram) add(o *histogram) {
	h.total += o.total
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// percentiles sets each of out to the duration that so large a share does not exceed. They are
// in rising order.
func (h *histogram) percentiles(shares []float64, out []time.Duration) {
	if h.total == 0 {
		return
	}
	seen, next := 0.0, 0
	for b, n := range h.buckets {
		if n == 0 {
			continue
		}
		for next < len(shares) && seen+float64(n) >= shares[next]*float64(h.total) {
			into := (shares[next]*float64(h.total) - seen) / float64(n)
			low := bucketLow(b)
			if b == 0 {
				low = 0
			}
			out[next] = time.Duration(low + into*(bucketLow(b+1)-low))
			next++
		}
		seen += float64(n)
	}
}
