// Package learned finds out how many calls a dependency can work on at once.
//
// A [Limit] counts what attempts bring and how long they take. About ten times a second,
// or less often when there is little to see, a [Rule] judges what was counted and may move
// the limit. The rule of this package, [NewRule], compares how long an attempt takes now
// with how long it takes when nobody waits at the dependency. What it cannot know it tries
// out: it allows fewer for a moment, and sees whether attempts get faster.
//
// Concurrency is taken from the counts by Little's law: the sum of all durations, divided
// by the time in which they ended. So a Limit needs nothing but when an attempt ended,
// how long it took and what it brought. It serves a client's bulkhead and a server's
// admission alike.
package learned

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Verdict says what an attempt showed of how much the dependency can take.
type Verdict uint8

// The verdicts.
const (
	Nothing Verdict = iota // refused, failed fast, cancelled: says nothing
	Worked                 // the dependency did the work, and said yes or no
	Late                   // it had no answer in time
	Busy                   // it answered that it has no room
	Left                   // its own caller went before it was done: it took at least as long
	Lacked                 // it was not sent: no slot was free for it
)

// ample is how many times the usual time a caller must have waited to be sure to have been patient:
// then the work was late.
const ample = 5

// Bounds are what the limit stays within. Min is at least 1 and at most Max.
type Bounds struct{ Min, Max int }

func (b Bounds) clamp(n int) int { return max(b.Min, min(n, b.Max)) }

// Window is what was counted between two moments.
type Window struct {
	Span  time.Duration
	Limit int           // that was in force
	Good  int64         // attempts that worked
	Late  int64         // attempts that had no answer in time
	Busy  int64         // attempts that found no room
	Lack  int64         // attempts that were not sent because no slot was free
	Time  time.Duration // that attempts took which worked or were late, all together
	Lost  time.Duration // of it, those that were late
	Left  int64         // attempts whose callers left too early to say anything
	Gone  time.Duration // that these took, all together
}

// Each is how much time of a slot a good attempt costs, those that were late included.
func (w *Window) Each() time.Duration { return w.Time / time.Duration(max(w.Good, 1)) }

// Concurrency is how many attempts were out on average.
func (w *Window) Concurrency() float64 { return float64(w.Time+w.Gone) / float64(max(w.Span, 1)) }

// Rate is how many good attempts ended in a second. What was spent on callers who left early
// counts as the good attempts that it would have made.
func (w *Window) Rate() float64 {
	rate := float64(w.Good) / max(w.Span, 1).Seconds()
	if w.Gone > 0 {
		rate *= float64(w.Time+w.Gone) / float64(max(w.Time, 1))
	}
	return rate
}

// many reports whether late attempts are a good part of all.
func (w *Window) many() bool { return 20*w.Late > w.Good }

// round is the least that a window must span to be like those before and after it. What
// is late ends long after what was good.
func (w *Window) round() time.Duration {
	if w.many() {
		return max(w.Each(), 3*w.Lost/time.Duration(w.Late))
	}
	return w.Each()
}

// Verdicts of a rule on a window.
const (
	Longer = iota // look again, with more counted
	Anew          // begin a new window
)

// Rule decides. It is not safe for concurrent use: a [Limit] asks it one question at a
// time.
type Rule interface {
	// Judge is asked about the window up to now. It returns the limit, and what becomes
	// of the window: Longer or Anew. Where the limit moves, the next window begins
	// settle later, when what was sent under the old limit has ended.
	Judge(now clock.Instant, w *Window) (limit int, verdict int, settle time.Duration)

	// SetBounds changes the bounds, and returns the limit within them.
	SetBounds(Bounds) (limit int)

	// Limit returns the limit.
	Limit() int
}

// Sampler is a rule that wants to be told of every attempt, as others' algorithms do. It
// may move the limit each time. There is one caller at a time: the lab.
type Sampler interface {
	Rule

	// Sample is told of an attempt, and how many were out, itself included.
	Sample(now clock.Instant, took time.Duration, v Verdict, out int) (limit int)
}

// Every is the least time between two looks at the counts, and so between two moves.
const Every = 100 * time.Millisecond

