package learned

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
)

// try allows fewer for a while.
func (r *rule) try(w *Window, to int, deep bool) {
	to = r.clamp(min(to, w.Limit-1))
	if to >= w.Limit { // it can't be lower
		r.usual.set(float64(w.Each()), float64(w.Good))
		return
	}
	r.phase, r.before, r.last, r.best, r.deep = trying, *w, *w, w.Rate(), deep
	r.move(to, terms.LimitTried)
}

// judgeTry sees what fewer have brought.
func (r *rule) judgeTry(now clock.Instant, w *Window) (verdict int) {
	each, n := float64(w.Each()), float64(w.Good)
	switch {
	case n < enough && w.Span < patience:
		return Longer
	case n < enough: // the others were refused, which says nothing about the time that work takes
		return r.giveUp(now, w)
	}
	if n >= 4*enough && r.free(w) { // even of fewer slots: so nobody waits for each other
		r.usual.set(each, n)
		r.phase, r.tested = watching, now
		r.move(r.before.Limit, terms.LimitBack)
		return Anew
	}
	need, long := float64(2*w.Limit), max(5*time.Duration(each), time.Second)
	if r.deep {
		need, long = max(need, 100*r.calm.square), max(20*time.Duration(each), 3*time.Second) // off by a tenth
	}
	worse := n >= 2*enough && w.Limit < r.before.Limit/2 && w.Rate() < worseBy*r.best
	exact := n >= 2*enough*max(r.calm.square, 1)
	over := worse && (exact || r.refuses(w))
	if w.Span < w.round() || n < need && w.Span < long && !over {
		return Longer
	}
	if over && !exact { // too few slots: what the step before has shown is known better
		return r.conclude(now, &r.last)
	}
	r.best = max(r.best, w.Rate())
	if w.Limit > r.Min && (r.deep || each < r.usual.value) && min(faster(&r.last, w), asMany(&r.last, w)) > uncured && r.unlike(each, n) {
		r.last = *w
		r.move(max(r.Min, w.Limit/2), terms.LimitTried)
		return Anew
	}
	return r.conclude(now, w)
}

// refuses reports whether a step of a try takes slots from calls that found one in the step before.
func (r *rule) refuses(w *Window) bool {
	return r.last.Limit < r.before.Limit && w.Lack > enough && float64(r.last.Lack) <= crowd*float64(r.last.Good+r.last.Lack)
}

// conclude ends a try, of which a step has shown how long attempts take.
func (r *rule) conclude(now clock.Instant, step *Window) (verdict int) {
	r.phase, r.tested = watching, now
	r.learn(now, step)
	r.move(r.found(), terms.LimitFound)
	return Anew
}

// found is the limit that a try has shown to be right. One that only measured the usual
// time anew leaves it as it was, unless that is much.
func (r *rule) found() int {
	was := float64(r.before.Limit)
	if r.deep {
		work := r.best * r.usual.value / 1e9
		return int(min(work+spare(work), 2*was) + 0.5)
	}
	want := right(was, r.usual.value/float64(r.before.Each()))
	if max(want-was, was-want) <= max(spare(want)/2, 1) {
		return r.before.Limit
	}
	return int(want + 0.5)
}

// unlike reports whether attempts that waited less than before take another time than the
// usual one, so that there is more to find out: longer, or shorter than was thought.
func (r *rule) unlike(each, n float64) bool {
	return r.usual.n == 0 || each > 1.15*r.usual.value || r.usual.value-each > max(sure*r.calm.of(n), 0.1)*each
}

// learn takes the usual time from a try.
func (r *rule) learn(now clock.Instant, w *Window) {
	each, n := float64(w.Each()), float64(w.Good)
	apart, help := each-r.usual.value, max(faster(&r.before, w), asMany(&r.before, w))
	errors := sure
	if r.deep && apart > 0 {
		errors = certain
	}
	known := r.usual.n > 0
	clear := known && max(apart, -apart) > errors*r.calm.of(min(n, r.usual.n))*each
	switch {
	case known && apart > 0 && help > uncured:
		return // others' calls wait, too
	case clear && apart > 0 && r.raised:
		r.held.begin(now, quiet, maxQuiet) // it may be others who make it grow, so that growing too would be no help
		r.usual.set(each, n)
	case clear:
		r.raised = r.raised || apart > 0
		r.usual.set(each, n)
	default:
		r.usual.add(each, n)
	}
	if help <= uncured && r.last.Limit == r.before.Limit { // nothing waited before either
		r.usual.add(float64(r.before.Each()), min(float64(r.before.Good), 2*n))
	}
}

// faster is 1 where attempts got faster in proportion to how many fewer were out, as they do
// where they wait for each other, and 0 where they did not.
func faster(more, fewer *Window) float64 {
	n := more.Concurrency()/max(fewer.Concurrency(), 0.01) - 1
	if n <= 0.05 {
		return 0.5
	}
	return (float64(more.Each())/float64(max(fewer.Each(), 1)) - 1) / n
}

// asMany is 1 where as many were answered as before, as it is where the others only waited,
// and 0 where fewer were in proportion to how many fewer were out. In a steady state it
// says the same as faster.
func asMany(more, fewer *Window) float64 {
	n := 1 - fewer.Concurrency()/max(more.Concurrency(), 0.01)
	if n <= 0.05 {
		return 0.5
	}
	return 1 - (1-fewer.Rate()/max(more.Rate(), 0.01))/n
}
