package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	leases "github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Shares says that the clients of a fleet divide what their policies share among them, over a store, as
// processes do that joined one by package fleet.
type Shares struct {
	Lease   time.Duration
	Network draw.Dist // one way to the store
}

// sharing is the store of a fleet that divides limits, and who does.
type sharing struct {
	*Shares
	draws   draw.Stream
	network draw.Stream
	fleet   *fleet
	reports map[string]*reported
	pool    *leases.Pool
	known   *known // beside the pool
	version int    // of the pool, as the store counts
}

// sharer is one client that divides limits with the others.
type sharer struct {
	of       *sharing
	instance int
	process  int // how many clients were in its place before
	holder   *leases.Holder
	parts    []divided
	force    leases.Shares
	next     clock.Instant

	stage  leg
	asked  clock.Instant
	report *reported
	read   reading
	made   reading
}

// divided is what a client has of the limits of one edge.
type divided struct {
	edge   int
	state  *machine.State
	limits machine.SharedLimits
	before machine.Wants
	late   uint64 // attempts that waited for their turn
	queued uint64 // calls that waited for a slot
	turns  leases.Estimate
	slots  leases.Estimate
	quotas []leases.Estimate
	waited []uint64 // for each quota
	called clock.Instant
	opened clock.Instant // when it was last reported that its breaker is open
}

// reading is what the store legAnswered.
type reading struct {
	now     time.Time
	pool    *leases.Pool
	known   *known
	version int
	reports []reported
}

// leg is where a renewal is.
type leg uint8

const (
	legResting leg = iota
	legReporting
	legAnswered
	legListing
	legListed
	legSwapping
	legSwapped
	legFailing
)

// long is before any run.
const long = clock.Instant(-1 << 62)

// noon is when runs begin by the store's clock.
var noon = time.Unix(1_700_000_000, 0)

// startSharing lets the clients of a fleet divide limits, if they do.
func startSharing(s *sim, i int) {
	f := &s.fleets[i]
	if f.Shares == nil {
		return
	}
	of := &sharing{Shares: f.Shares, draws: draw.New(s.seed, forShares, uint64(i)), network: draw.New(s.seed, forStore, uint64(i)),
		fleet: f, reports: map[string]*reported{}}
	for instance := range (f.Clients + f.group - 1) / f.group {
		m := &sharer{of: of, instance: instance}
		for _, e := range f.plan.edges {
			m.parts = append(m.parts, divided{edge: e})
		}
		s.sharers = append(s.sharers, m)
		s.at(s.now.Add(time.Duration(of.draws.U()*float64(of.Lease/10))), evShare, uint32(len(s.sharers)-1), 0)
	}
}

// shares reports whether a caller's clients divide limits, and so count what they want.
func (w *World) shares(caller int) bool { return caller >= 0 && w.Fleets[caller].Shares != nil }

// renew does what is next in a client's renewal.
func (m *sharer) renew(s *sim, who uint32) {
	at := s.now.Add(m.of.Network.Draw(&m.of.network))
	switch m.stage {
	case legResting:
		if !m.begin(s) {
			at = s.now.Add(m.of.Lease / 48)
		}
	case legReporting, legListing, legSwapping:
		if m.of.fleet.away > 0 {
			m.stage, at = legFailing, max(s.now, m.asked.Add(m.of.Lease/12))
			break
		}
		m.of.serve(m, noon.Add(time.Duration(s.now)))
		m.stage++
	case legAnswered, legListed, legSwapped, legFailing:
		m.answer(s)
		if m.stage == legResting {
			at = s.now.Add(m.of.Lease / 48)
		}
	}
	if s.now < s.end {
		s.at(at, evShare, who, 0)
	}
}

// begin starts a renewal if one is due.
func (m *sharer) begin(s *sim) bool {
	demands := m.demands(s)
	if m.holder == nil || s.now < m.next && !m.holder.Rising(s.now, demands) {
		return false
	}
	if force, lower := m.holder.Fit(demands); lower {
		m.enforce(s, force)
		demands = m.demands(s)
	}
	m.stage, m.asked = legReporting, s.now
	m.report = &reported{Report: m.holder.Report(s.now, demands), open: m.open(s.now)}
	return true
}

// serve is what the store does with a request.
func (of *sharing) serve(m *sharer, now time.Time) {
	switch m.stage {
	case legReporting:
		m.report.at = now
		of.reports[m.report.ID] = m.report
		m.read = of.reading(now)
	case legListing:
		m.read = of.reading(now)
		for _, r := range of.reports {
			m.read.reports = append(m.read.reports, *r)
		}
	case legSwapping:
		if of.version == m.read.version {
			of.pool, of.known, of.version = m.made.pool, m.made.known, of.version+1
		}
		m.read = of.reading(now)
	}
}