// Limit is a limit that is learned. Make one with [New]. All methods are safe for
// concurrent use.
type Limit struct {
	lines   []line
	sampler Sampler      // nil but in the lab's comparisons
	out     func() int   // how many are out; of a sampler only
	look    atomic.Int64 // when the rule is asked next
	limit   atomic.Int64
	brief   atomic.Int64 // what a good attempt took of late: one that had less time was not late, but hurried
	usual   atomic.Int64 // what an attempt takes when nobody waits, as far as known; else 0
	moves   atomic.Pointer[Move]

	mu    sync.Mutex // guards all below
	rule  Rule
	mark  counts        // at the beginning of the window
	since clock.Instant // when that was
	fresh bool          // the next look begins a window
	least int64         // what brief was at least
}

// line is a cache line of counters, which only grow.
type line struct {
	good atomic.Int64
	time atomic.Int64
	late atomic.Int64
	busy atomic.Int64
	lost atomic.Int64
	left atomic.Int64
	gone atomic.Int64
	lack atomic.Int64 // the eighth: the line is full
}

type counts struct{ good, time, late, busy, lost, left, gone, lack int64 }

// Move is what a limit was moved by.
type Move struct {
	From, To int
	Window   Window
	Usual    time.Duration // what an attempt takes when nobody waits, as far as known; else zero
	Why      string
}

// Explainer is a rule that can say why it moved the limit last.
type Explainer interface {
	Explain() (why string, usual time.Duration)
}

// New returns a limit that the rule moves. Counters are spread over so many shards, rounded
// up to a power of two.
func New(now clock.Instant, rule Rule, shards int) *Limit {
	l := &Limit{rule: rule, lines: make([]line, 1<<bits.Len(uint(max(shards, 1)-1))), fresh: true}
	l.limit.Store(int64(rule.Limit()))
	l.look.Store(int64(now))
	return l
}

// Watch tells a rule that is a [Sampler] of every attempt, and how many are out. It must be
// called before anything else uses the limit.
func (l *Limit) Watch(out func() int) {
	l.sampler, _ = l.rule.(Sampler)
	l.out = out
}

// sample asks a sampler.
func (l *Limit) sample(now clock.Instant, took time.Duration, v Verdict) (limit int, moved bool) {
	was := l.Limit()
	limit = l.sampler.Sample(now, took, v, l.out())
	l.limit.Store(int64(limit))
	l.moves.Store(&Move{From: was, To: limit})
	return limit, limit != was
}

// Limit returns how many may be out.
func (l *Limit) Limit() int { return int(l.limit.Load()) }

// Begin sets the limit that a rule of this package begins with, unless anything was counted. It reports whether the
// limit is another one now.
func (l *Limit) Begin(limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, own := l.rule.(*rule)
	if !own || l.Moved() || l.sum() != (counts{}) {
		return false
	}
	was := r.limit
	r.limit = r.clamp(limit)
	l.limit.Store(int64(r.limit))
	return r.limit != was
}

// Moved reports whether the rule has moved the limit yet.
func (l *Limit) Moved() bool { return l.moves.Load() != nil }

// Last returns the last move, or nil. It must not be changed.
func (l *Limit) Last() *Move { return l.moves.Load() }

// Done counts an attempt that has ended after it took so long. It reports whether the
// limit moved with it, which it does at most once in [Every].
func (l *Limit) Done(now clock.Instant, shard uint32, took time.Duration, v Verdict) (limit int, moved bool) {
	if l.sampler != nil {
		if v == Lacked {
			return 0, false
		}
		return l.sample(now, took, v)
	}
	c := &l.lines[int(shard)&(len(l.lines)-1)]
	switch v {
	case Worked:
		c.good.Add(1)
		c.time.Add(int64(took))
	case Late:
		c.time.Add(int64(took))
		c.lost.Add(int64(took))
		if int64(took) >= l.brief.Load() {
			c.late.Add(1)
		}
	case Left:
		l.left(c, took)
	case Busy:
		c.busy.Add(1)
	case Lacked:
		c.lack.Add(1)
	default:
		return 0, false
	}
	if int64(now) < l.look.Load() {
		return 0, false
	}
	return l.ask(now)
}

