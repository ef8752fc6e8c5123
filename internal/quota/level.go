package quota

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// level is what is known of one quota: what this process has used of it by its own count, and what the
// server said is left. The smaller of the two counts.
//
// Others may use the same quota, and are never heard of. So where the server's word falls faster than
// own use explains, each attempt has a price: it must be paid off, at a rate that falls with the server's
// level, before the next one goes. All processes slow down as the level falls, until together they use
// what comes back, and none needs to know how many they are.
type level struct {
	rules policy.Quota // resolved
	share share

	own   float64       // left by own count
	at    clock.Instant // when own was right
	ends  clock.Instant // of a window: when it ends
	open  bool          // the window has begun, so ends and begun mean something
	begun clock.Instant // when that was, by own count
	last  clock.Instant // when the window before it ended
	ended clock.Instant // when the last attempt was sent of those that have ended
	sum   float64       // used by own count since the beginning
	out   int           // attempts that are out
	way   float64       // what they took

	word  word
	limit float64 // as the server says, as long as its word counts; zero: it does not

	usual        float64 // height at the end of the last window
	debt         float64 // still to be paid off before the next attempt may go
	paid         clock.Instant
	mine, theirs float64       // used lately, by words
	unsure       float64       // by how much theirs may be wrong: what was out when the last word came
	heard        clock.Instant // when the first of the words that follow each other closely came
	bare         int           // words in a row that little is left, from attempts that were not refused
	deaf         clock.Instant // until when no word counts
	lies         int           // how often words have been found to be wrong since an attempt was last refused
	bias         bias
}

const (
	cushion  = 0.02 // of the amount is left alone: clocks and latencies differ
	mostCare = 0.25 // of the amount is left alone at most because estimates are wrong
	full     = 0.8  // from this level on, the price is that of the refill
	empty    = 0.15 // at this level the price is a thousand times that
	steep    = 3 * math.Ln10 / (full - empty)
	cheapest = 2.0
	least    = 0.4
	kept     = 0.1 // of the amount is left alone by one that is alone, so that one that comes is not refused
	entry    = 0.2 // the least price of one that is new, so that the others notice it
	half     = 0.5 // of what this process had lately is the least price
	rise     = 2
	foot     = 0.02
	firstOut = 0.05 // of the amount may be used before the first word or answer came, and one attempt in any case
	stale    = 2    // spans after which a word means nothing
	alone    = 0.03 // share of others below which they don't matter
	deafFor  = 4    // spans
	mostBare = 8
	mostLies = 6
	careless = 10 // amounts: the most that one attempt can have used
	lastPart = 0.05
)

// amount is how much there is: what is configured, or less if the server says so.
func (l *level) amount() float64 {
	if l.limit > 0 && l.limit < l.rules.Amount {
		return l.limit
	}
	return l.rules.Amount
}

// part is this process's part of the amount: what was agreed on, or what it may have where no words tell what
// others use.
func (l *level) part(now clock.Instant) float64 {
	if l.share.on {
		return l.amount() * l.share.part
	}
	if l.rules.Among > 1 && !l.fresh(now) {
		return l.rules.Amount / float64(l.rules.Among)
	}
	return l.rules.Amount // a limit that the server named counts with its word, which may be of other requests
}

func (l *level) fresh(now clock.Instant) bool {
	return l.word.known && now.Sub(l.word.at) < stale*l.rules.Span && now >= l.deaf
}

// inSpans is d as a number of spans.
func (l *level) inSpans(d time.Duration) float64 { return float64(d) / float64(l.rules.Span) }

// spans is that many spans as a time, rounded up.
func (l *level) spans(n float64) time.Duration {
	return time.Duration(math.Ceil(min(max(n, 0), 1e3) * float64(l.rules.Span)))
}

// refill brings the own count to now. What the server said of the amount ages as its words do: a call that
// needs more would be refused for ever, and so would never hear another one.
func (l *level) refill(now clock.Instant) {
	if l.limit > 0 && !l.fresh(now) {
		l.limit = 0
	}
	if now <= l.at {
		return
	}
	part := l.part(now)
	switch {
	case !l.rules.Window:
		l.own = min(part, l.own+part*l.inSpans(now.Sub(l.at)))
	case !l.open || now >= l.ends:
		if l.open {
			l.last = l.ends
		}
		l.own, l.open = part, false
	default:
		l.own = min(l.own, part)
	}
	l.at = now
}

