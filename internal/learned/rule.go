package learned

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// What the rule goes by.
const (
	inUse   = 0.8  // of the limit: above it the limit is what bounds the calls
	idle    = 0.5  // of the limit: below it nobody waits because of this client
	enough  = 20   // attempts below which nothing is concluded
	certain = 2.5  // standard errors, at the end of a window
	sure    = 4    // standard errors, at one of many looks
	cured   = 0.7  // of what queueing alone would make it: the wait was in a queue
	uncured = 0.3  // likewise: it was not
	slack   = 1.5  // times the root of the limit, which may wait at the dependency
	starve  = 5    // so many late for each good one is next to nothing
	crowd   = 0.05 // of the answers "no room", which is too many

	maxSamples = 2000             // that what is known of the usual time stands for
	refresh    = 20 * time.Second // how often the usual time is measured anew
	patience   = 10 * time.Second // after which a window that is too small is forgotten
	quiet      = 30 * time.Second // growth rests so long, twice as long each time
	maxQuiet   = 8 * time.Minute
)

// phase is what the rule is doing.
type phase uint8

const (
	watching phase = iota // and moves the limit where it must
	trying                // with fewer
	crowded               // trying with fewer, because of answers "no room"
	starved               // next to nothing is answered in time
)

// rule compares how long an attempt takes with how long it usually takes, which is what it
// takes when it waits for nothing. If all slots are in use, and attempts take
// longer, as many as fit into the usual time are right, and a few that wait:
//
//	limit = rate × usual + slack·√(rate × usual)
//
// The usual time is what must not be guessed. It is measured with the limit a little
// lower, from time to time, and before any conclusion that would lower it. If fewer calls do
// not make attempts faster, then attempts take longer for another reason, the usual time is
// another one now, and the limit stays.
type rule struct {
	Bounds
	limit  int
	phase  phase
	why    policy.LimitCause
	usual  mean
	noise  noise // of windows with all slots in use
	calm   noise // of windows with fewer
	part   part
	tested clock.Instant

	before Window // the try
	last   Window // the step before of the try
	best   float64
	deep   bool // the try goes on as far as it takes

	runs      uint    // growths in a row
	held      hold    // growth
	deaf      hold    // to answers "no room"
	saved     int     // the limit before next to nothing was answered
	busyShare float64 // before the try
}

// mean is an average that stands for so many samples.
type mean struct{ value, n float64 }

func (m *mean) set(v, n float64) { m.value, m.n = v, min(n, maxSamples) }

func (m *mean) add(v, n float64) {
	m.n = min(m.n+n, maxSamples)
	m.value += float64((v - m.value) * min(n/m.n, 1))
}

// noise is how far the mean of n attempts is off: about its value divided by the root of n.
type noise struct{ square, last, n float64 }

func (s *noise) of(n float64) float64 {
	return float64(math.Sqrt(max(s.square, 0.1) / max(n, 1)))
}

// see learns from the parts of a window, one after the other.
func (s *noise) see(mean, n float64) {
	if s.square == 0 {
		s.square = 1
	}
	if s.n > 0 {
		d := (mean - s.last) / ((mean + s.last) / 2)
		v := min(float64(d*d)/(1/n+1/s.n), 16)
		if v > s.square {
			s.square += (v - s.square) / 8
		} else {
			s.square += (v - s.square) / 32
		}
	}
	s.last, s.n = mean, n
}

// part is how far a window had come at the last look.
type part struct {
	good int64
	time time.Duration
}

// listen learns how noisy the window is, from what has come since the last look.
func (r *rule) listen(w *Window) {
	if w.Good < r.part.good || w.Time < r.part.time {
		r.part, r.noise.n, r.calm.n = part{}, 0, 0
	}
	good := w.Good - r.part.good
	if good < enough {
		return
	}
	mean := float64(w.Time-r.part.time) / float64(good)
	r.part = part{w.Good, w.Time}
	if r.phase == watching && w.Concurrency() >= inUse*float64(w.Limit) {
		r.noise.see(mean, float64(good))
	} else {
		r.calm.see(mean, float64(good))
	}
}

// hold keeps something from happening for a while, longer each time.
type hold struct {
	until clock.Instant
	span  time.Duration
}

func (h *hold) begin(now clock.Instant, least, most time.Duration) {
	if h.span == 0 || now > h.until.Add(4*h.span) {
		h.span = least
	} else {
		h.span = min(2*h.span, most)
	}
	h.until = now.Add(h.span)
}

func (h *hold) on(now clock.Instant) bool { return h.span > 0 && now < h.until }

// NewRule returns the rule of this package. It begins with start, within the bounds.
func NewRule(b Bounds, start int) Rule {
	return &rule{Bounds: b, limit: b.clamp(start)}
}