// left counts an attempt whose caller left. Before the usual time that says that the caller was in
// a hurry, and nothing of the room that there is: it had a slot, that is all. After it the
// attempt took as long at least, as one that was done then. After far longer it was late.
func (l *Limit) left(c *line, took time.Duration) {
	usual := time.Duration(l.usual.Load())
	switch {
	case usual == 0 || took < usual:
		c.gone.Add(int64(took))
		c.left.Add(1)
	case took < ample*usual:
		c.time.Add(int64(took))
		c.good.Add(1)
	default:
		c.time.Add(int64(took))
		c.lost.Add(int64(took))
		c.late.Add(1)
	}
}

// SetBounds changes the bounds, and returns the limit within them.
func (l *Limit) SetBounds(b Bounds) (limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit = l.rule.SetBounds(b)
	l.limit.Store(int64(limit))
	return limit
}

// ask asks the rule, unless somebody else does.
func (l *Limit) ask(now clock.Instant) (limit int, moved bool) {
	if !l.mu.TryLock() {
		return 0, false
	}
	defer l.mu.Unlock()
	if int64(now) < l.look.Load() {
		return 0, false
	}
	if l.fresh || now < l.since {
		l.begin(now)
		return 0, false
	}
	was := l.Limit()
	w := l.window(now, was)
	if w.Good >= enough {
		half := int64(w.Time-w.Lost) / w.Good / 2
		if l.brief.Store(briefer(l.brief.Load(), half)); l.least == 0 || half < l.least {
			l.least = half
		}
	}
	limit, verdict, settle := l.rule.Judge(now, &w)
	l.usual.Store(int64(l.usually()))
	switch {
	case limit != was:
		l.limit.Store(int64(limit))
		l.moves.Store(l.explain(was, limit, &w))
		l.fresh = true
		l.look.Store(int64(now.Add(max(settle, Every))))
		return limit, true
	case verdict == Anew:
		l.begin(now)
	default:
		l.look.Store(int64(now.Add(Every)))
	}
	return limit, false
}

// briefer follows half of what a good attempt takes: down at once, and up in half a minute or more. Quick answers of a moment, such
// as from a cache that was then emptied, must not make late for ever what is only hurried.
func briefer(was, half int64) int64 {
	if was == 0 || half < was {
		return half
	}
	return was + (half-was+255)/256
}

// usually is what an attempt takes when nobody waits: what the rule knows, and before it
// knows the least that it has taken.
func (l *Limit) usually() time.Duration {
	if e, ok := l.rule.(Explainer); ok {
		if _, usual := e.Explain(); usual > 0 {
			return usual
		}
	}
	return time.Duration(2 * l.least)
}

func (l *Limit) explain(from, to int, w *Window) *Move {
	m := &Move{From: from, To: to, Window: *w}
	if e, ok := l.rule.(Explainer); ok {
		m.Why, m.Usual = e.Explain()
	}
	return m
}

// begin begins a window.
func (l *Limit) begin(now clock.Instant) {
	l.mark, l.since, l.fresh = l.sum(), now, false
	l.look.Store(int64(now.Add(Every)))
}

func (l *Limit) sum() (n counts) {
	for i := range l.lines {
		c := &l.lines[i]
		n.good += c.good.Load()
		n.time += c.time.Load()
		n.late += c.late.Load()
		n.busy += c.busy.Load()
		n.lost += c.lost.Load()
		n.left += c.left.Load()
		n.gone += c.gone.Load()
		n.lack += c.lack.Load()
	}
	return n
}

func (l *Limit) window(now clock.Instant, limit int) Window {
	n := l.sum()
	return Window{
		Span: now.Sub(l.since), Limit: limit, Good: n.good - l.mark.good, Late: n.late - l.mark.late,
		Busy: n.busy - l.mark.busy, Time: time.Duration(n.time - l.mark.time), Lost: time.Duration(n.lost - l.mark.lost),
		Left: n.left - l.mark.left, Gone: time.Duration(n.gone - l.mark.gone), Lack: n.lack - l.mark.lack,
	}
}
