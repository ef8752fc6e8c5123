package machine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// A pacer spaces the calls of a partition after the dependency asked for time. It gives
// each call a start time, at a rate that the dependency has answered well, so that they
// don't all go at once when the time is over.
//
// A few refusals among many successes are no limit, and no call is spaced for them.
// Otherwise the rate is what was answered well in the second before. It is measured anew
// each second. While the dependency goes on asking for time, the rate is a tenth more
// than what succeeded. Once it does not, the rate doubles each second, up to a third more
// than the calls that come, so that those that waited don't come all together. Pacing
// ends when no call has to wait, or some have no time for it, the rate is above what comes, and none waits now.
// If fewer calls don't mean that a larger part is answered, pacing ends for a while: see spaced.
// Where nothing succeeded there is no rate. Then no call goes before the time is over,
// unless an attempt that was already out succeeds.
//
// A pacer is made when a partition is first refused, and kept.
type pacer struct {
	active atomic.Bool   // calls are spaced; stored under mu
	counts atomic.Bool   // it was asked for time lately, so answers are counted; stored under mu
	run    atomic.Uint32 // answers in a row that asked for less and named no time
	full   atomic.Bool   // who asked for time last had no room for more work, and no quota that was used up

	mu       sync.Mutex    // guards all below
	until    clock.Instant // the time that was asked for
	asking   clock.Instant // when it was asked for
	since    clock.Instant // when this second of counting began
	next     clock.Instant // the next start time that is free
	wanted   float64       // calls a second that asked for a start time, smoothed over some seconds
	rate     float64       // start times a second; 0 while nothing succeeds
	accepted int           // successes in this second
	refused  int           // answers in this second that asked for time
	came     int           // calls that asked for a start time in this second
	asked    bool          // the dependency asked for time in this second
	waited   bool          // a call had to wait in this second
	short    bool          // a call that had to wait had no time for it
	unproven bool          // nothing succeeded before, and nothing was measured since
	guessed  bool          // calls are spaced because others said so, and this process was not asked for time yet

	takes time.Duration // how long an answer that is good takes, smoothed over some of them

	dry  dry
	seen spaced
}

const (
	pacePeriod  = time.Second
	paceGrowth  = 1.1         // of what succeeded: to find out whether more is possible
	paceDecay   = 0.5         // of the rate, at least, after a second in which less succeeded
	fullGrowth  = 1.25        // paceGrowth of a server without room: what it can do moves, and refusing more is cheap
	fullDecay   = 0.8         // paceDecay likewise
	paceMostly  = 4           // successes for each refusal: with so many there is no limit
	paceSlight  = 3           // so few refusals say nothing about other calls
	paceLeast   = 0.25        // start times a second; a lower rate is none
	paceCatchUp = 1.3         // of the calls that come: how fast those that wait are let go
	paceQueue   = time.Second // longest wait for a start time where there is a rate: a longer queue only makes all late
	paceShort   = 2           // times what a good answer takes: the longest wait for a server without room
	paceSmooth  = 0.2         // of the newest second
	paceAnswer  = 4           // times what a good answer takes must be left after a wait: of exponential times 98 % are shorter
	paceAnswers = 8           // how many answers are smoothed over
	paceReturn  = 2           // start times a second, at least, after a time in which nothing succeeded
)

// successes are what a dependency answered well just now.
type successes struct {
	n      int64 // in the last second or so
	rate   float64
	worked bool // anything was; of a partition lately
}

// hold spaces calls until then if refusals are more than a few among what was answered
// well, and reports whether that is new. Named means that the dependency named the time:
// then calls are also spaced for a single refusal where nothing succeeded.
func (p *pacer) hold(now, until clock.Instant, named bool, lately successes) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until <= now {
		return false
	}
	if !p.active.Load() && p.seen.off(now) {
		p.counts.Store(true) // so that accept counts the next success
		return false
	}
	if !p.active.Load() {
		if !p.counts.Load() || now.Sub(p.since) >= pacePeriod {
			p.since, p.accepted, p.refused = now, int(lately.n), 0
			p.counts.Store(true)
		}
		if p.refused++; p.slight() && (p.accepted > 0 || !named) {
			return false
		}
		p.begin(now, lately.rate)
		news = true
	} else {
		p.refused++
	}
	if news = news || until > p.until; news {
		p.until, p.asking = until, now
	}
	p.asked, p.guessed = true, false
	p.measure(now)
	return news
}