// told is the server's level now: its last word, what came back since, and less what was
// sent since.
func (l *level) told(now clock.Instant) float64 {
	since := l.sum - l.word.sum
	if !l.rules.Window {
		return min(l.amount(), l.word.left+l.amount()*l.inSpans(now.Sub(l.word.at))-since)
	}
	if !l.open || now >= l.ends || l.word.at < l.begun { // the word was of another window
		return min(l.own, l.amount())
	}
	if !l.shared(now) {
		return l.word.left - since
	}
	rest := max(l.inSpans(l.ends.Sub(l.word.at)), lastPart)
	return l.word.left*(1-min(l.inSpans(now.Sub(l.word.at))/rest, 1)) - since
}

// height is the server's level as a share of what it should be now: of the amount, or in a window of what the
// straight line to its end leaves. Others are thought to use what comes back.
func (l *level) height(now clock.Instant) float64 {
	since := l.sum - l.word.sum
	if !l.rules.Window {
		back := l.amount() * l.inSpans(now.Sub(l.word.at)) * drift
		return min(1, (l.word.left+back-since)/l.amount())
	}
	if !l.open || now >= l.ends || l.word.at < l.begins() {
		return max(l.usual, least)
	}
	rest := max(l.inSpans(l.ends.Sub(l.word.at)), lastPart)
	gone := min(l.inSpans(now.Sub(l.word.at))/rest, 1)
	others := l.word.left * gone * (1 - drift)
	return (l.word.left - others - since) / (l.amount() * max(rest*(1-gone), lastPart))
}

const drift = 0.5 // of what comes back while nothing is heard is thought not to be used by others

// begins is when the window that is on has begun.
func (l *level) begins() clock.Instant { return l.ends.Add(-l.rules.Span) }

// price is the share of the refill at which a debt is paid off.
func (l *level) price(now clock.Instant) float64 {
	h := l.height(now)
	price := min(math.Exp(steep*(h-full)), cheapest)
	share := 1.0
	if all := l.mine + max(l.theirs, 0); all > 0 {
		share = l.mine / all
	}
	if l.rules.Window { // many that see it open at once must not empty it before they learn of each other
		return max(min(price, rise*share+foot), half*share*min(h, 1))
	}
	if l.isNew(now) && h > kept/2 {
		price = max(price, l.entry(now))
	}
	return max(price, half*share) // all together no more than half, so that the level rises, and words come
}

// entry is the least price of one that is new. One that used less would not be noticed by another that uses no more than
// what comes back. Where much more is used, many are new as well, and would empty the quota before they know of each other.
func (l *level) entry(now clock.Instant) float64 {
	usual := l.amount() * (l.inSpans(now.Sub(l.heard)) + firstOut)
	if all := l.mine + max(l.theirs, 0); all > usual {
		return entry * usual / all * usual / all
	}
	return entry
}

// isNew reports whether too little was heard to know of others.
func (l *level) isNew(now clock.Instant) bool { return now.Sub(l.heard) < l.rules.Span/4 }

// shared reports whether others use the quota too, or may, as far as is known.
func (l *level) shared(now clock.Instant) bool {
	if !l.fresh(now) || l.share.on { // who has a share need not make room for the others
		return false
	}
	return l.isNew(now) || l.theirs > alone*(l.mine+l.theirs)+l.noise()+l.unsure
}

// pay pays off the debt until now.
func (l *level) pay(now clock.Instant) {
	if now <= l.paid {
		return
	}
	if l.debt > 0 {
		if l.shared(now) {
			half := l.paid.Add(now.Sub(l.paid) / 2)
			l.debt -= l.amount() * l.inSpans(now.Sub(l.paid)) * l.price(half)
		} else {
			l.debt = 0
		}
	}
	l.debt, l.paid = max(l.debt, 0), now
}

