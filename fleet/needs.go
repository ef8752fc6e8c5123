package fleet

import (
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// needs are what the dependencies want of what is shared. They are for one goroutine.
type needs struct {
	of      map[string]*need // by name of the dependency
	order   []*need          // those that share something
	demands []fleet.Demand   // of all of them
	left    int              // resources for which there was no room
}

// need is what one dependency wants.
type need struct {
	d       *gabion.Dependency
	via     adapter.Dependency
	name    string // as it is in the names of resources
	limits  machine.SharedLimits
	rate    float64 // that an operator limits all to; 0 means none
	wants   machine.Wants
	before  machine.Wants // of the look before
	late    uint64        // attempts that waited for their turn
	queued  uint64        // calls that waited for a slot
	waiting []uint64      // what waited, by quota

	turns, slots fleet.Estimate
	quotas       []fleet.Estimate
	called       clock.Instant // when a call was last seen
	calls        int64         // by then
	leased       bool

	hydrated bool // it has learned something, or was given what others had learned
}

// busyFor is for how long after a call a process wants a part of the retry budget's floor.
const busyFor = time.Minute

// hardly is the part of a rate or quota that each process has, whatever it wants: a call of one that is quiet need not
// wait for a renewal.
const hardly = 1e-4

// measure reads what was wanted.
func (m *Member) measure(now clock.Instant) {
	n := &m.needs
	n.order, n.demands, n.left = n.order[:0], n.demands[:0], 0
	known := make(map[string]bool, len(n.of))
	for _, name := range m.registry.Names() {
		d, err := m.registry.Get(name)
		if err != nil {
			continue // a reload has just dropped it
		}
		known[name] = true
		one := n.of[name]
		if one == nil || one.d != d {
			one = &need{d: d, via: adapter.Of(d), name: machine.BoundedName(name), called: never}
			n.of[name] = one
		}
		one.rate = m.steers.rate(name)
		before := len(n.demands)
		if n.demands = one.measure(now, n.demands, m.amounts); len(n.demands) > fleet.MaxResources {
			n.left += len(n.demands) - before
			n.demands = n.demands[:before]
			one.limits = 0
		}
		if one.limits != 0 || one.leased {
			n.order = append(n.order, one)
		}
	}
	for name, one := range n.of {
		if !known[name] {
			m.release(one)
			delete(n.of, name)
		}
	}
}

// release is for a dependency that a reload has dropped. Who holds it may go on calling it, so it has what a process has that left, and no
// more than it had. Overrides are for those of the fleet.
func (m *Member) release(n *need) {
	if !n.leased {
		return
	}
	apart := fleet.New(m.o.ID, m.o.Lease)
	n.rate = 0
	if apart.Fit(n.measure(m.now(), nil, nil)); n.limits == 0 {
		n.via.Lease(nil)
		return
	}
	left := apart.Failed(0)
	for i := range left.Amounts {
		if one := &left.Amounts[i]; m.amounts.of(one.Resource) > 0 {
			one.After = min(one.After, m.amounts.of(one.Resource))
		}
	}
	l := &adapter.Lease{Until: m.epoch}
	l.Share, l.Lost = n.shares(amountsOf(left))
	n.via.Lease(l)
}

const never = clock.Instant(-1 << 63)

// measure adds the demands of a dependency.
func (n *need) measure(now clock.Instant, all []fleet.Demand, force amounts) []fleet.Demand {
	p := n.via.PolicyInForce()
	n.limits = limitsOf(p)
	if n.rate > 0 {
		n.limits |= machine.OfRate
	}
	if n.limits == 0 {
		return all
	}
	n.before, n.wants = n.wants, n.via.Wants()
	if n.wants.Calls != n.calls || n.wants.InUse > 0 {
		n.called, n.calls = now, n.wants.Calls
	}
	lost := float64(p.Fleet.Lost)
	if n.limits&machine.OfRate != 0 {
		all = append(all, n.wantRate(now, p, lost, force))
	}
	if n.limits&machine.OfSlots != 0 {
		all = append(all, n.wantSlots(now, p, lost, force))
	}
	if n.limits&machine.OfFloor != 0 {
		d := fleet.Demand{Resource: n.resource(ofFloor), Total: 1, Lost: lost}
		if now.Sub(n.called) < busyFor {
			d.Want = 1
		}
		all = append(all, d)
	}
	if n.limits&machine.OfQuotas != 0 {
		all = n.wantQuotas(now, p, lost, all, force)
	}
	return all
}

// limitsOf returns what a policy shares, as far as it is there.
func limitsOf(p *policy.Policy) (limits machine.SharedLimits) {
	if p.Fleet.Rate && p.RateLimit.Rate > 0 {
		limits |= machine.OfRate
	}
	if p.Fleet.Slots && !p.Bulkhead.Off {
		limits |= machine.OfSlots
	}
	if b := p.Retry.Budget; p.Fleet.Budget && !b.Off && b.Shape != policy.BudgetShare {
		limits |= machine.OfFloor
	}
	if p.Fleet.Quotas && len(p.RateLimit.Quotas) > 0 {
		limits |= machine.OfQuotas
	}
	return limits
}

// The kinds of resources, as they are in their names.
const (
	ofRate  = "rate"
	ofSlots = "slots"
	ofFloor = "budget"
)

func (n *need) resource(kind string) string { return n.name + " " + kind }

func (n *need) wantRate(now clock.Instant, p *policy.Policy, lost float64, force amounts) fleet.Demand {
	d := fleet.Demand{Resource: n.resource(ofRate), Total: float64(p.RateLimit.Rate), Lost: lost}
	if n.rate > 0 && (d.Total <= 0 || n.rate < d.Total) {
		d.Total = n.rate
	}
	w := &n.wants
	if w.Ahead > 1 { // a queue, and not one that came a moment early: then all that were sent since have waited, too
		n.late += count(w.Attempts - n.before.Attempts + w.Ahead)
	}
	d.Want, d.Room = n.turns.Count(now, count(w.Attempts+w.Refused+w.Ahead), n.late, force.of(d.Resource))
	d.Least, d.New = d.Total*hardly, !n.turns.Counted()
	return d
}

func (n *need) wantSlots(now clock.Instant, p *policy.Policy, lost float64, force amounts) fleet.Demand {
	d := fleet.Demand{Resource: n.resource(ofSlots), Total: float64(p.Bulkhead.Limit), Whole: true, Least: 1, Lost: lost}
	if p.Bulkhead.Limit == policy.Learned {
		d.Total = float64(p.Bulkhead.Max)
	}
	w := &n.wants
	if w.Queued > 1 {
		n.queued += count(w.Calls - n.before.Calls + int64(w.Queued))
	}
	d.Want, d.Room = n.slots.Level(now, float64(w.InUse+w.Queued), count(w.Calls+int64(w.Queued)), n.queued, force.of(d.Resource))
	d.Used = float64(w.InUse)
	d.New = !n.slots.Counted()
	return d
}

func (n *need) wantQuotas(now clock.Instant, p *policy.Policy, lost float64, all []fleet.Demand, force amounts) []fleet.Demand {
	if list := p.RateLimit.Quotas; len(n.quotas) != len(list) {
		n.quotas, n.waiting = make([]fleet.Estimate, len(list)), make([]uint64, len(list))
	}
	for i, q := range p.RateLimit.Quotas {
		d := fleet.Demand{Resource: n.resource(quotaName(q.Unit, q.Span)), Total: q.Amount, Least: q.Amount * hardly, Lost: lost, Long: true}
		if i < len(n.wants.Quotas) {
			w := &n.wants.Quotas[i]
			wanted := w.Used + float64(n.wants.Refused+int64(w.Waiting))*q.Estimate
			if w.Waiting > 1 && i < len(n.before.Quotas) {
				n.waiting[i] += uint64(max(w.Used-n.before.Quotas[i].Used, 0) + float64(w.Waiting)*q.Estimate)
			}
			spans := q.Span.Seconds()
			d.Want, d.Room = n.quotas[i].Count(now, uint64(max(wanted, 0)), n.waiting[i], force.of(d.Resource)/spans)
			d.Want, d.Room, d.New = d.Want*spans, d.Room*spans, !n.quotas[i].Counted()
		}
		all = append(all, d)
	}
	return all
}

func quotaName(unit string, span time.Duration) string {
	return unit + "/" + policy.FormatDuration(span)
}

func count(n int64) uint64 { return uint64(max(n, 0)) }

// amounts are the shares in force, by resource.
type amounts map[string]fleet.Share

func amountsOf(s fleet.Shares) amounts {
	all := make(amounts, len(s.Amounts))
	for _, one := range s.Amounts {
		all[one.Resource] = one
	}
	return all
}

func (a amounts) of(resource string) float64 { return a[resource].Amount }

// enforce puts shares in force.
func (m *Member) enforce(s fleet.Shares) {
	m.force, m.amounts = s, amountsOf(s)
	until := m.time(max(s.Until, 0)) // one that there never was ended before the process began
	for _, n := range m.needs.order {
		if n.leased = n.limits != 0; !n.leased {
			n.via.Lease(nil)
			continue
		}
		l := &adapter.Lease{Until: until}
		l.Share, l.Lost = n.shares(m.amounts)
		n.via.Lease(l)
	}
}

// shares are what is in force of a dependency's limits before and after the end of the lease.
func (n *need) shares(all amounts) (share, lost machine.Share) {
	share.Limits, lost.Limits = n.limits, n.limits
	get := func(kind string) (now, then float64) {
		one := all[n.resource(kind)]
		return one.Amount, one.After
	}
	share.Rate, lost.Rate = get(ofRate)
	share.Sated = all[n.resource(ofRate)].Sated
	slots, then := get(ofSlots)
	share.Slots, lost.Slots = int(slots), int(then)
	share.Floor, lost.Floor = get(ofFloor)
	if n.limits&machine.OfQuotas == 0 {
		return share, lost
	}
	for _, q := range n.via.PolicyInForce().RateLimit.Quotas {
		amount, after := get(quotaName(q.Unit, q.Span))
		share.Quotas = append(share.Quotas, machine.Part{Unit: q.Unit, Span: q.Span, Part: amount / q.Amount})
		lost.Quotas = append(lost.Quotas, machine.Part{Unit: q.Unit, Span: q.Span, Part: after / q.Amount})
	}
	return share, lost
}
