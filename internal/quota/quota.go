// Package quota shares out what calls may use in a time: tokens, requests, money. A [Group] has several
// quotas, and a call takes from all of them or from none. What it takes is an estimate, which is
// corrected when the answer says more. Nothing here sleeps or reads a clock.
package quota

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Cost is what a call says that it will use. Of two of one unit the first counts.
type Cost struct {
	Unit   string
	Amount float64
	Next   *Cost
}

// of returns what is said of that unit.
func (c *Cost) of(unit string) (amount float64, said bool) {
	for ; c != nil; c = c.Next {
		if c.Unit == unit {
			return c.Amount, true
		}
	}
	return 0, false
}

// Wrong says which cost can't be meant.
func (c *Cost) Wrong() error {
	for ; c != nil; c = c.Next {
		switch {
		case !(c.Amount >= 0) || math.IsInf(c.Amount, 0):
			return fmt.Errorf("WithCost(%q, %v): an attempt uses zero or more", c.Unit, c.Amount)
		case c.Unit == "":
			return fmt.Errorf("WithCost(%q, %v): name the unit of a quota", c.Unit, c.Amount)
		}
	}
	return nil
}

// Waker wakes a call that waits. Wake must not block.
type Waker interface{ Wake() }

// Group is the quotas from which the calls of one partition take. It is safe for concurrent use.
type Group struct {
	mu       sync.Mutex
	levels   []*level
	answered bool // some attempt has ended, or brought a word
	out      int  // attempts that are out
	line     line
}

// New makes the quotas, of which nothing is used.
func New(now clock.Instant, quotas []policy.Quota) *Group {
	g := new(Group)
	g.levels = make([]*level, len(quotas))
	for i := range quotas {
		g.levels[i] = newLevel(now, quotas[i])
	}
	return g
}

func newLevel(now clock.Instant, q policy.Quota) *level {
	l := &level{rules: q, at: now, paid: now, deaf: now, last: now.Add(-q.Span), ended: now}
	l.own = l.part(now)
	return l
}

// Reload puts other quotas in force. One of the same unit and nearly the same span keeps what is
// used. Those who wait ask again.
func (g *Group) Reload(now clock.Instant, quotas []policy.Quota) {
	g.mu.Lock()
	old := g.levels
	g.levels = make([]*level, len(quotas))
	kept := make([]bool, len(old))
	for _, exact := range [...]bool{true, false} {
		for i, q := range quotas {
			for j, l := range old {
				if g.levels[i] == nil && !kept[j] && l.rules.Unit == q.Unit && (!exact || l.rules.Span == q.Span) {
					g.levels[i], kept[j] = l, true
				}
			}
		}
	}
	for i, q := range quotas {
		if g.levels[i] == nil {
			g.levels[i] = newLevel(now, q)
		} else {
			g.levels[i].change(now, q)
		}
	}
	waiting := g.line.waiting
	g.line.waiting = nil
	for _, r := range waiting {
		r.parts = nil
		g.fit(now, r)
		g.line.insert(r)
	}
	woken := make([]Waker, len(g.line.waiting))
	for i, r := range g.line.waiting {
		woken[i] = r.waker
	}
	g.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
}

// share is the part of the amount that others have agreed to leave to this process.
type share struct {
	part float64
	on   bool
}

// Share puts in force which part of each quota this process may use, where several have agreed on parts. A part that
// becomes larger fills in time: the process that had it may have used it just now.
func (g *Group) Share(now clock.Instant, part func(*policy.Quota) (part float64, shared bool)) {
	g.mu.Lock()
	more := false
	for _, l := range g.levels {
		next := share{}
		next.part, next.on = part(&l.rules)
		if next == l.share {
			continue
		}
		l.refill(now)
		before := l.part(now)
		l.share = next
		l.own = min(l.own, l.part(now))
		more = more || l.part(now) > before
	}
	wake := g.firsts(now, more)
	g.mu.Unlock()
	wake.wake()
}

// Answer is what comes of asking for room.
type Answer uint8

// What can come of it.
const (
	Taken    Answer = iota // it is taken
	Later                  // the reservation waits: ask again at the time, or once it is woken
	Refused                // there is no room in time
	TooLarge               // there never is: the call needs more than there is in all
)

func (g *Group) ask(now, last clock.Instant, r *Reservation) (at clock.Instant, a Answer) {
	if r.state == taken {
		return now, Taken
	}
	if r.state == idle {
		if g.fit(now, r); r.large {
			return now, TooLarge
		}
	}
	if g.line.blocks(r, g.scarce(now, r)) {
		return g.behind(now, last, r)
	}
	d := g.wait(now, r)
	switch at = now.Add(d); {
	case d > 0:
	case !g.early(now, r):
		g.take(now, r)
		return now, Taken
	case now < last: // there is room, and an answer may come at any time
		at = last
	default:
		at = max(now, last).Add(r.soon())
	}
	switch {
	case at > last || r.large:
		g.line.leave(r)
		return at, Refused
	}
	if r.state == idle && !g.line.join(r) {
		return at, Refused
	}
	return at, Later
}

// behind is ask for a reservation that others are before.
func (g *Group) behind(now, last clock.Instant, r *Reservation) (at clock.Instant, a Answer) {
	if r.state == waits && now < last {
		return last, Later
	}
	at = now.Add(max(g.wait(now, r), g.ahead(now, r)))
	if at > last || now >= last || r.state == idle && !g.line.join(r) {
		g.line.leave(r)
		return max(at, now+1), Refused
	}
	return last, Later
}

