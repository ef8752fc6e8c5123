package quota

import (
	"math"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// word is what the server said last.
type word struct {
	left  float64
	known bool          // there is one
	at    clock.Instant // when it was heard
	sum   float64       // level.sum when the attempt was sent that brought it
	until clock.Instant // no attempt goes before
}

// hear takes the server's word, which an attempt brought that was sent when l.sum was sum. It reports
// whether the word counts.
func (l *level) hear(now clock.Instant, r *policy.Remaining, sum, want float64) bool {
	if !(r.Left >= 0) || now < l.deaf {
		return false
	}
	if l.fresh(now) && sum < l.word.sum { // a newer one came before
		return false
	}
	l.refill(now)
	l.pay(now)
	if r.Limit > 0 && r.Limit <= maxLimit {
		l.limit = r.Limit
	}
	left := min(r.Left, l.amount())
	if l.rules.Window && r.Reset > 0 && !r.Full && !l.turn(now, now.Add(min(r.Reset, l.rules.Span)), left) {
		return false
	}
	l.count(now, left, sum)
	l.word = word{left: left, known: true, at: now, sum: sum, until: now}
	if !r.Full && r.Reset > 0 && left < want && left < l.amount()*cushion {
		l.word.until = now.Add(min(r.Reset, l.rules.Span))
	}
	return true
}

// turn hears when a window ends. It reports false if that is a window before the one that words spoke of
// already: attempts do not arrive in the order in which they were sent. A word may say when the window opens again, and not that it opens
// more often than once in a span, or more rarely: it may be wrong, or of other quotas.
func (l *level) turn(now, ends clock.Instant, left float64) bool {
	span, near := l.rules.Span, l.rules.Span/2
	if !l.open {
		l.begin(now)
	} else if l.word.known && l.word.at >= l.begins() && ends < l.ends.Add(-near) {
		return false
	}
	const slack = 20 // a span's part by which clocks differ
	first := l.last.Add(span - span/slack)
	if begins := ends.Add(-span); ends > l.ends.Add(near) && begins >= first { // it has opened again
		l.own = max(l.own, left)
		l.begun, l.last, l.ends = begins, begins, ends
	}
	l.ends = min(max(ends, first), l.begun.Add(span+span/slack))
	return true
}

const maxLimit = 1e15

// count learns from two words what others used in between. The server does not take attempts in the order in which they were sent,
// so of those that are out a word may count any. What theirs is wrong by for that reason is the less of the next word: it
// must not be cut off, or bursts of one process would look like the use of others.
func (l *level) count(now clock.Instant, left, sum float64) {
	if !l.fresh(now) {
		l.heard, l.mine, l.theirs, l.unsure = now, 0, 0, l.way
		return
	}
	age := l.inSpans(now.Sub(l.word.at))
	before := l.word.left
	if l.rules.Window {
		if l.word.at < l.begins() {
			return // it was of another window
		}
	} else {
		before = min(l.amount(), before+l.amount()*age)
	}
	keep := math.Exp(-age)
	l.unsure = max(l.unsure*keep, l.way)
	l.mine = l.mine*keep + max(sum-l.word.sum, 0)
	l.theirs = max(l.theirs*keep+before-(sum-l.word.sum)-left, -alone*l.mine-l.way)
	l.usual += (1 - math.Exp(-age)) * (min(l.height(now), 1) - l.usual)
}

// doubt counts words that little is left from attempts that the server took all the same. After some of
// them no word counts for a while.
func (l *level) doubt(now clock.Instant, refused bool) {
	switch {
	case refused:
		l.bare, l.deaf, l.lies = 0, now, 0
	case l.word.known && l.word.left <= l.amount()*cushion:
		if l.bare++; l.bare >= mostBare {
			l.disbelieve(now)
		}
	default:
		l.bare = 0
	}
}

// disbelieve lets no word count for a while.
func (l *level) disbelieve(now clock.Instant) {
	l.bare, l.deaf = 0, now.Add(deafFor<<l.lies*l.rules.Span)
	l.lies = min(l.lies+1, mostLies)
}
