package sim

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	leases "github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Shares says that the clients of a fleet divide limits of their policies among them, over a store, as
// processes do that joined one by package fleet.
type Shares struct {
	Limits  machine.SharedLimits
	Lease   time.Duration
	Lost    float64   // as leases.Demand has it
	Network draw.Dist // one way to the store
	Away    []Span    // when the store does not answer
}

// Span is a stretch of a run.
type Span struct{ At, For time.Duration }

// sharing is the store of a fleet that divides limits, and who does.
type sharing struct {
	*Shares
	draws   draw.Stream
	network draw.Stream
	reports map[string]*leases.Report
	pool    *leases.Pool
	version int // of the pool, as the store counts
	members []*sharer
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
	report *leases.Report
	read   reading
	made   *leases.Pool
}

// divided is what a client has of the limits of one edge.
type divided struct {
	edge   int
	state  *machine.State
	before machine.Wants
	late   uint64 // attempts that waited for their turn
	queued uint64 // calls that waited for a slot
	turns  leases.Estimate
	slots  leases.Estimate
	called clock.Instant
}

// reading is what the store legAnswered.
type reading struct {
	now     time.Time
	pool    *leases.Pool
	version int
	reports []leases.Report
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

// noon is when runs begin by the store's clock.
var noon = time.Unix(1_700_000_000, 0)

// startSharing lets the clients of a fleet divide limits, if they do.
func startSharing(s *sim, i int) {
	f := &s.fleets[i]
	if f.Shares == nil {
		return
	}
	of := &sharing{Shares: f.Shares, draws: draw.New(s.seed, forShares, uint64(i)), network: draw.New(s.seed, forStore, uint64(i)),
		reports: map[string]*leases.Report{}}
	for instance := range (f.Clients + f.group - 1) / f.group {
		m := &sharer{of: of, instance: instance}
		for _, e := range f.plan.edges {
			m.parts = append(m.parts, divided{edge: e})
		}
		of.members = append(of.members, m)
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
		if m.of.away(s.now) {
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

func (of *sharing) away(now clock.Instant) bool {
	for _, a := range of.Away {
		if now >= clock.Instant(a.At) && now < clock.Instant(a.At+a.For) {
			return true
		}
	}
	return false
}

// begin starts a renewal if one is due.
func (m *sharer) begin(s *sim) bool {
	demands := m.demands(s)
	if m.holder == nil || s.now < m.next && !m.holder.Rising(s.now, demands) {
		return false
	}
	if force, lower := m.holder.Falling(s.now, demands); lower {
		m.enforce(s, force)
		demands = m.demands(s)
	}
	m.stage, m.asked = legReporting, s.now
	m.report = m.holder.Report(s.now, demands)
	return true
}

// serve is what the store does with a request.
func (of *sharing) serve(m *sharer, now time.Time) {
	switch m.stage {
	case legReporting:
		of.reports[m.report.ID] = m.report
		m.read = reading{now: now, pool: of.pool, version: of.version}
	case legListing:
		m.read = reading{now: now, pool: of.pool, version: of.version}
		for _, r := range of.reports {
			m.read.reports = append(m.read.reports, *r)
		}
	case legSwapping:
		if of.version == m.read.version {
			of.pool, of.version = m.made, of.version+1
		}
		m.read = reading{now: now, pool: of.pool, version: of.version}
	}
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
		m.made = leases.Divide(m.read.pool, m.read.reports, m.read.now, m.of.Lease, 0)
		m.stage, m.asked = legSwapping, s.now
		return
	default:
		m.enforce(s, m.holder.Heard(m.asked, m.read.now, m.read.pool))
	}
	m.stage = legResting
	m.next = m.holder.Next(s.now, m.of.draws.U())
}

// demands returns what a client wants. Where another client has taken its place, that one begins anew.
func (m *sharer) demands(s *sim) (all []leases.Demand) {
	for k := range m.parts {
		p := &m.parts[k]
		if st := s.state(p.edge, m.instance); st != p.state {
			if k == 0 || m.holder == nil {
				if m.holder != nil { // the old one left in good order
					m.of.reports[m.holder.ID()] = m.holder.Leave(s.now)
				}
				m.holder = leases.New(fmt.Sprintf("%d-%d", m.instance, m.process), m.of.Lease)
				m.process++
				m.force, m.next = leases.Shares{}, s.now
			}
			*p = divided{edge: p.edge, state: st, called: clock.Instant(-1 << 62)}
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
	rules, w := p.state.Rules().Own().Policy, machine.WantsOf(p.state, now)
	add := func(of machine.SharedLimits, d leases.Demand) {
		if m.of.Limits&of != 0 && d.Total > 0 {
			d.Resource, d.Lost = resource(k, of), m.of.Lost
			all = append(all, d)
		}
	}
	if w.Calls != p.before.Calls || w.InUse > 0 {
		p.called = now
	}
	if w.Ahead > 0 {
		p.late += uint64(max(0, w.Attempts-p.before.Attempts+w.Ahead))
	}
	if w.Queued > 0 {
		p.queued += uint64(max(0, w.Calls-p.before.Calls)) + uint64(w.Queued)
	}
	p.before = w
	rate := leases.Demand{Total: float64(rules.RateLimit.Rate)}
	rate.Want, rate.Room = p.turns.Count(now, uint64(max(0, w.Attempts+w.Refused+w.Ahead)), p.late, m.has(k, machine.OfRate))
	add(machine.OfRate, rate)
	slots := leases.Demand{Total: float64(rules.Bulkhead.Limit), Whole: true, Least: 1, Used: float64(w.InUse)}
	slots.Want, slots.Room = p.slots.Level(now, float64(w.InUse+w.Queued), uint64(w.Calls)+uint64(w.Queued), p.queued, m.has(k, machine.OfSlots))
	add(machine.OfSlots, slots)
	floor := leases.Demand{Total: 1}
	if now.Sub(p.called) < time.Minute {
		floor.Want = 1
	}
	add(machine.OfFloor, floor)
	return all
}

func resource(part int, of machine.SharedLimits) string { return fmt.Sprintf("%d %d", part, of) }

func (m *sharer) has(part int, of machine.SharedLimits) float64 {
	now, _ := m.share(part, of)
	return now
}

func (m *sharer) share(part int, of machine.SharedLimits) (now, after float64) {
	name := resource(part, of)
	for _, a := range m.force.Amounts {
		if a.Resource == name {
			return a.Amount, a.After
		}
	}
	return 0, 0
}

// enforce puts shares in force.
func (m *sharer) enforce(s *sim, force leases.Shares) {
	m.force = force
	for k := range m.parts {
		l := &machine.Lease{Until: force.Until, Share: machine.Share{Limits: m.of.Limits}, Lost: machine.Share{Limits: m.of.Limits}}
		l.Share.Rate, l.Lost.Rate = m.share(k, machine.OfRate)
		slots, then := m.share(k, machine.OfSlots)
		l.Share.Slots, l.Lost.Slots = int(slots), int(then)
		l.Share.Floor, l.Lost.Floor = m.share(k, machine.OfFloor)
		machine.Grant(m.parts[k].state, s.now, l)
	}
	s.serve()
}
