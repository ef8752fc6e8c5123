package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/endpoints"
	"github.com/gabion-go/gabion/policy"
)

// placing is where the attempts of a call go. A call of a dependency without endpoints has none.
type placing struct {
	among  *places
	only   *place        // the one that the caller named
	stuck  *place        // the only one where the work may go on: it may have happened there
	maybe  int           // attempts there that may have
	sticky bool          // the call has a key that the endpoints don't share
	moves  bool          // the work may be done anywhere, also after it may have happened elsewhere
	tried  endpoints.Set // where it was
	visits []stay        // of attempts, in their order
	room   [2]stay       // the first array of visits
}

// stay is an attempt at an endpoint.
type stay struct {
	to      *place
	permit  breaker.Permit
	receipt breaker.Receipt // of a result that lives on
	shown   breaker.Result  // what it showed at its verdict, if its result lives on
	brief   time.Duration   // how long it may take, where that is less than others; zero means as long
	short   bool            // it has no more time than that
}

func (g *placing) visit(t *Ticket) *stay { return &g.visits[t.Attempt-1] }

// beginPlacing readies a call for endpoints. It reports false if the one that the call names is not there. A
// reload may have removed it, or all, after the caller looked.
func beginPlacing(c *Call, p *Params) (ok bool) {
	if p.Endpoint != nil && *p.Endpoint == "" {
		return true
	}
	var among *places
	if c.rules.placed() {
		among = placesOf(c.state)
	}
	if among == nil {
		return p.Endpoint == nil
	}
	g := &placing{among: among, sticky: p.Keyed && !among.shared}
	if p.Endpoint != nil {
		if g.only = among.find(*p.Endpoint); g.only == nil {
			return false
		}
	}
	g.moves = c.safe && !g.sticky && g.only == nil
	g.visits = g.room[:0]
	c.sent.at = g
	return true
}

// bound is the only endpoint that the next attempt may go to, or nil.
func (g *placing) bound() *place {
	if g.stuck != nil {
		return g.stuck
	}
	return g.only
}

// stranded reports whether the call is bound to an endpoint that is left out. Where none works, none is but one that was
// shut by hand.
func (g *placing) stranded(now clock.Instant) (after time.Duration, stranded bool) {
	p := g.bound()
	if p == nil || p.guard.off() || g.among.working(now) == 0 && p.guard.breaker.State() != breaker.ForcedOpen {
		return 0, false
	}
	return p.guard.breaker.Shut(now)
}

// left reports whether attempts go to another endpoint than that one by now.
func (g *placing) left(now clock.Instant, p *place) bool {
	out, due := g.among.health(now)
	for i, one := range g.among.list {
		if one == p {
			return g.bound() == nil && g.among.passes(i, out, due)
		}
	}
	return false
}

// depart chooses the endpoint of an attempt, and asks its breaker.
func (g *placing) depart(c *Call, now clock.Instant, hedge bool) {
	out, due := g.among.health(now)
	g.among.note(c.state, now, out|due)
	var v stay
	for v.to == nil {
		i, why := c.wait.room.decided(g, out, due)
		if i < 0 {
			i, why = g.choose(c, now, endpoints.Query{Out: out, Due: due, First: c.sent.n == 1}, hedge)
		}
		p, ok := g.among.list[i], true
		if why == endpoints.Probe || !(out | due).Has(i) {
			v.permit, ok = p.guard.Enter(now)
		}
		if !ok { // another call's probe is out, or it has just been left out
			out, due = out|endpoints.Of(i), due&^endpoints.Of(i)
			continue
		}
		v.to = p
		if why == endpoints.Probe && g.moves {
			v.brief = g.among.brief(out|due, p)
		}
		g.tried |= endpoints.Of(i)
		if why == endpoints.Panicked {
			g.among.spread.Add(1)
		}
	}
	if g.among.metered {
		c.wait.room.goTo(c, now, v.to)
	}
	if g.sticky {
		g.stuck = v.to
		g.maybe++
	}
	v.to.known.Enter(now)
	g.visits = append(g.visits, v)
}

// patience is how long an endpoint that may be asked again waits for a call whose work can be done elsewhere. Then another one
// asks, for else one that gets nothing but calls with keys would never come back. Such a call may be lost, so only one in
// askers does, or in as many as there are endpoints: where calls are rare, each finds that it is time.
const (
	patience = 2 * time.Second
	askers   = 8
)

// late are the endpoints of due that wait for longer, if the draw says that the call is one that asks.
func (ps *places) late(now clock.Instant, due endpoints.Set, u float64) (late endpoints.Set) {
	if u*float64(max(askers, len(ps.list))) >= 1 {
		return 0
	}
	for ; due != 0; due &= due - 1 {
		if i := due.First(); !ps.list[i].guard.shut(now.Add(-patience)) {
			late |= endpoints.Of(i)
		}
	}
	return late
}

// leastBrief is the least time that a probe has.
const leastBrief = 50 * time.Millisecond

// brief is how long a probe of p may take whose work can be done elsewhere afterwards: several times what it takes at the
// endpoints that work, and what it took at p while that worked, also where calls are so rare that this is forgotten when it
// comes to a choice. Without one that is known, it has as long as others.
func (ps *places) brief(gone endpoints.Set, p *place) (most time.Duration) {
	took := p.known.Answered()
	for i, one := range ps.list {
		if other := one.known.Took(); other > 0 && !gone.Has(i) {
			most = max(most, leastBrief, 3*max(other, took))
		}
	}
	return most
}

// isBrief reports whether an attempt has less time than others because it is a probe.
func (g *placing) isBrief(t *Ticket) bool { return g != nil && g.visit(t).short }

