// Package endpoints chooses among several ways to one dependency: replicas and regions
// that are equal, or a primary with backups.
//
// It is pure: time and random numbers are arguments, and whether an endpoint works is
// known by its breaker, which the caller asks. Equal endpoints are chosen by the better of
// two random ones (Mitzenmacher, "The power of two choices", 2001), measured by smoothed
// latency times attempts under way, as Finagle's peak EWMA does. An attempt that failed
// or was refused counts as twice as slow as what was known, so that quick failures attract nothing.
package endpoints

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Max is the most endpoints of one dependency: a set of them is one word.
const Max = 64

// Rules say how endpoints are chosen.
type Rules struct {
	Ordered   bool          // the first one that works; else all are equal
	Standing  float64       // ordered: share of first attempts that go to a backup though none is needed
	Ejected   float64       // share of the endpoints that may be left out at once, but one in any case
	SlowStart time.Duration // how long one that returns takes until it has its whole share; zero means none
}

// Endpoint is what is known of one endpoint. It is safe for concurrent use.
type Endpoint struct {
	out      atomic.Int32 // written under mu, as are gone and starting; read without it where a call looks at all endpoints
	gone     atomic.Bool  // it is left out
	starting atomic.Bool  // it came back, and has not its whole share yet

	mu      sync.Mutex // guards all below
	sent    int64
	failed  int64
	cost    float64       // smoothed time of an attempt in nanoseconds; zero means not known
	took    float64       // of those that succeeded, likewise; it is not forgotten while nothing is sent
	moved   clock.Instant // when cost was last moved
	heard   clock.Instant // when an attempt last ended, or when the first of those under way began
	good    clock.Instant // when an attempt last succeeded
	worked  bool          // one ever did
	changed clock.Instant // when it was left out, or came back
	guessed bool          // cost is what others say
}

const (
	forget    = 5 * time.Second       // time constant in which cost goes down
	rise      = 4                     // of a slower attempt: cost goes up by a quarter of the difference
	leastFail = 10 * time.Millisecond // what a failure costs at least
	mostCost  = time.Minute
	leastWay  = 0.1 // share that one has as soon as it returns
)

// Result is what an attempt showed of its endpoint.
type Result uint8

// What an attempt can show.
const (
	Nothing Result = iota // such as one that was given up: it would have taken longer than it did
	Good
	Bad
)

// Enter counts an attempt that begins.
func (e *Endpoint) Enter(now clock.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.out.Add(1) == 1 {
		e.heard = now
	}
	e.sent++
}

// Leave counts an attempt that ends after it took so long.
func (e *Endpoint) Leave(now clock.Instant, took time.Duration, r Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out.Add(-1)
	if e.guessed && r != Nothing {
		e.cost, e.guessed = 0, false
	}
	cost, t := e.known(now), float64(max(took, 1))
	switch r {
	case Nothing:
		if cost == 0 || t <= cost {
			return
		}
		e.cost = cost + float64((t-cost)/rise)
	case Bad:
		e.failed++
		e.heard = now
		e.cost = min(max(t, 2*cost, float64(leastFail)), float64(mostCost))
	case Good:
		e.heard, e.good, e.worked = now, now, true
		e.cost = e.smoothed(now, cost, t)
		e.took = e.smoothed(now, e.took, t)
	}
	e.moved = now
}

// smoothed is a time after an answer that took t.
func (e *Endpoint) smoothed(now clock.Instant, cost, t float64) float64 {
	switch {
	case cost == 0:
		return t
	case t > cost:
		return cost + float64((t-cost)/rise)
	}
	keep := float64(forget) / float64(forget+max(now.Sub(e.moved), 0))
	return float64(cost*keep) + float64(t*(1-keep))
}

// known is the cost now. It halves in each time in which nothing is sent, so that one that was slow is
// tried again.
func (e *Endpoint) known(now clock.Instant) float64 {
	idle := max(now.Sub(e.moved)-forget, 0)
	halves, rest := idle/forget, idle%forget
	return math.Ldexp(e.cost, -int(min(halves, 100))) * (1 - float64(rest)/float64(2*forget))
}

