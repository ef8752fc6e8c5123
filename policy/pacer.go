package policy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/clock"
)

// A pacer spaces the calls of a lane after the dependency asked for time, so that it
// gets them one after the other, at a rate that it has shown to bear, and not all at
// once when the time is over.
//
// That rate is what it answered well in the second before, and is measured anew each
// second: a tenth more than what succeeded while it goes on asking for time. Once the
// time is over and it does not, the rate doubles each second up to a third more than
// what comes, so that those who waited are no wave. Pacing ends when nobody has to wait.
// Where nothing succeeded there is no rate: then nobody goes before the time is over.
//
// It is made when a lane is first held back, and kept.
type pacer struct {
	active atomic.Bool // calls are spaced; stored under mu

	mu       sync.Mutex    // guards all below
	until    clock.Instant // the time that was asked for
	asking   clock.Instant // when it was asked for
	since    clock.Instant // when this second of measuring began
	next     clock.Instant // the next turn that is free
	wanted   float64       // calls a second that wanted a turn, smoothed over some seconds
	rate     float64       // turns a second; 0 while nothing succeeds
	accepted int           // successes in this second
	refused  int           // answers in this second that asked for time
	came     int           // calls that wanted a turn in this second
	asked    bool          // the dependency asked for time in this second
	waited   bool          // somebody had to wait in this second
}

const (
	pacePeriod  = time.Second
	paceGrowth  = 1.1         // of what succeeded: to find out whether more is possible
	paceDecay   = 0.5         // of the rate, at least, after a second in which less succeeded
	paceMostly  = 4           // successes for each refusal: what accepts so many limits nobody
	paceLeast   = 0.25        // turns a second; what is less is none
	paceCatchUp = 1.3         // of the calls that come: so fast those who wait are let go
	paceQueue   = time.Second // longest wait for a turn where there is a rate: a longer queue only makes all late
	paceSmooth  = 0.2         // of the newest second
	paceReturn  = 2           // turns a second, at least, after a time in which nothing succeeded
)

// hold holds calls back until then, and says whether that was news. Bears is how many
// successes a second there were before.
func (p *pacer) hold(now, until clock.Instant, bears float64) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until <= now {
		return false
	}
	if news = until > p.until || !p.active.Load(); news {
		p.until, p.asking = until, now
	}
	if !p.active.Load() {
		p.since, p.next, p.rate, p.wanted, p.accepted, p.came, p.waited = now, now, bears, bears, 0, 0, false
		p.active.Store(true)
	}
	p.asked = true
	p.refused++
	p.measure(now)
	return news
}

// accept counts a success. A nil pacer counts none.
func (p *pacer) accept() {
	if p == nil || !p.active.Load() {
		return
	}
	p.mu.Lock()
	p.accepted++
	p.mu.Unlock()
}

// measure ends a second that is over.
func (p *pacer) measure(now clock.Instant) {
	lasted := now.Sub(p.since)
	if lasted < pacePeriod {
		return
	}
	succeeded := float64(p.accepted) / lasted.Seconds()
	p.wanted += paceSmooth * (float64(p.came)/lasted.Seconds() - p.wanted)
	switch over := now >= p.until; {
	case over && !p.asked && !p.waited:
		p.active.Store(false)
	case over && !p.asked:
		p.rate = max(min(2*p.rate, paceCatchUp*p.wanted), p.rate, p.returns())
	case p.asked && p.accepted >= paceMostly*p.refused: // what it refuses is no limit
		p.rate = max(2*p.rate, paceGrowth*succeeded)
	case p.asked:
		p.rate = max(paceGrowth*succeeded, paceDecay*p.rate)
	}
	p.since, p.accepted, p.refused, p.came, p.asked, p.waited = now, 0, 0, 0, false, false
}

// turn takes the next turn, if it is not later than last; it says when that is in any
// case. U is a draw for who goes when, where there is no rate.
func (p *pacer) turn(now, last clock.Instant, u float64) (at clock.Instant, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.measure(now); !p.active.Load() {
		return now, true
	}
	p.came++
	if p.rate < paceLeast && now < p.until {
		at = p.afterwards(last, u)
		p.waited = true
		return at, at <= last
	}
	at = max(p.next, now)
	p.waited = p.waited || at > now
	if at > last || at.Sub(now) > paceQueue {
		return at, false
	}
	p.next = at.Add(time.Duration(1e9 / max(p.rate, p.returns())))
	return at, true
}

// afterwards is when a call goes that comes while nobody may: spread over twice the
// time that was asked for, if the call can wait so long, so that those who came
// meanwhile add half to those who come then.
func (p *pacer) afterwards(last clock.Instant, u float64) clock.Instant {
	spread := min(2*p.until.Sub(p.asking), max(last.Sub(p.until), 0))
	return p.until.Add(time.Duration(float64(u * float64(spread))))
}

// returns is the rate with which calls begin to go where none is known: as they come.
func (p *pacer) returns() float64 {
	if p.rate >= paceLeast {
		return 0
	}
	return max(paceReturn, p.wanted, float64(p.came))
}

// held returns until when the lane is held back, if it is.
func (p *pacer) held(now clock.Instant) (clock.Instant, bool) {
	if p == nil {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until, p.active.Load() && now < p.until
}