// SetBounds implements Rule.
func (r *rule) SetBounds(b Bounds) int {
	if b == r.Bounds {
		return r.limit
	}
	r.Bounds, r.phase = b, watching
	r.limit = b.clamp(r.limit)
	return r.limit
}

// Limit implements Rule.
func (r *rule) Limit() int { return r.limit }

// Explain implements Explainer.
func (r *rule) Explain() (policy.LimitCause, time.Duration) {
	return r.why, time.Duration(r.usual.value)
}

// Judge implements Rule.
func (r *rule) Judge(now clock.Instant, w *Window) (limit, verdict int, settle time.Duration) {
	was := r.limit
	r.listen(w)
	verdict = r.judge(now, w)
	if verdict == Anew {
		r.part, r.noise.n, r.calm.n = part{}, 0, 0
	}
	settle = w.Each()
	if w.Good < enough || w.Late > starve*w.Good {
		settle = w.Time / time.Duration(max(w.Good+w.Late, 1))
	}
	if r.limit > was {
		settle /= 2 // only the new ones take time to come back
	}
	return r.limit, verdict, settle
}

func (r *rule) judge(now clock.Instant, w *Window) (verdict int) {
	if w.Good+w.Late+w.Busy < enough {
		if w.Span > patience {
			return Anew
		}
		return Longer
	}
	switch {
	case w.Late >= enough/2 && w.Late > starve*w.Good:
		return r.starve(w)
	case r.phase == starved:
		return r.revive(w)
	case r.phase == crowded:
		return r.judgeRoom(now, w)
	case r.phase == trying:
		return r.judgeTry(now, w)
	case float64(w.Busy) > crowd*float64(w.Good+w.Late+w.Busy) && !r.deaf.on(now) && w.Concurrency() >= enough:
		return r.tryRoom(w)
	case w.Good < enough:
		if w.Span > patience {
			return Anew
		}
		return Longer
	}
	return r.watch(now, w)
}

// watch is what is done most of the time.
func (r *rule) watch(now clock.Instant, w *Window) (verdict int) {
	each, n := float64(w.Each()), float64(w.Good)
	used := w.Concurrency() / float64(w.Limit)
	switch {
	case used < inUse:
		r.runs = 0
		if time.Duration(each) > w.Span {
			return Longer
		}
		r.rest(now, each, n, used)
		return Anew
	case w.Span < time.Duration(each):
		return Longer
	case r.usual.n == 0:
		r.try(w, r.limit/2, true)
		return Anew
	}
	if faster := r.usual.value - each; faster > sure*r.calm.of(n)*each && n >= 4*enough {
		r.usual.set(each, n)
		r.tested = now
	}
	want := right(float64(w.Limit), r.usual.value/each)
	gap := want - float64(w.Limit)
	off := float64(w.Limit) * r.noise.of(n)
	room, far := max(spare(want)/2, 1), max(gap, -gap)
	whole := n >= max(400, 8*float64(w.Limit))*max(r.noise.square, 1) || w.Span >= 5*time.Second
	switch {
	case far > room && far > sure*off, whole && far > room && far > certain*off:
	case !whole:
		return Longer
	default:
		r.runs = 0
		if now.Sub(r.tested) > refresh+20*time.Duration(each) {
			r.try(w, int(min(0.82*float64(w.Limit), float64(w.Limit)*r.usual.value/each)+0.5), false)
		}
		return Anew
	}
	if gap < 0 {
		r.runs = 0
		depth := min(max(0.8*r.usual.value/each, 0.5), 0.7)
		r.try(w, int(depth*float64(w.Limit)), true)
		return Anew
	}
	if r.held.on(now) {
		return Anew
	}
	step := min(gap*float64(uint(1)<<min(r.runs, 4)), float64(w.Limit))
	r.move(w.Limit+int(step+0.5), policy.LimitGrew)
	r.runs++
	return Anew
}

// spare is how many may wait at a dependency that works on so many.
func spare(n float64) float64 { return float64(slack * math.Sqrt(max(n, 1))) }

// right is the limit that is right where all of the limit's slots are in use, and a part of
// the time is work.
func right(limit, part float64) float64 {
	n := float64(limit * part)
	return n + spare(n)
}

// rest learns from a window in which slots were free.
func (r *rule) rest(now clock.Instant, each, n, used float64) {
	switch {
	case n < 4*enough:
	case r.usual.n == 0 && used < idle:
		r.usual.set(each, n)
		r.tested = now
	case r.usual.n > 0 && r.usual.value-each > certain*r.calm.of(n)*each:
		r.usual.set(each, n)
		r.tested = now
	}
}