func (of *sharing) reading(now time.Time) reading {
	return reading{now: now, pool: of.pool, known: of.known, version: of.version}
}

// answer takes what the store legAnswered.
func (m *sharer) answer(s *sim) {
	switch {
	case m.stage == legFailing:
		m.enforce(s, m.holder.Failed(s.now))
	case m.stage == legAnswered && m.holder.Due(m.read.now, m.read.pool, m.of.draws.U()):
		m.stage, m.asked = legListing, s.now
		return
	case m.stage == legListed:
		m.made = m.read.divide(m.of.Lease)
		m.stage, m.asked = legSwapping, s.now
		return
	default:
		m.enforce(s, m.holder.Heard(m.asked, m.read.now, m.read.pool))
		m.learn(s)
	}
	m.stage = legResting
	m.next = m.holder.Next(s.now, m.of.draws.U())
}

// divide makes the next pool.
func (r *reading) divide(lease time.Duration) (made reading) {
	reports := make([]leases.Report, len(r.reports))
	for i := range r.reports {
		reports[i] = *r.reports[i].Report
	}
	made.pool, made.known = leases.Divide(r.pool, reports, r.now, lease, 0), gather(r.reports, r.now)
	return made
}

// demands returns what a client wants. Where another client has taken its place, that one begins anew.
func (m *sharer) demands(s *sim) (all []leases.Demand) {
	for k := range m.parts {
		p := &m.parts[k]
		if st := s.state(p.edge, m.instance); st != p.state {
			if k == 0 || m.holder == nil {
				if m.holder != nil { // the old one left in good order
					m.of.reports[m.holder.ID()] = &reported{Report: m.holder.Leave(s.now)}
				}
				m.holder = leases.New(fmt.Sprintf("%d-%d", m.instance, m.process), m.of.Lease)
				m.process++
				m.force, m.next = leases.Shares{}, s.now
			}
			*p = divided{edge: p.edge, state: st, called: long, opened: long}
		}
	}
	if len(m.force.Amounts) == 0 {
		m.enforce(s, leases.Shares{})
	}
	for k := range m.parts {
		all = m.parts[k].demand(s.now, k, m, all)
	}
	return all
}

// demand adds what a client wants of the limits of one policy, by the formulas of package fleet.
func (p *divided) demand(now clock.Instant, k int, m *sharer, all []leases.Demand) []leases.Demand {
	rules, w := &p.state.Rules().Own().Policy, machine.WantsOf(p.state, now)
	p.limits = limitsOf(rules)
	add := func(of machine.SharedLimits, d leases.Demand) {
		if p.limits&of != 0 {
			d.Lost = float64(rules.Fleet.Lost)
			all = append(all, d)
		}
	}
	if w.Calls != p.before.Calls || w.InUse > 0 {
		p.called = now
	}
	if w.Ahead > 1 {
		p.late += uint64(max(0, w.Attempts-p.before.Attempts+w.Ahead))
	}
	if w.Queued > 1 {
		p.queued += uint64(max(0, w.Calls-p.before.Calls)) + uint64(w.Queued)
	}
	rate := leases.Demand{Resource: resource(k, ofRate), Total: float64(rules.RateLimit.Rate), Least: float64(rules.RateLimit.Rate) * hardly}
	rate.Want, rate.Room = p.turns.Count(now, uint64(max(0, w.Attempts+w.Refused+w.Ahead)), p.late, m.has(rate.Resource))
	add(machine.OfRate, rate)
	slots := leases.Demand{Resource: resource(k, ofSlots), Total: float64(rules.Bulkhead.Limit), Whole: true, Least: 1, Used: float64(w.InUse)}
	if rules.Bulkhead.Limit == policy.Learned {
		slots.Total = float64(rules.Bulkhead.Max)
	}
	slots.Want, slots.Room = p.slots.Level(now, float64(w.InUse+w.Queued), uint64(w.Calls)+uint64(w.Queued), p.queued, m.has(slots.Resource))
	add(machine.OfSlots, slots)
	floor := leases.Demand{Resource: resource(k, ofFloor), Total: 1}
	if now.Sub(p.called) < time.Minute {
		floor.Want = 1
	}
	add(machine.OfFloor, floor)
	for i := range w.Quotas {
		add(machine.OfQuotas, p.quota(now, k, i, m, rules, &w))
	}
	p.before = w
	return all
}

