package quota

import (
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Reservation is what one attempt takes from the quotas of a group.
type Reservation struct {
	group    *Group
	cost     *Cost
	tenant   string
	waker    Waker
	priority policy.Priority

	// The group's lock guards all below.
	parts  []part
	sent   clock.Instant
	start  float64 // line
	number uint64
	state  state
	mask   uint8 // the quotas of which it needs something
	large  bool  // it needs more than there is in all
	ended  bool
	blamed bool // the server said that a quota has not enough left for it
}

type state uint8

const (
	idle state = iota
	waits
	taken
)

// part is what a reservation has of one quota.
type part struct {
	level    *level
	estimate float64 // what the call said, or the policy
	want     float64 // what is taken: the estimate, corrected, and then what was used
	sum      float64 // level.sum when it was sent
	spent    bool    // want is what was used
	heard    bool
}

// Reserve begins a reservation, which has nothing yet.
func (g *Group) Reserve(cost *Cost, tenant string, p policy.Priority) *Reservation {
	return &Reservation{group: g, cost: cost, tenant: tenant, priority: p}
}

// Ask takes what is needed from all quotas, or lets it wait until last at the latest. At is when to ask
// again, or of a refusal when there is room, as far as is known. W is woken when it is time to ask; nil leaves it as it was.
func (r *Reservation) Ask(now, last clock.Instant, w Waker) (at clock.Instant, a Answer) {
	g := r.group
	g.mu.Lock()
	if w != nil {
		r.waker = w
	}
	at, a = g.ask(now, last, r)
	wake := g.firsts(now, a == Taken || a == Refused)
	g.mu.Unlock()
	wake.wake()
	return at, a
}

// Now takes what is needed if there is room at once.
func (r *Reservation) Now(now clock.Instant) bool {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fit(now, r); r.large || g.line.blocks(r, g.scarce(now, r)) || g.wait(now, r) > 0 || g.early(now, r) {
		return false
	}
	g.take(now, r)
	return true
}

// Waits reports whether it stands in line.
func (r *Reservation) Waits() bool {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.state == waits
}

// Drop gives back all of it: the attempt is not made.
func (r *Reservation) Drop(now clock.Instant) { r.end(now, true, false) }

// End says that the attempt has ended. Unsent says that it provably was not sent, and refused that the
// server took nothing for it.
func (r *Reservation) End(now clock.Instant, unsent, refused bool) { r.end(now, unsent, refused) }

func (r *Reservation) end(now clock.Instant, unsent, refused bool) {
	g := r.group
	g.mu.Lock()
	switch {
	case r.state == waits:
		g.line.leave(r)
	case r.state == taken && !r.ended:
		r.ended = true
		g.out--
		g.answered = g.answered || !unsent
		for i := range r.parts {
			r.parts[i].end(now, unsent, refused)
		}
	}
	wake := g.firsts(now, true)
	g.mu.Unlock()
	wake.wake()
}

func (p *part) end(now clock.Instant, unsent, refused bool) {
	l := p.level
	l.out--
	if unsent || refused && !p.spent {
		l.refill(now)
		debt := l.debt
		l.correct(-p.want, p.sum)
		if !unsent {
			l.debt = debt
		}
		p.want = 0
	}
	if !unsent && p.heard {
		l.doubt(now, refused)
	}
}

// Spent says what the attempt really used, before or after its end. Of several words the last counts.
func (r *Reservation) Spent(now clock.Instant, unit string, amount float64) {
	if !(amount >= 0) || unit == policy.Requests {
		return
	}
	g := r.group
	g.mu.Lock()
	if r.state == taken {
		for i := range r.parts {
			if p := &r.parts[i]; p.level.rules.Unit == unit {
				p.use(now, amount)
			}
		}
	}
	wake := g.firsts(now, true)
	g.mu.Unlock()
	wake.wake()
}

func (p *part) use(now clock.Instant, amount float64) {
	l := p.level
	amount = min(amount, careless*l.amount())
	l.refill(now)
	l.pay(now)
	l.correct(amount-p.want, p.sum)
	if !p.spent {
		l.bias.learn(p.estimate, p.want, amount)
	}
	p.want, p.spent = amount, true
}

// Told takes what the server said is left, which came with the attempt's answer.
func (r *Reservation) Told(now clock.Instant, left []policy.Remaining) {
	g := r.group
	g.mu.Lock()
	if r.state == taken {
		for i := range left {
			r.told(now, &left[i])
		}
	}
	wake := g.firsts(now, true)
	g.mu.Unlock()
	wake.wake()
}

func (r *Reservation) told(now clock.Instant, left *policy.Remaining) {
	p := r.meant(left)
	if p == nil {
		return
	}
	short := left.Left >= 0 && left.Left < max(p.want, p.level.amount()*cushion)
	r.blamed = r.blamed || short // also by a word that is no news
	p.heard = p.level.hear(now, left, p.sum, p.want) || p.heard
}

// meant finds the quota that the server speaks of: the one with that span, or the only one of that unit.
func (r *Reservation) meant(left *policy.Remaining) (found *part) {
	several := false
	for i := range r.parts {
		p := &r.parts[i]
		if p.level.rules.Unit != left.Unit {
			continue
		}
		if p.level.rules.Span == left.Window {
			return p
		}
		several = found != nil
		found = p
	}
	if several || left.Window != 0 && found != nil && (left.Window > 2*found.level.rules.Span || left.Window < found.level.rules.Span/2) {
		return nil
	}
	return found
}

// Blamed reports whether the server said of a quota that it has not enough left: then that quota, and
// not the dependency, refused the attempt.
func (r *Reservation) Blamed() bool {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.blamed
}

// Short returns the unit of the quota that r lacks most, and what there is of it, for events.
func (r *Reservation) Short(now clock.Instant) (unit string, need, amount float64) {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := int64(-1)
	for i := range r.parts {
		p := &r.parts[i]
		d := int64(p.level.wait(now, p.want))
		if p.estimate > p.level.amount() {
			d = 1<<62 - 1
		}
		if d > longest {
			longest, unit, need, amount = d, p.level.rules.Unit, max(p.want, p.estimate), p.level.amount()
		}
	}
	return unit, need, amount
}