// limit is how long an attempt may take that would have so long by the policy; zero means no bound.
func (g *placing) limit(t *Ticket, limit time.Duration) time.Duration {
	if t.lone {
		return limit
	}
	most := g.atMost(t, limit)
	g.visit(t).short = most != limit
	return most
}

// atMost is limit for an attempt that another may follow.
func (g *placing) atMost(t *Ticket, limit time.Duration) time.Duration {
	if g == nil {
		return limit
	}
	if v := g.visit(t); v.brief > 0 && (limit <= 0 || v.brief < limit) {
		return v.brief
	}
	return limit
}

// choose chooses an endpoint, by what q says of them, and of the call.
func (g *placing) choose(c *Call, now clock.Instant, q endpoints.Query, hedge bool) (at int, why endpoints.Why) {
	if p := g.bound(); p != nil {
		for i, one := range g.among.list {
			if one == p && q.Due.Has(i) && !hedge {
				return i, endpoints.Probe
			} else if one == p {
				return i, endpoints.Usual
			}
		}
	}
	q.Tried, q.Moves = g.tried, g.moves
	if q.Due != 0 && !q.Moves {
		q.Late = g.among.late(now, q.Due, chance.U(c.draw(), uint64(len(q.U)), uint64(c.sent.n), chance.Choosing))
	}
	if hedge {
		q.Out, q.Due = q.Out|q.Due, 0
	}
	if q.Out|q.Due == g.among.all() {
		q.Shut = g.among.shut()
	}
	for i := range q.U {
		q.U[i] = chance.U(c.draw(), uint64(i), uint64(c.sent.n), chance.Choosing)
	}
	return g.among.ways.Pick(now, &q)
}

// arrive tells the endpoint what an attempt showed of it, and returns what that shows of the
// dependency: that one endpoint fails, while another works, says nothing.
func (g *placing) arrive(now clock.Instant, t *Ticket, o *policy.Outcome, shows breaker.Result, loser bool) breaker.Result {
	v := g.visit(t)
	result := endpoints.Nothing
	switch {
	case loser:
	case shows == breaker.Good:
		result = endpoints.Good
	case shows == breaker.Bad, o.Class == policy.ClassThrottled: // a refusal is quick, and must attract nothing either
		result = endpoints.Bad
	}
	v.to.known.Leave(now, now.Sub(t.Sent), result)
	if o.Open {
		v.shown, v.receipt = shows, v.to.guard.breaker.SettleOpen(now, 0, v.permit, shows, 0)
	} else {
		v.to.guard.breaker.Settle(now, 0, v.permit, shows, 0)
	}
	if g.sticky && (o.NeverSent || o.Undone) {
		if g.maybe--; g.maybe == 0 {
			g.stuck = nil
		}
	}
	if shows == breaker.Bad && g.othersWork(now, v.to) {
		return breaker.Neutral
	}
	return shows
}

// othersWork reports whether another endpoint than that one works.
func (g *placing) othersWork(now clock.Instant, but *place) bool {
	working := g.among.working(now)
	for i, p := range g.among.list {
		if p == but {
			working &^= endpoints.Of(i)
		}
	}
	return working != 0
}

// elsewhere reports whether the next attempt can go to an endpoint that works and where the call has not been. It
// needs no wait then.
func (g *placing) elsewhere(now clock.Instant, class policy.Class) bool {
	return (apart(class) || class == policy.ClassThrottled) && g.bound() == nil && g.among.working(now)&^g.tried != 0
}

// hold lets an endpoint alone that asked for time, and reports whether others take its attempts. A backup is let alone
// also where all the others wait, so that the first of them gets the attempts that are spaced.
func (g *placing) hold(now clock.Instant, t *Ticket, o *policy.Outcome, p *policy.Policy) (others bool) {
	at, after := g.visit(t).to, o.After
	others = g.othersWork(now, at)
	if backup := g.among.ways.Rules.Ordered && at != g.among.list[0]; !others && !(backup && g.othersWait(now, at)) {
		return false
	}
	if !o.HasAfter {
		after = p.Retry.Backoff.Base
	}
	at.held.Store(int64(now.Add(min(max(after, 0), p.Pace.Max))))
	return others
}

// othersWait reports whether all endpoints but that one asked for time.
func (g *placing) othersWait(now clock.Instant, but *place) bool {
	for _, p := range g.among.list {
		if p != but && now >= clock.Instant(p.held.Load()) {
			return false
		}
	}
	return true
}

// ended corrects what an endpoint's breaker has counted of a result that lived on.
func (g *placing) ended(now clock.Instant, t *Ticket, broke bool) {
	switch v := g.visit(t); {
	case !v.permit.Held():
	case broke && v.shown != breaker.Bad: // else it counts as a failure already
		v.to.guard.breaker.Fail(now, 0, v.permit, v.receipt)
	case !broke && v.shown == breaker.Good:
		v.to.guard.breaker.Whole(now, v.permit)
	}
}

// EndpointOf returns where an attempt of a call goes. It is nil where there are no endpoints.
func EndpointOf(c *Call, t *Ticket) *policy.Endpoint {
	if g := c.sent.at; g != nil && int(t.Attempt) <= len(g.visits) {
		return &g.visit(t).to.Endpoint
	}
	return nil
}

// Placed reports whether the attempts of a call go to endpoints.
func Placed(c *Call) bool { return c.sent.at != nil }

// place is the name of the endpoint where the call is bound to, or was last.
func (g *placing) place() string {
	switch n := len(g.visits); {
	case g.bound() != nil:
		return g.bound().Name
	case n > 0:
		return g.visits[n-1].to.Name
	}
	return ""
}

// placeOf is the name of an attempt's endpoint for events.
func placeOf(c *Call, t *Ticket) string {
	if e := EndpointOf(c, t); e != nil {
		return e.Name
	}
	return ""
}