func (r *rule) move(to int, why policy.LimitCause) {
	r.limit, r.why = r.clamp(to), why
}

// try allows fewer for a while.
func (r *rule) try(w *Window, to int, deep bool) {
	to = r.clamp(min(to, w.Limit-1))
	if to >= w.Limit { // it can't be lower
		r.usual.set(float64(w.Each()), float64(w.Good))
		return
	}
	r.phase, r.before, r.last, r.best, r.deep = trying, *w, *w, w.Rate(), deep
	r.move(to, policy.LimitTried)
}

// judgeTry sees what fewer have brought.
func (r *rule) judgeTry(now clock.Instant, w *Window) (verdict int) {
	each, n := float64(w.Each()), float64(w.Good)
	if n < enough {
		return Longer
	}
	need := float64(2 * w.Limit)
	if r.deep {
		need = max(need, 100*r.calm.square) // off by a tenth
	}
	long := max(20*time.Duration(each), 3*time.Second)
	if w.Span < time.Duration(each) || n < need && w.Span < long {
		return Longer
	}
	r.best = max(r.best, w.Rate())
	if r.deep && fewerHelp(&r.last, w) >= cured && w.Limit > r.Min && (r.usual.n == 0 || each > 1.15*r.usual.value) {
		r.last = *w
		r.move(max(r.Min, w.Limit/2), policy.LimitTried)
		return Anew
	}
	r.phase, r.tested = watching, now
	r.learn(now, w)
	work := r.best * r.usual.value / 1e9
	r.move(int(min(work+spare(work), float64(2*r.before.Limit))+0.5), policy.LimitFound)
	return Anew
}

// learn takes the usual time from a try.
func (r *rule) learn(now clock.Instant, w *Window) {
	each, n := float64(w.Each()), float64(w.Good)
	apart := each - r.usual.value
	clear := max(apart, -apart) > certain*r.calm.of(min(n, r.usual.n))*each
	switch {
	case r.usual.n == 0:
		r.usual.set(each, n)
	case apart > 0 && fewerHelp(&r.before, w) > uncured: // others' calls wait, too
	case apart > 0 && clear:
		r.usual.set(each, n)
		if r.held.span > 0 || r.held.until != 0 {
			r.held.begin(now, quiet, maxQuiet)
		} else {
			r.held.until = now
		}
	case clear:
		r.usual.set(each, n)
	default:
		r.usual.add(each, n)
	}
}

// fewerHelp is 1 where attempts got faster in proportion to how many fewer were out, as they
// do where they wait for each other, and 0 where they did not.
func fewerHelp(more, fewer *Window) float64 {
	n := more.Concurrency()/max(fewer.Concurrency(), 0.01) - 1
	t := float64(more.Each())/float64(max(fewer.Each(), 1)) - 1
	if n <= 0.05 {
		return 0.5
	}
	return t / n
}

func busyShare(w *Window) float64 {
	return float64(w.Busy) / float64(max(w.Good+w.Late+w.Busy, 1))
}

// tryRoom allows fewer because the dependency says that it has no room.
func (r *rule) tryRoom(w *Window) (verdict int) {
	r.phase, r.before, r.busyShare = crowded, *w, busyShare(w)
	r.move(int(0.9*min(w.Concurrency(), float64(w.Limit))), policy.LimitCrowded)
	return Anew
}

// judgeRoom sees whether that has helped.
func (r *rule) judgeRoom(now clock.Instant, w *Window) (verdict int) {
	if w.Good < enough && w.Span < patience {
		return Longer
	}
	r.phase = watching
	if share := busyShare(w); share > 0.6*r.busyShare {
		r.deaf.begin(now, patience, maxQuiet)
		r.move(r.before.Limit, policy.LimitBack)
		return Anew
	}
	r.held.until, r.held.span = now.Add(patience), patience
	return Anew
}

// starve allows half as many while next to nothing is answered in time: there may be so
// many out that all come too late.
func (r *rule) starve(w *Window) (verdict int) {
	if w.Concurrency() < inUse*float64(w.Limit) && r.phase != starved {
		return Anew
	}
	if r.phase != starved {
		r.saved = w.Limit
		if r.phase == trying {
			r.saved = r.before.Limit
		}
	}
	r.phase = starved
	r.move(max(w.Limit/2, r.saved/16), policy.LimitStarved)
	return Anew
}

// revive ends that.
func (r *rule) revive(w *Window) (verdict int) {
	if w.Good < enough {
		return Longer
	}
	r.phase = watching
	if r.usual.n > 0 && float64(w.Each()) < 1.5*r.usual.value {
		r.move(r.saved, policy.LimitBack)
	}
	return Anew
}
