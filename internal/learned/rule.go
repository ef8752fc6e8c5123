package learned

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
)

// What the rule goes by.
const (
	inUse   = 0.8  // of the limit: above it the limit is what bounds the calls
	idle    = 0.5  // of the limit: below it nobody waits because of this client
	enough  = 20   // attempts below which nothing is concluded
	sound   = 400  // attempts by which the usual time is known well enough
	least   = 3    // attempts out below which the limit is not bound to them
	few     = 6    // slots that one may have who finds none and has no cause to fear a crowd
	certain = 2.5  // standard errors, at the end of a window
	sure    = 4.0  // standard errors, at one of many looks
	worseBy = 0.7  // of the best rate of a try: a step that answers less is not kept up to be exact
	usually = 1.5  // times the usual time, up to which attempts wait for nothing, or for little
	uncured = 0.3  // of what fewer calls would bring if all that is too much were waiting: below it nothing was
	slack   = 1.5  // times the root of the limit, which may wait at the dependency
	starve  = 5    // so many late for each good one is next to nothing
	crowd   = 0.05 // of the answers "no room", which is too many

	refusals = 80 // answers "no room" by which their share is known to a ninth

	maxSamples = 2000             // that what is known of the usual time stands for
	refresh    = 20 * time.Second // how often the usual time is measured anew
	soon       = 2 * time.Second  // after which few attempts that found no slot are enough
	patience   = 10 * time.Second // after which a window that is too small is forgotten
	quiet      = 30 * time.Second // growth rests so long, twice as long each time
	maxQuiet   = 8 * time.Minute

	alone = time.Second // for so long nothing but callers who leave a little early: then all wait too long
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
	limit int
	phase phase
	why   string
	usual mean
	noise noise // of windows with all slots in use
	calm  noise // of windows with fewer
	part  part  // how far the window had come at the last look

	refused answers       // "no room", and all; of some windows
	tested  clock.Instant // when the usual time was measured last

	before Window  // the try
	last   Window  // the step before this one of the try
	best   float64 // the most answers a second that a step of the try has brought
	deep   bool    // the try goes on as far as it takes

	alarmed   bool    // the last window called for a move
	measured  uint    // how often the usual time was
	runs      uint    // growths in a row
	raised    bool    // the usual time has grown before
	held      hold    // growth
	deaf      hold    // to answers "no room"
	saved     int     // the limit before next to nothing was answered
	busyShare float64 // before the try
	bound     int     // the limit before it was bound to what is out; zero while it is not
}

// NewRule returns the rule of this package. It begins with start, within the bounds.
func NewRule(b Bounds, start int) Rule {
	return &rule{Bounds: b, limit: b.clamp(start)}
}

// SetBounds implements Rule.
func (r *rule) SetBounds(b Bounds) int {
	if b == r.Bounds {
		return r.limit
	}
	r.Bounds, r.phase, r.refused = b, watching, answers{}
	r.limit = b.clamp(r.limit)
	return r.limit
}

// Limit implements Rule.
func (r *rule) Limit() int { return r.limit }

// Explain implements Explainer.
func (r *rule) Explain() (string, time.Duration) {
	return r.why, time.Duration(r.usual.value)
}

// Judge implements Rule.
func (r *rule) Judge(now clock.Instant, w *Window) (limit, verdict int, settle time.Duration) {
	r.listen(w)
	verdict = r.judge(now, w)
	if verdict == Anew {
		r.refused.add(w)
		r.part, r.noise.n, r.calm.n = part{}, 0, 0
	}
	settle = w.Each() * 3 / 2
	if late := w.Lost / time.Duration(max(w.Late, 1)); w.Good < enough || w.Late > starve*w.Good {
		settle = (w.Time + w.Gone) / time.Duration(max(w.Good+w.Late+w.Left, 1))
	} else if w.many() {
		settle = max(settle, late)
	}
	return r.limit, verdict, settle
}

func (r *rule) judge(now clock.Instant, w *Window) (verdict int) {
	switch all := w.Good + w.Late + w.Busy + w.Lack; {
	case w.Good == 0 && w.Left >= enough && w.Span >= alone:
		return r.starve(w)
	case all < enough && w.Span < patience:
		return Longer
	case all < enough:
		return r.giveUp(now, w)
	case w.Late >= enough/2 && w.Late > starve*w.Good:
		return r.starve(w)
	case r.phase == starved:
		return r.revive(w)
	case r.phase == crowded:
		return r.judgeRoom(now, w)
	case r.phase == trying:
		return r.judgeTry(now, w)
	case r.refused.with(w).crowd() && !r.deaf.on(now) && w.Concurrency() >= enough:
		return r.tryRoom(w)
	case w.Good+w.Lack < enough && w.Span < patience:
		return Longer
	case w.Good+w.Lack < enough:
		return Anew
	}
	return r.watch(now, w)
}

