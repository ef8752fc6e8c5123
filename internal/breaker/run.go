package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// runLasts is the bit of Breaker.run which says that not all of its calls can have been
// out at the same time. The bits below count them, and stay at the most.
const (
	runLasts = 1 << 31
	runCount = runLasts - 1
)

// track counts the failures in a row.
func (b *Breaker) track(now clock.Instant, p Permit, r *Rules, failed bool) {
	switch {
	case !r.countsRun():
	case failed:
		b.lengthen(now, p.start)
	case b.run.Load() != 0:
		endRun(b, now)
	}
}

// endRun ends a run of failures, and keeps its length: one as long may be chance where most calls fail. Runs that
// end at the same time may lose one. Short runs, which change nothing, are not kept, and their end is not either
// while nothing is kept: looking at them again costs each next run.
func endRun(b *Breaker, now clock.Instant) {
	r := b.rules.Load()
	run, longest := b.run.Load()&runCount, b.longest.Load()
	long := r.enough(run) > int64(r.Consecutive)
	if long || longest != 0 {
		b.since.Store(int64(now)) // before the next run begins, which stores its own
	}
	b.run.Store(0)
	if long {
		b.longest.Store(max(longest, run))
	}
}

// forgetRuns forgets how long runs were once fewer than half of the calls in the window fail: then the
// next run is not one of these. Nor is it if the last one ended before the window began: where calls are rare, the window
// holds little more than the failure that has come now.
func forgetRuns(b *Breaker, now clock.Instant) {
	if b.longest.Load() != 0 && remembered(b, now) == 0 {
		b.longest.Store(0)
	}
}

// remembered is the longest run that a run which began now would be held against.
func remembered(b *Breaker, now clock.Instant) uint32 {
	longest := b.longest.Load()
	if longest == 0 || now.Sub(clock.Instant(b.since.Load())) > b.rules.Load().Window {
		return 0
	}
	if c := b.win.Sum(now); 2*c.Failures < c.Calls {
		return 0
	}
	return longest
}

// tooLong is how many failures in a row open the breaker now, once they have lasted long enough.
func tooLong(b *Breaker, now clock.Instant, r *Rules) int {
	if r.doubts(now, Doubted) {
		return int(min(Doubted, r.enough(0)))
	}
	if b.runLength() == 0 {
		return int(r.enough(remembered(b, now)))
	}
	return int(r.enough(b.longest.Load()))
}

// lengthen adds a failure of a call that began then. When the first call of the run ended
// is not kept: it is taken to have been out for as long as this one.
func (b *Breaker) lengthen(now, began clock.Instant) {
	for {
		run := b.run.Load()
		next := run&runLasts | min(run&runCount+1, runCount)
		if run&runCount == 0 {
			forgetRuns(b, now)
			b.since.Store(int64(began))
		} else if began.Sub(clock.Instant(b.since.Load())) > max(now.Sub(began), 0) {
			next |= runLasts
		}
		if b.run.CompareAndSwap(run, next) {
			return
		}
	}
}

// runLength returns how many calls failed in a row.
func (b *Breaker) runLength() uint32 { return b.run.Load() & runCount }

// lasted returns how long the run of failures has lasted, if there is one.
func (b *Breaker) lasted(now clock.Instant) time.Duration {
	return now.Sub(clock.Instant(b.since.Load()))
}

// FailureRun returns how many calls failed in a row, up to now. It is 0 unless the
// breaker counts and its rules keep the run. Lasts says that these calls were not all out
// at the same time, as calls are that meet one short disturbance: one of them began after
// the first had, by more than it took.
func (b *Breaker) FailureRun() (failures uint32, lasts bool) {
	if !counts(b.state()) || !b.rules.Load().countsRun() {
		return 0, false
	}
	run := b.run.Load()
	return run & runCount, run > runLasts
}
