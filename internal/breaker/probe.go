package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// countRefusal counts a call that came to an open breaker, and reports whether it may be a
// probe.
func (s *extra) countRefusal() bool {
	n := s.probeAfter.Load()
	return n > 0 && s.refusedSince.Add(1) >= n
}

// probeDue reports whether enough calls were refused for a probe.
func (s *extra) probeDue() bool {
	n := s.probeAfter.Load()
	return n > 0 && s.refusedSince.Load() >= n
}

// forgetCalls forgets the calls that are out. Settling them does nothing any more.
func (s *extra) forgetCalls() {
	s.probes.clear()
	s.watched.clear()
	s.outcomes, s.bad = window.Counts{}, 0
	s.refusedSince.Store(0)
}

// expectProbes notes why a state refuses, and how many refused calls let the next probe
// go. A breaker that was opened by hand stays open for its time.
func (b *Breaker) expectProbes(to State, why Cause) {
	s, n := b.needExtra(), b.rules.Load().openCalls(int(b.opens))
	if refuses(to) {
		s.why.Store(uint32(why))
		if why == Forced {
			n = 0
		}
	}
	s.probeAfter.Store(int32(max(n, 0)))
}

// room reports whether one more probe may go: not too many at once, and not
// more than the verdict needs.
func (b *Breaker) room() bool {
	r, s := b.rules.Load(), b.needExtra()
	out := s.probes.out
	return out < r.probes() && int64(out)+s.outcomes.Calls < max(int64(r.probes()), r.probeCalls())
}

// nextProbe reports whether enough calls were refused for one more probe, and counts the
// one that asks. The first probe needs none: the open time had them.
func (b *Breaker) nextProbe(r *Rules, s *extra) bool {
	if r.OpenCalls <= 0 || s.probes.out == 0 {
		return true
	}
	return s.refusedSince.Add(1) >= s.probeAfter.Load()
}

// probe is Acquire in half-open.
func (b *Breaker) probe(now clock.Instant, shard uint32) (p Permit, retryAfter time.Duration, ok bool) {
	r, s := b.rules.Load(), b.needExtra()
	if !b.room() || !b.nextProbe(r, s) {
		b.refuse(shard)
		if r.ProbeTimeout > 0 {
			retryAfter = left(now, s.probes.oldest().Add(r.ProbeTimeout))
		}
		return p, retryAfter, false
	}
	s.refusedSince.Store(0)
	p = Permit{word: b.word.Load(), start: now}
	p.slot, p.serial, ok = s.probes.add(now, r.probes())
	return p, 0, ok
}

// probed is Settle in half-open. A neutral probe only makes room for another. One that
// is late but was not found expired still counts.
func (b *Breaker) probed(now clock.Instant, p Permit, v Result, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word {
		return
	}
	place := b.extra.probes.find(p.slot, p.serial)
	if place == nil || place.lives { // the second verdict of one that lives on
		return
	}
	b.extra.probes.remove(p.slot, p.serial)
	if v != Neutral {
		b.extra.count(v == Bad, b.rules.Load().slow(now.Sub(p.start)))
		b.decide(now, now, after)
	}
}

// count adds the outcome of one probe.
func (s *extra) count(failed, slow bool) {
	s.outcomes.Calls++
	s.outcomes.Failures += int64(one(failed))
	s.outcomes.Slow += int64(one(slow))
	s.bad += int64(one(failed || slow))
}

// decide ends half-open when enough probes were settled.
func (b *Breaker) decide(now, due clock.Instant, after time.Duration) {
	s := b.needExtra()
	v, over := b.rules.Load().probed(s.outcomes, s.bad)
	change := Change{Cause: ProbesPassed, Exceeded: over, Counts: s.outcomes, At: now, Due: due}
	switch v {
	case Good:
		b.move(Closed, change)
	case Bad:
		change.Cause = ProbeFailed
		b.open(change, after)
	}
}

// expire ends half-open when a probe has been out for too long. One whose result has lived
// on for as long is good. A move is dated to when it fell due, as if a timer had made
// it.
func (b *Breaker) expire(now clock.Instant) {
	r, s := b.rules.Load(), b.needExtra()
	for r.ProbeTimeout > 0 && s.probes.out > 0 && b.state() == HalfOpen {
		slot, start := s.probes.first()
		due := start.Add(r.ProbeTimeout)
		if due > now {
			return
		}
		if place := s.probes.all[slot]; place.lives {
			s.probes.remove(slot, place.serial)
			s.count(false, place.slow)
			b.decide(now, due, 0)
			continue
		}
		b.expired(now, due)
	}
}

// expired ends half-open because of a probe that brought no answer in time.
func (b *Breaker) expired(now, due clock.Instant) {
	r, s := b.rules.Load(), b.extra
	change := Change{Cause: ProbeExpired, Counts: s.outcomes, At: now, Due: due}
	if r.ExpiryCloses {
		b.move(Closed, change)
		return
	}
	b.open(change, 0)
}

// Delay makes p start later, by the time that the caller did something else between
// Acquire and the call: it is not the dependency's.
func (b *Breaker) Delay(p Permit, by time.Duration) Permit {
	p.start = p.start.Add(by)
	if p.serial == 0 || by <= 0 {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.extra; b.word.Load() == p.word && s != nil {
		if p.Probe() {
			s.probes.delay(p.slot, p.serial, by)
		} else {
			s.watched.delay(p.slot, p.serial, by)
		}
	}
	return p
}

// Held reports whether p is a permit at all: the zero Permit is none.
func (p Permit) Held() bool { return p.word != 0 }

// Probe reports whether the permit is one of the few that a half-open breaker
// grants.
func (p Permit) Probe() bool { return stateOf(p.word) == HalfOpen }
