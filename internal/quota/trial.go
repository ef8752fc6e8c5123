package quota

import "github.com/gabion-go/gabion/internal/clock"

// trial finds out whether words that little is left are true. A word that stands still, is of another unit or has another
// scale looks like the use of others, and who obeys it never learns better. So now and then attempts go by the own count
// alone, and use faster than comes back some of what the word itself says is left. A true word falls by that at least.
type trial struct {
	bare  int           // words in a row that hardly anything is left, from attempts that were not refused
	lied  float64       // level.sum when words were found to be wrong
	low   int           // words in a row that little is left, or that are like the one before
	since clock.Instant // when the first of them came
	next  clock.Instant // no trial goes before
	rests int           // trials that found words true, one after the other
	on    bool
	large bool    // its first attempt used more than was left
	from  word    // the first one of the trial
	way   float64 // what other attempts that were out when it came took
	still int     // words since that have not fallen as they should
	fell  int     // words since that have
}

const (
	little    = 0.15 // of the amount: a word that less is left is tried
	lowWords  = 4    // in a row make one due
	largeLow  = 8    // and these one that needs more than is left: if the word is true it is refused
	lowSpans  = 2    // for that long
	lowApart  = 0.25 // of the amount is left by own count at least, beyond what the word says
	tried     = 0.02 // of the amount is used by a trial at least, beyond what comes back
	verdict   = 3    // words that fell, or did not, end a trial
	restSpans = 4    // after a word that was true, and twice as many after each further one
	mostRests = 6
)

// watch takes a word for the trial, before it becomes the last one. Way is what other attempts that are out took.
func (t *trial) watch(l *level, now clock.Instant, left, sum, way float64) {
	switch {
	case !l.fresh(now):
		t.low, t.on = 0, false
	case t.on && t.from.known:
		t.judge(l, now, left, sum, way)
		return
	}
	if left >= little*l.amount() && left != l.word.left {
		t.low, t.on = 0, false
	} else if t.low++; t.low == 1 {
		t.since = now
	}
	if t.on && sum > l.word.sum {
		t.refer(now, left, sum, way)
	}
}

// tries reports whether attempts go by the own count alone, as a trial is on or due.
func (t *trial) tries(l *level, now clock.Instant) bool {
	if t.on || t.low < lowWords || now < t.next {
		return t.on
	}
	return now.Sub(t.since) >= l.spans(lowSpans/float64(int(1)<<l.lies)) && l.own >= l.told(now)+lowApart*l.amount()
}

// begin begins a trial with an attempt that goes, if one is due.
func (t *trial) begin(l *level, now clock.Instant, want float64) {
	if !t.on && want > 0 && l.fresh(now) && t.tries(l, now) {
		t.on, t.from, t.large = true, word{}, want > l.word.left
	}
}

// mayTry reports whether an attempt that uses want goes by the own count in a trial. One that needs more than is left
// ends a trial of smaller ones.
func (t *trial) mayTry(l *level, now clock.Instant, want float64) bool {
	if want <= l.word.left || t.large && t.on || !t.on && t.low >= largeLow {
		return true
	}
	if t.on {
		t.on, t.next = false, now.Add(l.rules.Span)
	}
	return false
}

// refer makes a word the one that later words are held against.
func (t *trial) refer(now clock.Instant, left, sum, way float64) {
	t.from, t.way, t.still, t.fell = word{left: left, known: true, at: now, sum: sum}, way, 0, 0
}

// crowded reports whether an attempt that uses want has to wait until another one has ended. During a trial what is on the way is no
// more than an eighth of what the word says is left, or one attempt. After it, while no word counts, it is no more than what was answered
// since: if the words were true, few are refused.
func (t *trial) crowded(l *level, now clock.Instant, want float64) bool {
	switch {
	case l.out == 0:
		return false
	case now < l.deaf:
		return l.way+want > l.sum-l.way-t.lied
	}
	return l.way+want > l.word.left/8 && l.fresh(now) && t.tries(l, now)
}

// judge holds a word that came during a trial against what was used since that began.
func (t *trial) judge(l *level, now clock.Instant, left, sum, way float64) {
	if l.rules.Window && t.from.at < l.begins() { // another window
		t.refer(now, left, sum, way)
		return
	}
	used := sum - t.from.sum
	fall := used - max(t.way, 0) - max(way, 0) // the server need not have taken those that are out
	if !l.rules.Window {
		fall -= l.amount() * l.inSpans(now.Sub(t.from.at))
	}
	switch {
	case used > 2*t.from.left+tried*l.amount(): // that was never there
		l.disbelieve(now)
	case fall < max(tried*l.amount(), t.from.left/4): // too little to tell
	case t.from.left-left >= fall/2:
		if t.fell++; t.fell >= verdict {
			t.rest(l, now)
		}
	default:
		if t.still++; t.still >= verdict {
			l.disbelieve(now)
		}
	}
}

// rest puts off the next trial: the last one, or a refusal, has shown that words are true.
func (t *trial) rest(l *level, now clock.Instant) {
	wait := restSpans * l.rules.Span
	if t.on {
		wait <<= t.rests
		t.rests = min(t.rests+1, mostRests)
	}
	t.next = max(t.next, now.Add(wait))
	t.low, t.on = 0, false
}
