package machine

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/endpoints"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// place is one endpoint of a dependency. Its breaker leaves it out while it fails, and the
// breaker of the dependency, or of the partition, judges all endpoints together.
type place struct {
	policy.Endpoint
	known *endpoints.Endpoint
	guard *Address
	held  atomic.Int64 // until when it asked to be left alone

	quotas atomic.Pointer[quota.Group] // of its own; nil until a policy has some
}

// places are the endpoints of a dependency. They never change: a reload makes others, which have the
// endpoints that stay.
type places struct {
	list     []*place
	ways     *endpoints.List
	away     breaker.Rules // when one is left out
	shared   bool          // they know each other's keys
	metered  bool          // they have quotas of their own
	panicked atomic.Bool
	spread   *atomic.Int64 // attempts that were sent while none worked
}

// awayFrom are the rules by which an endpoint is left out. Others take its attempts, and hardly ever are
// five failures in a row chance where others answer. It is asked again soon, for one call in seconds
// costs little, and a primary is to have its load back within seconds.
func awayFrom(p *policy.Policy) breaker.Rules {
	return breaker.Rules{
		Window: 10 * time.Second, MinCalls: 20, FailureRate: 0.5, Consecutive: 5,
		SlowCall: on(p.Breaker.SlowCall), SlowRate: float64(on(p.Breaker.SlowRate)),
		Open: time.Second, OpenMax: 4 * time.Second, OpenGrowth: 2, OpenJitter: 0.1,
		Probes: 1, ProbeCalls: 1, CloseAfter: 1, ReopenAfter: 1, ProbeTimeout: p.Breaker.ProbeTimeout,
	}
}

// waysOf compiles how endpoints are chosen.
func waysOf(e *policy.Endpoints) endpoints.Rules {
	return endpoints.Rules{
		Ordered: e.Mode == policy.EndpointsOrdered, Standing: float64(on(e.Standing)), Ejected: float64(on(e.Ejected)),
		SlowStart: on(e.SlowStart),
	}
}

func placesOf(s *State) *places {
	if p := s.part(); p != nil {
		return p.places
	}
	return nil
}

// furnishPlaces makes the endpoints of r. Those that stay keep what is known of them.
func furnishPlaces(s *State, now clock.Instant, r *Rules) {
	old := placesOf(s)
	if old == nil && !r.placed() {
		return
	}
	var next *places
	if r.placed() {
		next = newPlaces(s, now, r, old)
	}
	s.extend(func(p *parts) { p.places = next })
}

func newPlaces(s *State, now clock.Instant, r *Rules, old *places) *places {
	e := &r.Policy.Endpoints
	next := &places{ways: &endpoints.List{Rules: waysOf(e)}, away: awayFrom(&r.Policy), shared: e.SharedKeys, metered: len(r.quotas.each) > 0, spread: new(atomic.Int64)}
	if old != nil {
		next.spread = old.spread
		next.panicked.Store(old.panicked.Load())
	}
	for _, one := range e.List {
		p := old.find(one.Name)
		switch {
		case p != nil && p.Endpoint == one:
			p.guard.breaker.SetRules(now, &next.away)
		default:
			p = &place{Endpoint: one, known: new(endpoints.Endpoint), guard: newAddress(s, one.Name, &next.away)}
			p.held.Store(math.MinInt64)
			if old != nil {
				p.known.Join(now)
			}
		}
		p.furnishQuotas(now, r.quotas.each)
		next.list, next.ways.All = append(next.list, p), append(next.ways.All, p.known)
	}
	return next
}

// find returns the endpoint of that name, or nil.
func (ps *places) find(name string) *place {
	if ps != nil {
		for _, p := range ps.list {
			if p.Name == name {
				return p
			}
		}
	}
	return nil
}

// HasEndpoint reports whether a dependency has an endpoint of that name. Begin looks again.
func HasEndpoint(s *State, name string) bool { return placesOf(s).find(name) != nil }

// placed reports whether there are endpoints.
func (r *Rules) placed() bool { return len(r.Policy.Endpoints.List) > 0 }

// FollowEndpoints puts other endpoints in the place of the policy's, also of those that are reloaded later. They must
// be valid.
func FollowEndpoints(s *State, now clock.Instant, list []policy.Endpoint) {
	followLocked(s, now, list).wake()
}

func followLocked(s *State, now clock.Instant, list []policy.Endpoint) (late *turnLine) {
	reloading.Lock()
	defer reloading.Unlock()
	s.extend(func(p *parts) { p.followed = &list })
	if r := s.rules.Load(); !slices.Equal(r.Policy.Endpoints.List, list) {
		late = reload(s, now, r.Own().with(list))
		s.note(policy.Event{Kind: policy.KindEndpointsMoved, At: now, Code: terms.EndpointsNew, Count: int64(len(list))})
	}
	return late
}