// giveUp ends what is being tried when nobody calls any more.
func (r *rule) giveUp(now clock.Instant, w *Window) (verdict int) {
	if r.phase == watching && w.Lack > 0 && r.fits(now, w) {
		return r.more(w)
	}
	if r.phase == trying || r.phase == crowded {
		r.phase, r.refused = watching, answers{}
		r.move(r.before.Limit, terms.LimitBack)
	}
	return Anew
}

// watch is what is done most of the time.
func (r *rule) watch(now clock.Instant, w *Window) (verdict int) {
	each, n := float64(w.Each()), float64(w.Good)
	switch used := w.Concurrency() / float64(w.Limit); {
	case w.Span < w.round():
		return Longer
	case w.Lack > 0 && r.fits(now, w):
		return r.more(w)
	case w.Good < enough:
		return Longer
	case used < inUse && w.Lack == 0 && r.adrift(w):
		return r.bind(w)
	case used < inUse && w.Lack == 0 && w.Late == 0 && w.Limit < r.bound && each < usually*r.usual.value:
		return r.unbind()
	case used < inUse && w.Lack == 0:
		if used < idle && w.Late == 0 && r.usual.n < sound && n < sound && w.Span < patience {
			return Longer
		}
		r.runs = 0
		r.rest(now, each, n, used)
		return Anew
	case r.usual.n == 0 && w.Span < 2*w.round():
		return Longer
	case r.usual.n == 0:
		return r.forget(w)
	}
	if less := r.usual.value - each; r.quicker(each, n) {
		r.usual.set(each, n)
		r.tested = now
		if less > each/5 && less < each {
			return r.forget(w)
		}
	}
	gap := right(float64(w.Limit), r.usual.value/each) - float64(w.Limit)
	moves, whole := r.moves(w, gap, n)
	switch {
	case moves && !r.alarmed && w.Span > max(3*time.Duration(each), 3*Every):
		r.alarmed = true // part of the window may be from before, so the next one decides
		return Anew
	case moves:
		return r.act(now, w, gap, each)
	case !whole:
		return Longer
	}
	r.runs, r.alarmed = 0, false
	if now.Sub(r.tested) > refresh+20*time.Duration(each) && busyShare(w) <= crowd {
		r.measure(w, each)
	}
	return Anew
}

// moves reports whether the limit is so far from the right one that it must move, and
// whether the window has seen enough to be sure that it must not.
func (r *rule) moves(w *Window, gap, n float64) (moves, whole bool) {
	far, limit := max(gap, -gap), float64(w.Limit)
	off := limit * r.noise.of(n)
	whole = n >= max(400, 8*limit)*max(r.noise.square, 1) || w.Span >= 5*time.Second
	errors := sure
	if whole || r.alarmed {
		errors = certain
	}
	return far > max(spare(limit+gap)/2, 1) && far > errors*off, whole
}

// act moves the limit towards the right one.
func (r *rule) act(now clock.Instant, w *Window, gap, each float64) (verdict int) {
	r.alarmed = false
	switch {
	case gap < 0:
		r.runs = 0
		depth := min(max(0.8*r.usual.value/each, 0.5), 0.7)
		r.try(w, int(depth*float64(w.Limit)), true)
	case w.Lack == 0 && r.usual.value-each > each/5 && r.usual.value < 2*each:
		return r.forget(w)
	case !r.held.on(now):
		r.move(w.Limit+r.step(w.Limit, gap), terms.LimitGrew)
	}
	return Anew
}

// step is by how much the limit grows, which is more each time in a row.
func (r *rule) step(limit int, gap float64) int {
	r.runs++
	return int(min(gap*float64(uint(1)<<min(r.runs-1, 4)), float64(limit)) + 0.5)
}

// quicker reports whether attempts take less than the usual time, for sure.
func (r *rule) quicker(each, n float64) bool {
	return n >= 4*enough && r.usual.value-each > sure*r.calm.of(n)*each
}

// measure measures the usual time anew, with as many as are worked on by what is known. Each
// third time it goes further down, in case that far too many wait.
func (r *rule) measure(w *Window, each float64) {
	share := min(0.82, r.usual.value/each)
	if r.measured++; r.measured%3 == 0 {
		share = min(0.6, share)
	}
	r.try(w, int(float64(share*float64(w.Limit))+0.5), false)
}

// forget finds the usual time anew: it is not known, or attempts are much faster than was
// thought, and may wait nevertheless.
func (r *rule) forget(w *Window) (verdict int) {
	r.runs = 0
	if r.usual.n > 0 { // it is no longer than this
		r.usual.set(float64(w.Each()), float64(w.Good))
	}
	r.try(w, w.Limit/2, true)
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
	case used < idle && r.usual.n < sound:
		r.usual.add(each, n)
		r.tested = now
	case r.usual.n > 0 && r.usual.value-each > certain*r.calm.of(n)*each:
		r.usual.set(each, n)
		r.tested = now
	}
}

func (r *rule) move(to int, why string) {
	r.limit, r.why = r.clamp(to), why
}