// allRefused reports whether more than a few answers in a row asked for less. A quota lets some
// calls through. A dependency that refuses all of them is out of order. A nil pacer saw none.
func (p *pacer) allRefused() bool { return p != nil && p.run.Load() > paceSlight }

// refuse counts an answer that asked for less and named no time, and reports whether calls are to be
// spaced for it. Where nothing succeeds there is no rate for them, and to space them would
// only lose those that come when the dependency is back. Of one that never worked nothing is known,
// and calls are spaced.
func (p *pacer) refuse(lately successes) (spaces bool) {
	if lately.worked || p.run.Load() > 0 {
		p.run.Add(1)
	}
	if lately.n > 0 || !p.allRefused() {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active.Store(false)
	return false
}

// slight reports whether the refusals of this second are few among its successes.
func (p *pacer) slight() bool { return p.refused <= paceSlight || paceMostly*p.refused <= p.accepted }

// begin begins to space calls, at a rate if one is known.
func (p *pacer) begin(now clock.Instant, rate float64) {
	if over := now.Sub(p.since); rate == 0 && over > 0 {
		rate = float64(p.accepted) / max(over, pacePeriod/20).Seconds()
	}
	p.since, p.next = now, now
	p.rate, p.wanted, p.unproven = rate, rate, p.accepted == 0
	p.accepted, p.refused, p.came, p.waited, p.short = 0, 1, 0, false, false
	p.seen.begin()
	p.active.Store(true)
}

// accept counts a success that took so long. A nil pacer counts none.
func (p *pacer) accept(now clock.Instant, took time.Duration) {
	if p == nil {
		return
	}
	if p.dry.on.Load() {
		p.disprove(now.Add(-took))
	}
	if p.run.Load() != 0 {
		p.run.Store(0)
	}
	if !p.counts.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.dead = 0
	active := p.active.Load()
	if !active && now.Sub(p.since) >= pacePeriod {
		p.counts.Store(false)
		return
	}
	p.accepted++
	p.takes += (took - p.takes) / paceAnswers
	if active && p.unproven && p.slight() { // so it does accept, and mostly
		p.active.Store(false)
	}
}

// measure computes the rate anew when a second is over.
func (p *pacer) measure(now clock.Instant) {
	lasted := now.Sub(p.since)
	if lasted < pacePeriod {
		return
	}
	growth, decay := paceGrowth, paceDecay
	if p.full.Load() && p.accepted > 0 { // one that does nothing asks for its time
		growth, decay = fullGrowth, fullDecay
	}
	succeeded := float64(p.accepted) / lasted.Seconds()
	came := float64(p.came) / lasted.Seconds()
	if p.wanted == 0 {
		p.wanted = came
	}
	p.wanted += paceSmooth * (came - p.wanted)
	useless, stay := p.seen.second(now, p.accepted, p.refused, lasted, p.rate)
	// Calls that go at a rate find out by themselves that the limit has gone.
	switch over := now >= p.until || p.rate >= paceLeast; {
	case useless, p.guessed && p.accepted > 0:
		p.active.Store(false)
	case over && !p.asked && (!p.waited || p.short && p.next <= now && p.rate > p.wanted):
		p.active.Store(false)
	case over && !p.asked:
		p.rate = max(min(2*p.rate, paceCatchUp*p.wanted), p.rate, p.least())
	case p.asked && p.accepted >= paceMostly*p.refused: // so few refusals are no limit
		p.rate = max(min(2*p.rate, paceCatchUp*max(p.wanted, came)), growth*succeeded)
		p.seen.begin()
	case p.asked && stay > 0:
		p.rate = max(growth*succeeded, stay)
	case p.asked:
		p.rate = max(growth*succeeded, decay*p.rate)
	}
	p.since, p.accepted, p.refused, p.came, p.asked, p.waited, p.short = now, 0, 0, 0, false, false, false
	p.unproven = false
}

// guess makes a new pacer space calls because others were asked for time. Where they know no rate, the first success
// shows that it is over; else a second without a refusal does.
func (p *pacer) guess(now, until clock.Instant, rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unproven = !(rate >= paceLeast)
	if !(rate >= guessedRate) { // it may be NaN
		rate = guessedRate
	}
	p.until, p.asking, p.since, p.next = until, now, now, now
	p.rate, p.wanted, p.guessed = rate, rate, true
	p.counts.Store(true)
	p.active.Store(true)
}

// learned is at which rate calls are spaced and for how long at least, if the dependency asked this process for
// time. A nil pacer knows nothing.
func (p *pacer) learned(now clock.Instant) (rate float64, held time.Duration) {
	if p == nil {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.active.Load() || p.guessed || now >= p.until {
		return 0, 0
	}
	return p.rate, p.until.Sub(now)
}

// reserve takes the next start time, if it is not later than last, and where there is a rate
// within p.queue and early enough for an answer by the deadline. It returns that time in
// any case. U is a draw by which calls are
// spread where there is no rate.
func (p *pacer) reserve(now, last, deadline clock.Instant, u float64) (at clock.Instant, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.measure(now); !p.active.Load() {
		return now, true
	}
	p.came++
	if p.rate < paceLeast && now < p.until {
		at = p.spread(last, u)
		p.waited = true
		return at, at <= last
	}
	at = max(p.next, now)
	p.waited = p.waited || at > now
	if at > last || at.Sub(now) > p.queue() || at > now && at.Add(paceAnswer*p.takes) > deadline {
		p.short = p.short || at.Sub(now) <= p.queue()
		return at, false
	}
	gap, from := time.Duration(1e9/max(p.rate, p.least())), at
	if p.full.Load() { // a start time that no call took goes to the next one
		from = max(p.next, now.Add(-gap))
	}
	p.next = from.Add(gap)
	return at, true
}

// queue is how long a call may wait for its start time where there is a rate. Where a quota is
// used up, that evens out the arrivals. A server without room has a queue of its own, and
// what waits before it is only answered later.
func (p *pacer) queue() time.Duration {
	if p.full.Load() && p.takes > 0 {
		return min(paceQueue, paceShort*p.takes)
	}
	return paceQueue
}

// longest is queue for who does not hold the lock.
func (p *pacer) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue()
}

// spread is when a call goes that comes while none may. Such calls are spread over twice
// the time that was asked for, if they can wait so long, so that they add half to the
// calls that come then.
func (p *pacer) spread(last clock.Instant, u float64) clock.Instant {
	over := min(2*p.until.Sub(p.asking), max(last.Sub(p.until), 0))
	return p.until.Add(time.Duration(float64(u * float64(over))))
}

// least is the rate at which calls begin to go where none is known: as they come.
func (p *pacer) least() float64 {
	if p.rate >= paceLeast {
		return 0
	}
	return max(paceReturn, p.wanted, float64(p.came))
}

// held returns until when no call may go, if that lies ahead.
func (p *pacer) held(now clock.Instant) (until clock.Instant, held bool) {
	if p == nil {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active.Load() && now < p.until {
		until, held = p.until, true
	}
	if p.dry.on.Load() && now < p.dry.until {
		until, held = max(until, p.dry.until), true
	}
	return until, held
}

// takeStart takes a start time while calls are spaced because the dependency, or this
// call's partition of it, asked for time. It reports false when the call must wait for
// it, or has ended.
func (c *Call) takeStart(p *pacer, now clock.Instant) (due bool) {
	if c.rules.Policy.Pace.Off || c.taken.has&aStart != 0 {
		return true
	}
	if p.dry.on.Load() && !p.awaitRoom(c, now) {
		return false
	}
	if !p.active.Load() {
		return true
	}
	last := p.last(c, now)
	at, ok := p.reserve(now, last, c.deadline, chance.U(c.draw(), 0, uint64(c.sent.n), chance.Pacing))
	if !ok {
		most := last.Sub(now)
		if at <= last {
			most = p.longest()
		}
		c.tooLong(at.Sub(now), most)
		c.refuse(now, policy.Paced, at.Sub(now))
		return false
	}
	c.taken.has |= aStart
	if at <= now {
		return true
	}
	if _, shut := c.shut(at); shut { // no sleep into an open breaker
		after, _ := c.shut(now)
		c.refuse(now, policy.BreakerOpen, after)
		return false
	}
	c.waitIn(resting, now, at, terms.ForPace)
	return false
}

// paced reports whether calls are spaced, so that a hedge has no place.
func (c *Call) paced() bool {
	p := c.part.pacer.Load()
	return p != nil && p.on() && !c.rules.Policy.Pace.Off
}
