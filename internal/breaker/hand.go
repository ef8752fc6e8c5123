package breaker

import (
	"errors"
	"slices"

	"github.com/gabion-go/gabion/internal/clock"
)

// ErrNotOpen is what TryHalfOpen returns for a breaker that does not refuse.
var ErrNotOpen = errors.New("breaker: not open, so it can't be half-opened by hand")

// SetRules gives the breaker new rules from now on. State, generation and
// permits stay; counts stay too, unless the window itself changed.
func (b *Breaker) SetRules(now clock.Instant, r *Rules) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.rules.Swap(r)
	b.reached.Store(never)
	b.rehome(old, r)
	if !old.countsRun() || !r.countsRun() {
		b.run.Store(0) // it was not kept, or will not be
		b.longest.Store(0)
	}
	if old.byCount() != r.byCount() || old.windowCalls() != r.windowCalls() || old.Window != r.Window {
		b.win.Resize(now, r.Window)
		b.countAnew(r)
	}
	if b.state() == HalfOpen {
		b.decide(now, now, 0) // fewer probes may be enough now, and then none may be left to say so
	}
}

// rehome makes the last release go where the rules say now, unless it goes back to what
// was set by hand.
func (b *Breaker) rehome(old, r *Rules) {
	if !b.isolated() || old.home() == r.home() || b.extra.returnTo != old.home() {
		return
	}
	if lapses(b.extra.returnTo) && b.extra.returnUntil != clock.Never {
		return
	}
	b.extra.returnTo, b.extra.returnUntil = r.home(), 0
	if lapses(r.home()) {
		b.extra.returnUntil = clock.Never
	}
}

// Doubt says until when others find the dependency broken. Then two failures in a row open the breaker, and no minimum
// of calls is asked for. It opens, closes and refuses nothing by itself. New rules end it.
func Doubt(b *Breaker, until clock.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.rules.Load(); old.DoubtUntil != until {
		r := *old
		r.DoubtUntil = until
		b.rules.Store(&r)
	}
}

func (b *Breaker) countAnew(r *Rules) {
	if b.extra != nil && b.extra.ring != nil {
		b.extra.added = b.extra.ring.seq
	}
	switch {
	case r.byCount():
		s := b.needExtra()
		s.ring = newRing(r.windowCalls(), s.added)
	case b.extra != nil:
		b.extra.ring = nil
	}
}

// Hand moves a breaker by hand. Its changes say who did it.
type Hand struct {
	b   *Breaker
	who string
}

// By returns the hand of somebody; "" is nobody in particular.
func (b *Breaker) By(who string) Hand { return Hand{b, who} }

// ForceOpen refuses all calls until then, and then half-opens. With Never it refuses
// until another method moves the breaker. Nothing is counted meanwhile.
func (h Hand) ForceOpen(now, until clock.Instant) { h.force(now, ForcedOpen, until) }

// Disable admits all calls and counts nothing until then. Then the breaker is closed, or
// observes if its rules say so, and nothing is counted. With Never there is no end.
func (h Hand) Disable(now, until clock.Instant) { h.force(now, Disabled, until) }

// Observe admits and counts all calls, and logs the rules that they break: once
// each time that a rule is broken after having been kept. It ends as Disable does.
func (h Hand) Observe(now, until clock.Instant) { h.force(now, ObserveOnly, until) }

// Reset closes the breaker and empties its counts, whatever its state. It ends isolations.
func (h Hand) Reset(now clock.Instant) { h.force(now, Closed, 0) }

// Trip opens the breaker for the open time of its rules. No probe goes before that is
// over, however many calls are refused; TryHalfOpen and Reset end it. One that is open
// already stays so for what is left of its time, without probes, and one that is forced
// open stays as it is.
func (h Hand) Trip(now clock.Instant) {
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapse(now)
	switch s := b.state(); {
	case s == Open:
		b.extra.probeAfter.Store(0)
	case moves[s][Open].Has(Forced):
		b.open(Change{Cause: Forced, Who: h.who, Counts: b.counts(now), At: now, Due: now}, 0)
	}
}

// TryHalfOpen ends an open time early. It returns [ErrNotOpen] in other states
// than open and forced open, and while the breaker is isolated.
func (h Hand) TryHalfOpen(now clock.Instant) error {
	if !h.force(now, HalfOpen, 0) {
		return ErrNotOpen
	}
	return nil
}

// force moves by hand. The last such move counts. While the breaker is isolated only a reset
// moves it, and ends the isolations. Any other move says where the last release leads.
func (h Hand) force(now clock.Instant, to State, until clock.Instant) bool {
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapse(now)
	if b.isolated() && to != Closed {
		if to != HalfOpen {
			b.extra.returnTo, b.extra.returnUntil = to, until
		}
		return to != HalfOpen
	}
	change := Change{Cause: Forced, Who: h.who, Counts: b.counts(now), At: now, Due: now, Until: until}
	if to == Closed {
		change.Cause = WasReset
	}
	if b.repeats(to, until) || !b.move(to, change) {
		return false
	}
	b.release()
	return true
}

// repeats reports whether a move by hand would change nothing, and so must not empty the
// counts: the breaker is disabled or observes already, until the same time.
func (b *Breaker) repeats(to State, until clock.Instant) bool {
	return lapses(to) && b.state() == to && clock.Instant(b.until.Load()) == until
}

// lapse ends what was disabled, or made to observe, until a time that has come.
func (b *Breaker) lapse(now clock.Instant) {
	until := clock.Instant(b.until.Load())
	if !lapses(b.state()) || now < until {
		return
	}
	b.move(b.rules.Load().home(), Change{Cause: OverrideOver, Counts: b.counts(now), At: now, Due: until, Until: clock.Never})
}

func (b *Breaker) isolated() bool { return b.extra != nil && len(b.extra.held) > 0 }

func (b *Breaker) release() {
	if b.extra != nil {
		b.extra.held = nil
	}
}

// Isolation keeps a breaker forced open until it is released. The zero Isolation
// holds nothing.
type Isolation struct{ id uint64 }

// Isolate refuses all calls until every isolation is released, or until a Reset. What other
// methods set meanwhile by hand holds after the last release. At most 1024 are held at once.
func (h Hand) Isolate(now clock.Instant) Isolation {
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapse(now)
	s := b.needExtra()
	if len(s.held) == maxIsolations {
		return Isolation{}
	}
	if len(s.held) == 0 {
		b.noteReturn()
		b.move(ForcedOpen, Change{Cause: Isolated, Who: h.who, Counts: b.counts(now), At: now, Due: now, Until: clock.Never})
	}
	s.lastID++
	s.held = append(s.held, s.lastID)
	return Isolation{s.lastID}
}

// noteReturn notes the state after the last release: what was set by hand, or else
// closed.
func (b *Breaker) noteReturn() {
	b.extra.returnTo, b.extra.returnUntil = Closed, 0
	if s := b.state(); s == ForcedOpen || lapses(s) {
		b.extra.returnTo, b.extra.returnUntil = s, clock.Instant(b.until.Load())
	}
}

// Release gives an isolation back. The last one closes the breaker, or returns
// it to the state that was set by hand before. Releasing twice does nothing.
func (h Hand) Release(now clock.Instant, i Isolation) {
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.extra == nil {
		return
	}
	s := b.extra
	at := slices.Index(s.held, i.id)
	if at < 0 {
		return
	}
	if s.held = slices.Delete(s.held, at, at+1); len(s.held) == 0 {
		b.move(s.returnTo, Change{Cause: Released, Who: h.who, At: now, Due: now, Until: s.returnUntil})
	}
}