// wait is how long from now until an attempt that uses want may go, as far as is known.
func (l *level) wait(now clock.Instant, want float64) time.Duration {
	if want <= 0 {
		return 0
	}
	l.refill(now)
	l.pay(now)
	part := l.part(now)
	if part <= 0 { // the share of another is all
		return l.rules.Span
	}
	d := l.until(now, min(want+l.care(part), part)-l.own, part)
	if !l.fresh(now) {
		return d
	}
	if l.word.until > now {
		d = max(d, l.word.until.Sub(now))
	}
	part = min(part, l.amount())
	care := l.care(part)
	if !l.rules.Window {
		care = max(care, kept*part)
	}
	d = max(d, l.until(now, min(want+care, part)-l.told(now), l.amount()))
	if l.debt > 0 && l.shared(now) {
		d = max(d, min(l.spans(l.debt/(l.amount()*l.price(now))), l.rules.Span/16))
	}
	return d
}

// early reports whether an attempt that uses want would be too much before the first answer came: of all, or where there
// are words, of a window.
func (l *level) early(now clock.Instant, want float64, answered bool) bool {
	if answered && !(l.open && l.fresh(now) && max(l.word.at, l.ended) < l.begun) {
		return false
	}
	return want > 0 && l.out > 0 && l.own < l.part(now)*(1-firstOut)+want
}

// noise is how far what is on the way may be from its estimates.
func (l *level) noise() float64 { return 2 * l.bias.miss * math.Sqrt(float64(l.out+1)) }

// care is what is left alone of a part, since clocks and latencies differ, and estimates are wrong.
func (l *level) care(part float64) float64 {
	if l.rules.Unit == policy.Requests {
		return math.Floor(part * cushion)
	}
	return min(part*cushion+l.noise(), part*mostCare)
}

// until is how long it takes until that much has come back, of what comes back in a span.
func (l *level) until(now clock.Instant, lack, part float64) time.Duration {
	switch {
	case lack <= part*1e-9:
		return 0
	case !l.rules.Window:
		return max(l.spans(lack/part), 1)
	case l.open && l.ends > now:
		return l.ends.Sub(now)
	}
	return l.rules.Span
}

// begin begins a window.
func (l *level) begin(now clock.Instant) {
	l.begun, l.ends, l.open = now, now.Add(l.rules.Span), true
}

// take uses want.
func (l *level) take(now clock.Instant, want float64) {
	if l.rules.Window && !l.open {
		l.begin(now)
	}
	l.own -= want
	l.sum += want
	l.debt += want
	l.out++
	l.way += want
}

// back ends an attempt that took want when it was sent.
func (l *level) back(want float64) {
	if l.out--; l.out == 0 {
		l.way = 0 // and no rest of rounding
	} else {
		l.way -= want
	}
}

// correct changes what an attempt has used by that much. It takes l.sum when that was sent, and returns it as it should have been.
func (l *level) correct(by, sum float64) float64 {
	l.own = max(min(l.own-by, l.rules.Amount), -l.rules.Amount)
	l.debt = max(l.debt+by, 0)
	if sum <= l.word.sum {
		return sum
	}
	l.sum += by
	return sum + by
}

// left is what this process may think is left.
func (l *level) left(now clock.Instant) float64 {
	l.refill(now)
	left := l.own
	if l.fresh(now) {
		left = min(left, l.told(now))
	}
	return max(left, 0)
}

// change puts other rules in force. What is used stays used.
func (l *level) change(now clock.Instant, q policy.Quota) {
	l.refill(now)
	used := l.part(now) - l.own
	if l.rules.Span != q.Span || l.rules.Window != q.Window {
		l.open, l.word, l.debt, l.last = false, word{}, 0, now.Add(-q.Span)
		if l.rules.Span > q.Span {
			used = min(used, q.Amount)
		}
	}
	if l.rules.Estimate != q.Estimate {
		l.bias = bias{}
	}
	l.rules = q
	l.own = max(l.part(now)-used, -q.Amount)
	l.debt = min(l.debt, q.Amount)
	if q.Window && l.own < l.part(now) && !l.open {
		l.begin(now)
	}
}
