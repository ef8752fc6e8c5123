// Package throttle rejects calls locally when a dependency rejects most of them.
//
// It is adaptive throttling as in Beyer et al., "Site Reliability Engineering"
// (2016), chapter 21: the more of the recent requests were not accepted, the more
// of the next ones are not sent, and each that is sent finds out anew.
package throttle

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// buckets is how many parts of its window a Throttle forgets one at a time: ten
// seconds of the usual two minutes.
const buckets = 12

// Throttle counts requests and how many of them were accepted over the last
// window of time. What is older is forgotten whether or not anything is counted
// since, so an idle Throttle rejects nothing.
//
// Every request needs the sum, so the counters are not divided: to read those of many
// processors would cost more than to take turns at one.
//
// A Throttle is made by [Make]; the zero Throttle can't be used. All methods are
// safe for concurrent use. It must not be copied after first use.
type Throttle struct {
	sent window.Window // requests are its calls, accepts its failures
}

// Make returns an empty throttle over the last window of time, rounded up to
// twelve whole buckets.
func Make(span time.Duration) (t Throttle) {
	t.sent = window.MakePairs(span, buckets)
	return
}

// Request counts a call when it starts, also one that is then rejected locally:
// otherwise rejecting would look like recovery.
func (t *Throttle) Request(now clock.Instant) { t.sent.Add(now, 1, 0, 0) }

// Accept counts the request of the time at as accepted by the dependency: it did
// the work, or refused for another reason than load. It counts at now; but when
// the request is a window old, and so forgotten, its accept is not counted.
func (t *Throttle) Accept(at, now clock.Instant) {
	if now.Sub(at) < t.sent.Span() {
		t.sent.Add(now, 0, 1, 0)
	}
}

// Forget takes the request of the time at back, when its end says nothing about
// the dependency. It reports false when the request is forgotten already.
func (t *Throttle) Forget(at, now clock.Instant) bool { return t.sent.Take(at, now, 1, 0) }

// Admit counts a request as [Throttle.Request] does, and returns the probability
// with which to reject it, which is the [Throttle.Probability] just before.
func (t *Throttle) Admit(now clock.Instant, k float64) float64 {
	p := t.Probability(now, k)
	t.Request(now)
	return p
}

// Probability returns the share of requests to reject locally at now,
// max(0, (requests − k·accepts)/(requests + 1)). It is 0 as long as the
// dependency accepts one of k requests, and always below 1, so that some get
// through to find out. A negative k counts as 0; one that is NaN rejects nothing.
func (t *Throttle) Probability(now clock.Instant, k float64) float64 {
	sum := t.sent.Sum(now)
	// The conversion of the product keeps it from being fused with the
	// subtraction, so that all machines reject alike.
	over := float64(sum.Calls) - float64(max(k, 0)*float64(sum.Failures))
	if !(over > 0) {
		return 0
	}
	return over / float64(sum.Calls+1)
}

// Counts returns the requests and accepts that are remembered at now.
func (t *Throttle) Counts(now clock.Instant) (requests, accepts int64) {
	sum := t.sent.Sum(now)
	return sum.Calls, sum.Failures
}