// When attempts are out that have no answer, they are taken for lost.
const (
	silentOut   = 5 // are out at least
	silentTimes = 8 // and none has ended for as long as that many take
	silentLeast = 500 * time.Millisecond
)

// Silent reports whether several attempts are out and none has ended for long, which a breaker sees
// only when their timeouts have passed.
func (e *Endpoint) Silent(now clock.Instant) bool {
	if e.out.Load() < silentOut {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.out.Load() >= silentOut && now.Sub(e.heard) > max(silentLeast, time.Duration(silentTimes*min(e.cost, float64(mostCost))))
}

// note notes whether the endpoint is left out, and reports a change.
func (e *Endpoint) note(now clock.Instant, gone bool) (changed bool) {
	if gone == e.gone.Load() {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if gone == e.gone.Load() { // another call has noted it
		return false
	}
	e.changed = now
	e.gone.Store(gone)
	e.starting.Store(!gone)
	if !gone {
		e.cost, e.took = 0, 0 // what was known of it is of the time before
	}
	return true
}

// Join makes an endpoint begin slowly that is new among others.
func (e *Endpoint) Join(now clock.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed = now
	e.starting.Store(true)
}

// Expect says what an attempt takes, as others know it. It counts until the first attempt has ended.
func (e *Endpoint) Expect(now clock.Instant, cost time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sent == 0 && e.cost == 0 && cost > 0 {
		e.cost, e.moved, e.guessed = float64(cost), now, true
	}
}

// Learned is what an attempt takes, as far as this process knows it by itself; zero means not known.
func (e *Endpoint) Learned(now clock.Instant) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guessed {
		return 0
	}
	return time.Duration(e.known(now))
}

// Took is what an attempt took when there were some, however long ago that is; zero means not known.
func (e *Endpoint) Took() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration(max(e.took, e.cost))
}

// Answered is what attempts that succeeded took before it was left out; zero means not known.
func (e *Endpoint) Answered() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Duration(e.took)
}

// share is the part of its usual share that it gets now.
func (e *Endpoint) share(now clock.Instant, over time.Duration) float64 {
	if !e.starting.Load() {
		return 1
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	since := now.Sub(e.changed)
	if since >= over {
		e.starting.Store(false)
		return 1
	}
	return max(float64(since)/float64(over), leastWay)
}

// load is what two are compared by.
func (e *Endpoint) load(now clock.Instant) (cost float64, out int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known(now), int(e.out.Load())
}

// Stats is an endpoint at one moment.
type Stats struct {
	Out          int // attempts that are out
	Sent, Failed int64
	Cost         time.Duration // smoothed time of an attempt; zero means not known
	Gone         bool          // it is left out
	Worked       bool          // an attempt ever succeeded
	Good         clock.Instant // when the last one did
}

// Stats returns a snapshot.
func (e *Endpoint) Stats(now clock.Instant) Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Stats{Out: int(e.out.Load()), Sent: e.sent, Failed: e.failed, Cost: time.Duration(e.known(now)), Gone: e.gone.Load(), Worked: e.worked, Good: e.good}
}

// Set is a set of endpoints by their places in the list.
type Set uint64

// Of is the set of one.
func Of(i int) Set { return 1 << i }

// Has reports whether the i-th is in it.
func (s Set) Has(i int) bool { return s>>i&1 != 0 }

// Len is how many there are.
func (s Set) Len() int { return bits.OnesCount64(uint64(s)) }

// First is the first of them.
func (s Set) First() int { return bits.TrailingZeros64(uint64(s)) }

// nth is the n-th of them, from 0.
func (s Set) nth(n int) int {
	for ; n > 0; n-- {
		s &= s - 1
	}
	return s.First()
}

// pick is one of them by a draw.
func (s Set) pick(u float64) int { return s.nth(min(int(u*float64(s.Len())), s.Len()-1)) }
