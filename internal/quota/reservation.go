package quota

import (
	"math"
	"time"

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
	also     *Reservation

	// The group's lock guards all below.
	parts   []part
	sent    clock.Instant
	start   float64 // line
	costs   float64 // its tenant, in virtual time
	number  uint64
	state   state
	mask    uint8 // the quotas of which it needs something
	charged bool  // its tenant counts it
	large   bool  // it needs more than there is in all
	ended   bool
	blamed  bool // the server said that a quota has not enough left for it
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
	first    float64 // want when it was sent
	sum      float64 // level.sum when it was sent
	spent    bool    // want is what was used
	heard    bool
	short    bool // the server said that there is not enough, whether that counted or not
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
	if r.state == taken {
		return true
	}
	if g.fit(now, r); r.large || g.line.blocks(r, g.scarce(now, r)) || g.wait(now, r) > 0 || g.early(now, r) {
		return false
	}
	g.take(now, r)
	return true
}

// Anyway takes what is needed, whether there is room or not: the attempt can't wait any more.
func (r *Reservation) Anyway(now clock.Instant) {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.state != taken {
		g.fit(now, r)
		g.take(now, r)
	}
}

// Ahead is how long it takes until there is room for r, after those who wait, as far as is known; zero where it could
// be taken now. It takes nothing.
func (r *Reservation) Ahead(now clock.Instant) time.Duration {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.fit(now, r); {
	case r.large:
		return math.MaxInt64
	case g.line.blocks(r, g.scarce(now, r)) || g.early(now, r):
		return max(g.wait(now, r), g.ahead(now, r), 1)
	}
	return g.wait(now, r)
}

// With makes what happens to r happen to other as well: they are what one attempt has taken of two groups. It must be used before
// the attempt is sent.
func (r *Reservation) With(other *Reservation) { r.also = other }

// Waits reports whether it stands in line.
func (r *Reservation) Waits() bool {
	g := r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.state == waits
}

// Drop gives back all of it: the attempt is not made.
func (r *Reservation) Drop(now clock.Instant) { r.End(now, true, false) }

// End says that the attempt has ended. Unsent says that it provably was not sent, and refused that the
// server took nothing for it.
func (r *Reservation) End(now clock.Instant, unsent, refused bool) {
	for ; r != nil; r = r.also {
		r.end(now, unsent, refused)
	}
}

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
			if !unsent {
				r.parts[i].level.ended = max(r.parts[i].level.ended, r.sent)
			}
			r.parts[i].end(now, unsent, refused)
		}
	}
	wake := g.firsts(now, true)
	g.mu.Unlock()
	wake.wake()
}

func (p *part) end(now clock.Instant, unsent, refused bool) {
	l := p.level
	l.back(p.first)
	if unsent || refused && !p.spent {
		l.refill(now)
		debt := l.debt
		p.sum = l.correct(-p.want, p.sum)
		if !unsent {
			l.debt = debt
		}
		p.want = 0
	}
	if !unsent && (p.heard || refused && p.short) {
		l.doubt(now, refused)
	}
}

// Spent says what the attempt really used, before or after its end. Of several words the last counts.
func (r *Reservation) Spent(now clock.Instant, unit string, amount float64) {
	if !(amount >= 0) || unit == policy.Requests {
		return
	}
	for ; r != nil; r = r.also {
		r.used(now, unit, amount)
	}
}

func (r *Reservation) used(now clock.Instant, unit string, amount float64) {
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
	p.sum = l.correct(amount-p.want, p.sum)
	if !p.spent {
		l.bias.learn(p.estimate, p.want, amount)
	}
	p.want, p.spent = amount, true
	if p.heard && l.limit > 0 && amount > l.limit && amount <= l.rules.Amount { // it took more than it says there is
		l.disbelieve(now)
	}
}

// Told takes what the server said is left, which came with the attempt's answer. What it says of a unit is about
// the endpoint's quota, where that has one.
func (r *Reservation) Told(now clock.Instant, left []policy.Remaining) {
	var heard uint64
	if r.also != nil {
		heard = r.also.hear(now, left, 0)
	}
	r.hear(now, left, heard)
}

// hear takes those words that no other quota has heard, and returns which of them were meant.
func (r *Reservation) hear(now clock.Instant, left []policy.Remaining, heard uint64) (meant uint64) {
	g := r.group
	g.mu.Lock()
	if r.state == taken {
		for i := range left {
			if heard>>i&1 == 0 && r.told(now, &left[i]) {
				meant |= 1 << i
			}
		}
		g.answered = g.answered || meant != 0
	}
	wake := g.firsts(now, true)
	g.mu.Unlock()
	wake.wake()
	return meant
}

func (r *Reservation) told(now clock.Instant, left *policy.Remaining) (meant bool) {
	p := r.meant(left)
	if p == nil {
		return false
	}
	short := left.Left >= 0 && left.Left < max(p.want, p.level.amount()*cushion)
	p.short, r.blamed = short, r.blamed || short // also by a word that is no news
	p.heard = p.level.hear(now, left, p.sum, p.want) || p.heard
	return true
}

// meant finds the quota that the server speaks of: the one with that span, the only one of that unit, or the one with that limit.
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
		several = several || found != nil
		found = p
	}
	if several && left.Window == 0 {
		return r.limited(left)
	}
	if several || left.Window != 0 && found != nil && (left.Window > 2*found.level.rules.Span || left.Window < found.level.rules.Span/2) {
		return nil
	}
	return found
}

// limited finds the quota whose amount is about the limit that the server names, if no other one's may be meant, as where requests are
// limited by the minute and by the day.
func (r *Reservation) limited(left *policy.Remaining) (found *part) {
	least, next := math.Inf(1), math.Inf(1)
	for i := range r.parts {
		p := &r.parts[i]
		if p.level.rules.Unit != left.Unit || left.Limit <= 0 {
			continue
		}
		switch off := math.Abs(math.Log2(p.level.rules.Amount / left.Limit)); {
		case off < least:
			least, next, found = off, least, p
		case off < next:
			next = off
		}
	}
	if least > 1 || next < least+1 {
		return nil
	}
	return found
}

// Blamed reports whether the server said of a quota that it has not enough left: then that quota, and
// not the dependency, refused the attempt.
func (r *Reservation) Blamed() bool {
	if r.also != nil && r.also.Blamed() {
		return true
	}
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