// hardly is the part of a rate or quota that each client has, whatever it wants.
const hardly = 1e-4

// limitsOf returns what a policy shares, as far as it is there.
func limitsOf(p *policy.Policy) (limits machine.SharedLimits) {
	for _, of := range []struct {
		limit  machine.SharedLimits
		shared bool
	}{
		{machine.OfRate, p.Fleet.Rate && p.RateLimit.Rate > 0},
		{machine.OfSlots, p.Fleet.Slots && !p.Bulkhead.Off},
		{machine.OfFloor, p.Fleet.Budget && !p.Retry.Budget.Off && p.Retry.Budget.Shape != policy.BudgetShare},
		{machine.OfQuotas, p.Fleet.Quotas && len(p.RateLimit.Quotas) > 0},
	} {
		if of.shared {
			limits |= of.limit
		}
	}
	return limits
}

// quota is what a client wants of the i-th quota of a policy.
func (p *divided) quota(now clock.Instant, k, i int, m *sharer, rules *policy.Policy, all *machine.Wants) leases.Demand {
	q, w := &rules.RateLimit.Quotas[i], &all.Quotas[i]
	if len(p.quotas) != len(all.Quotas) {
		p.quotas, p.waited = make([]leases.Estimate, len(all.Quotas)), make([]uint64, len(all.Quotas))
	}
	if w.Waiting > 1 && i < len(p.before.Quotas) {
		p.waited[i] += uint64(max(w.Used-p.before.Quotas[i].Used, 0) + float64(w.Waiting)*q.Estimate)
	}
	d, spans := leases.Demand{Resource: resource(k, quotaOf(q)), Total: q.Amount, Least: q.Amount * hardly, Long: true}, q.Span.Seconds()
	wanted := w.Used + float64(all.Refused+int64(w.Waiting))*q.Estimate
	d.Want, d.Room = p.quotas[i].Count(now, uint64(max(wanted, 0)), p.waited[i], m.has(d.Resource)/spans)
	d.Want, d.Room = d.Want*spans, d.Room*spans
	return d
}

// The limits, as they are in the names of resources.
const (
	ofRate  = "rate"
	ofSlots = "slots"
	ofFloor = "budget"
)

func quotaOf(q *policy.Quota) string { return q.Unit + "/" + policy.FormatDuration(q.Span) }

func resource(part int, of string) string { return fmt.Sprintf("%d %s", part, of) }

func (m *sharer) has(resource string) float64 {
	now, _ := m.share(resource)
	return now
}

func (m *sharer) share(resource string) (now, after float64) {
	for _, a := range m.force.Amounts {
		if a.Resource == resource {
			return a.Amount, a.After
		}
	}
	return 0, 0
}

func (m *sharer) sated(resource string) bool {
	i := slices.IndexFunc(m.force.Amounts, func(s leases.Share) bool { return s.Resource == resource })
	return i >= 0 && m.force.Amounts[i].Sated
}

// enforce puts shares in force.
func (m *sharer) enforce(s *sim, force leases.Shares) {
	m.force = force
	for k := range m.parts {
		p := &m.parts[k]
		if p.limits = limitsOf(&p.state.Rules().Own().Policy); p.limits == 0 {
			machine.Grant(p.state, s.now, nil)
			continue
		}
		l := &machine.Lease{Until: force.Until, Share: machine.Share{Limits: p.limits}, Lost: machine.Share{Limits: p.limits}}
		l.Share.Rate, l.Lost.Rate = m.share(resource(k, ofRate))
		l.Share.Sated = m.sated(resource(k, ofRate))
		slots, then := m.share(resource(k, ofSlots))
		l.Share.Slots, l.Lost.Slots = int(slots), int(then)
		l.Share.Floor, l.Lost.Floor = m.share(resource(k, ofFloor))
		for i := range p.state.Rules().Own().Policy.RateLimit.Quotas {
			q := &p.state.Rules().Own().Policy.RateLimit.Quotas[i]
			amount, after := m.share(resource(k, quotaOf(q)))
			l.Share.Quotas = append(l.Share.Quotas, machine.Part{Unit: q.Unit, Span: q.Span, Part: amount / q.Amount})
			l.Lost.Quotas = append(l.Lost.Quotas, machine.Part{Unit: q.Unit, Span: q.Span, Part: after / q.Amount})
		}
		machine.Grant(p.state, s.now, l)
	}
	s.serve()
}
