package learned

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
)

// answers are how many came, and how many of them said "no room".
type answers struct{ all, busy float64 }

func of(w *Window) answers { return answers{float64(w.Good + w.Late + w.Busy), float64(w.Busy)} }

func (a answers) share() float64 { return a.busy / max(a.all, 1) }

// add counts a window that is over. Windows are short where slots are free, and chance makes many of a few: so "no room" is counted over
// several, until there are as many answers as are needed at most.
func (a *answers) add(w *Window) {
	one := of(w)
	if a.all += one.all; a.all >= refusals/crowd {
		*a = answers{}
		return
	}
	a.busy += one.busy
}

// with are these answers and those of a window.
func (a answers) with(w *Window) answers {
	one := of(w)
	return answers{a.all + one.all, a.busy + one.busy}
}

// crowd reports whether more say "no room" than may be.
func (a answers) crowd() bool { return a.busy >= refusals && a.share() > crowd }

func busyShare(w *Window) float64 { return of(w).share() }

// fits reports whether slots are free on average and attempts take about as long as usual,
// so that more would not only wait at the dependency.
func (r *rule) fits(now clock.Instant, w *Window) bool {
	each := float64(w.Each())
	switch {
	case w.Good == 0 || w.Limit >= r.Max || !r.free(w):
		return false
	case r.usual.n == 0:
		return true
	}
	return r.growth(w.Limit, each) >= 1 && !(r.held.on(now) && 2*each > r.usual.value)
}

// free reports whether slots are free on average, for all that chance may do.
func (r *rule) free(w *Window) bool {
	return w.Concurrency()*(1+r.calm.of(float64(w.Good))) < inUse*float64(w.Limit)
}

// growth is by how much the limit may grow where attempts take so long.
func (r *rule) growth(limit int, each float64) float64 {
	return right(float64(limit), min(r.usual.value/each, 1)) - float64(limit)
}

// more allows more because some found no slot.
func (r *rule) more(w *Window) (verdict int) {
	if w.Good+w.Lack < 4*enough && w.Span < soon {
		return Longer
	}
	r.move(max(w.Limit+r.step(w.Limit, spare(float64(w.Limit))), few), terms.LimitGrew)
	return Anew
}

// tryRoom allows fewer because the dependency says that it has no room.
func (r *rule) tryRoom(w *Window) (verdict int) {
	r.phase, r.before, r.busyShare = crowded, *w, r.refused.with(w).share()
	r.move(int(0.9*min(w.Concurrency(), float64(w.Limit))), terms.LimitCrowded)
	return Anew
}

// judgeRoom sees whether that has helped.
func (r *rule) judgeRoom(now clock.Instant, w *Window) (verdict int) {
	if (w.Good < enough || r.busyShare*of(w).all < refusals) && w.Span < patience {
		return Longer
	}
	r.phase, r.refused = watching, answers{}
	if share := busyShare(w); share > 0.6*r.busyShare {
		r.deaf.begin(now, patience, maxQuiet)
		r.move(r.before.Limit, terms.LimitBack)
		return Anew
	}
	r.held.until, r.held.span = now.Add(patience), patience
	return Anew
}

// starve allows a fourth while next to nothing is answered in time: there may be so
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
	r.move(max(w.Limit/4, r.saved/16), terms.LimitStarved)
	return Anew
}

// revive ends that.
func (r *rule) revive(w *Window) (verdict int) {
	switch {
	case w.Good < enough:
		return Longer
	case w.Late > w.Good:
		return Anew
	}
	r.phase = watching
	if r.usual.n > 0 && float64(w.Time-w.Lost) < usually*r.usual.value*float64(w.Good) { // what is late was sent before
		r.move(r.saved, terms.LimitBack)
	}
	return Anew
}

// adrift reports whether the dependency has more to do than it can, while far fewer are out than
// the limit: more than one attempt in five comes late, and those that are good take a fifth of
// the time of the late ones, at least. Where only some attempts are swallowed, the others are
// as quick as ever, and fewer calls would cure nothing.
func (r *rule) adrift(w *Window) bool {
	return 4*w.Late > w.Good && w.Good > 0 && w.Concurrency() >= least && 4*w.Concurrency() < float64(w.Limit) &&
		5*(w.Time-w.Lost)/time.Duration(w.Good) > w.Lost/time.Duration(w.Late)
}

// bind lowers the limit to what is out, so that it is what bounds the calls from here on.
func (r *rule) bind(w *Window) (verdict int) {
	r.bound = max(r.bound, w.Limit)
	r.move(int(w.Concurrency()), terms.LimitTried)
	return Anew
}

// unbind ends that when slots are free, nothing comes late, and attempts take about as long as usual.
func (r *rule) unbind() (verdict int) {
	r.move(r.bound, terms.LimitBack)
	r.bound = 0
	return Anew
}