// with returns rules with other endpoints.
func (r *Rules) with(list []policy.Endpoint) *Rules {
	p := r.Policy.Clone()
	p.Endpoints.List = list
	return compile(p)
}

// health says which endpoints get no attempts, and which of them are due to be asked again.
func (ps *places) health(now clock.Instant) (out, due endpoints.Set) {
	for i, p := range ps.list {
		if now < clock.Instant(p.held.Load()) { // it asked for time, which is not the breaker's to say
			out |= endpoints.Of(i)
			continue
		}
		if p.guard.off() {
			continue
		}
		switch shut, state := p.guard.shut(now), p.guard.breaker.State(); {
		case state == breaker.Open || state == breaker.HalfOpen || state == breaker.ForcedOpen:
			if shut {
				out |= endpoints.Of(i)
			} else {
				due |= endpoints.Of(i)
			}
		case p.known.Silent(now):
			out |= endpoints.Of(i)
		}
	}
	return out, due
}

// shut are the endpoints that were shut by hand.
func (ps *places) shut() (shut endpoints.Set) {
	for i, p := range ps.list {
		if !p.guard.off() && p.guard.breaker.State() == breaker.ForcedOpen {
			shut |= endpoints.Of(i)
		}
	}
	return shut
}

// askable are the endpoints that get attempts where none works: those that are not shut by hand, or all if all are.
func (ps *places) askable() endpoints.Set {
	if open := ps.all() &^ ps.shut(); open != 0 {
		return open
	}
	return ps.all()
}

// passes reports whether attempts pass an endpoint by: it is left out, and another one works, or it alone is shut by hand.
func (ps *places) passes(i int, out, due endpoints.Set) bool {
	return out.Has(i) && (ps.all()&^(out|due) != 0 || !ps.askable().Has(i))
}

// working are the endpoints that work, as far as is known.
func (ps *places) working(now clock.Instant) endpoints.Set {
	out, due := ps.health(now)
	return ps.all() &^ (out | due)
}

func (ps *places) all() endpoints.Set { return endpoints.Set(math.MaxUint64) >> (64 - len(ps.list)) }

// note says what is new about the endpoints.
func (ps *places) note(s *State, now clock.Instant, gone endpoints.Set) {
	changed := ps.ways.Note(now, gone)
	if changed == 0 {
		return
	}
	if panicked := gone == ps.all(); ps.panicked.Swap(panicked) != panicked {
		code := terms.EndpointsPanic
		if !panicked {
			code = terms.EndpointsCalm
		}
		s.note(policy.Event{Kind: policy.KindEndpointsMoved, At: now, Code: code, Count: int64(len(ps.list))})
	}
	for changed &^= 1; ps.ways.Rules.Ordered && changed != 0; changed &= changed - 1 {
		i, code := changed.First(), terms.BackupBack
		if gone.Has(i) {
			code = terms.BackupOut
		}
		s.note(policy.Event{Kind: policy.KindEndpointsMoved, At: now, Code: code, Partition: ps.list[i].Name})
	}
}

// NoteKept says that other endpoints could not be had, so that those before stay.
func NoteKept(s *State, now clock.Instant) {
	s.note(policy.Event{Kind: policy.KindEndpointsMoved, At: now, Code: terms.EndpointsKept, Count: int64(len(s.rules.Load().Policy.Endpoints.List))})
}

// stats adds the endpoints, also as partitions, which their breakers are to all who look.
func (ps *places) stats(now clock.Instant, r *Rules, st *policy.Stats) {
	if ps == nil {
		return
	}
	st.Panicked, st.SpreadToAll = ps.panicked.Load(), ps.spread.Load()
	for i, p := range ps.list {
		k := p.known.Stats(now)
		one := policy.EndpointStats{
			Endpoint: p.Endpoint, Backup: ps.ways.Rules.Ordered && i > 0, Out: k.Gone, InFlight: k.Out,
			Attempts: k.Sent, Failed: k.Failed, Latency: k.Cost, Worked: k.Worked,
		}
		if k.Worked {
			one.Since = max(now.Sub(k.Good), 0)
		}
		st.Endpoints = append(st.Endpoints, one)
		part := policy.PartitionStats{Name: p.Name, Guarded: r.guarded, Breaker: p.guard.breaker.Snapshot(now)}
		if g := p.quotas.Load(); g != nil && ps.metered {
			part.Quotas = g.Stats(now)
		}
		if held := clock.Instant(p.held.Load()); now < held {
			part.Paced = held.Sub(now)
		}
		st.Partitions = append(st.Partitions, part)
	}
}