// fit works out what r needs of each quota.
func (g *Group) fit(now clock.Instant, r *Reservation) {
	r.parts, r.mask, r.large = make([]part, len(g.levels)), 0, false
	for i, l := range g.levels {
		l.refill(now)
		p := &r.parts[i]
		p.level = l
		p.estimate = l.rules.Estimate
		if said, ok := r.cost.of(l.rules.Unit); ok && l.rules.Unit != policy.Requests {
			p.estimate = said
		}
		p.want = p.estimate
		if l.rules.Unit != policy.Requests {
			p.want *= l.bias.factor()
		}
		r.large = r.large || p.estimate > l.amount()
		p.want = min(p.want, l.amount())
		if p.want > 0 {
			r.mask |= 1 << i
		}
	}
}

// wait is how long it takes until there is room in all quotas for r alone.
func (g *Group) wait(now clock.Instant, r *Reservation) (d time.Duration) {
	for i := range r.parts {
		d = max(d, r.parts[i].level.wait(now, r.parts[i].want))
	}
	return d
}

// early reports whether r has to wait until the first answer has come.
func (g *Group) early(now clock.Instant, r *Reservation) bool {
	return slices.ContainsFunc(r.parts, func(p part) bool { return p.level.early(now, p.want, g.answered) })
}

// soon is after which time one that is early may ask again. When the first answer comes is not known. What it needs comes back in
// that time, if that is neither too short to be of use nor longer than most answers take.
func (r *Reservation) soon() (d time.Duration) {
	for i := range r.parts {
		l := r.parts[i].level
		d = max(d, l.spans(r.parts[i].want/l.amount()))
	}
	return min(max(d, 10*time.Millisecond), time.Second)
}

// scarce is the quotas of which those that go first have to wait for some, once next has what it
// needs. Only for these others wait behind them: a quota that has nothing left stops none that does not use it. Next may be nil.
func (g *Group) scarce(now clock.Instant, next *Reservation) (scarce uint8) {
	var needed, all uint8 = 0, 1<<len(g.levels) - 1
	for _, r := range g.line.waiting {
		if r.mask&needed == 0 {
			for i := range r.parts {
				if g.lacks(now, r, next, i) {
					scarce |= 1 << i
				}
			}
		}
		if needed |= r.mask; needed == all {
			break
		}
	}
	return scarce
}

// lacks reports whether r has to wait for a quota, once next has what it needs of it.
func (g *Group) lacks(now clock.Instant, r, next *Reservation, i int) bool {
	l, want := r.parts[i].level, 0.0
	if next != nil && next != r {
		want = next.parts[i].want
	}
	l.refill(now)
	own, sum := l.own, l.sum
	l.own, l.sum = own-want, sum+want
	lacks := l.wait(now, r.parts[i].want) > 0 || l.early(now, r.parts[i].want, g.answered)
	l.own, l.sum = own, sum
	return lacks
}

// ahead is how long it takes until there is room for r after all that go before it.
func (g *Group) ahead(now clock.Instant, r *Reservation) (d time.Duration) {
	for i := range r.parts {
		p := &r.parts[i]
		if p.want <= 0 {
			continue
		}
		sum := p.want
		for _, other := range g.line.before(r) {
			if i < len(other.parts) {
				sum += other.parts[i].want
			}
		}
		l := p.level
		part := min(l.part(now), l.amount())
		if l.rules.Window {
			if lack := sum - l.left(now); lack > 0 {
				d = max(d, l.until(now, lack, part)+time.Duration(math.Floor(min(lack/part, 1e3)))*l.rules.Span)
			}
			continue
		}
		d = max(d, l.until(now, sum-l.left(now), part))
	}
	return d
}

func (g *Group) take(now clock.Instant, r *Reservation) {
	g.line.took(r)
	r.state, r.sent = taken, now
	for i := range r.parts {
		p := &r.parts[i]
		p.level.take(now, p.want)
		p.sum, p.first = p.level.sum, p.want
	}
	g.out++
}

// Idle reports whether nothing is out or waits, and nothing would be forgotten.
func (g *Group) Idle(now clock.Instant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.out > 0 || len(g.line.waiting) > 0 {
		return false
	}
	for _, l := range g.levels {
		if l.refill(now); l.own < l.part(now)*(1-1e-9) || l.word.until > now {
			return false
		}
	}
	return true
}

// Stats returns what is known of each quota.
func (g *Group) Stats(now clock.Instant) []policy.QuotaStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]policy.QuotaStats, len(g.levels))
	for i, l := range g.levels {
		s := &all[i]
		s.Unit, s.Span, s.Amount, s.Left, s.Factor = l.rules.Unit, l.rules.Span, l.amount(), l.left(now), l.bias.factor()
		s.Told = l.fresh(now)
		s.Used, s.Part, s.Shared = l.sum, policy.Ratio(l.share.part), l.share.on
		need := l.rules.Estimate
		for _, r := range g.line.waiting {
			if r.mask>>i&1 != 0 {
				if s.Waiting == 0 {
					need = r.parts[i].want
				}
				s.Waiting++
			}
		}
		s.Next = l.wait(now, need)
	}
	return all
}
