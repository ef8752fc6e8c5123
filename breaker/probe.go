package breaker

import (
	"time"

	"github.com/gabion-go/gabion/clock"
)

// room reports whether one more probe may go: not too many at once, and not
// more than the verdict needs.
func (b *Breaker) room() bool {
	r, s := b.rules.Load(), b.aside()
	out := s.probes.out
	return out < r.probes() && int64(out)+s.outcomes.Calls < max(int64(r.probes()), r.probeCalls())
}

// nextProbe reports whether one more probe may go by the calls that were refused. It
// counts the one that asks. The first needs none: the open time had them.
func (b *Breaker) nextProbe(r *Rules, s *side) bool {
	if r.OpenCalls <= 0 || s.probes.out == 0 {
		return true
	}
	return s.turned.Add(1) >= s.enough.Load()
}

// probe is Acquire in half-open.
func (b *Breaker) probe(now clock.Instant, shard uint32) (p Permit, retryAfter time.Duration, ok bool) {
	r, s := b.rules.Load(), b.aside()
	if !b.room() || !b.nextProbe(r, s) {
		b.refuse(shard)
		if r.ProbeTimeout > 0 {
			retryAfter = left(now, s.probes.oldest().Add(r.ProbeTimeout))
		}
		return p, retryAfter, false
	}
	s.turned.Store(0)
	p = Permit{word: b.word.Load(), start: now}
	p.slot, p.serial, ok = s.probes.take(now, r.probes())
	return p, 0, ok
}

// probed is Settle in half-open. A neutral probe only frees its place. One that
// is late but was not found expired still counts.
func (b *Breaker) probed(now clock.Instant, p Permit, v Verdict, after time.Duration) Receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() != p.word || !b.side.probes.free(p.slot, p.serial) || v == Neutral {
		return Receipt{}
	}
	s, slow := b.side, b.rules.Load().slow(now.Sub(p.start))
	s.outcomes.Calls++
	s.outcomes.Failures += int64(one(v == Bad))
	s.outcomes.Slow += int64(one(slow))
	s.bad += int64(one(v == Bad || slow))
	b.decide(now, after)
	return receipt(0, ofProbe, slow)
}

// decide ends half-open when enough probes came home.
func (b *Breaker) decide(now clock.Instant, after time.Duration) {
	s := b.aside()
	v, over := b.rules.Load().probed(s.outcomes, s.bad)
	change := Change{Cause: ProbesPassed, Exceeded: over, Counts: s.outcomes, At: now, Due: now}
	switch v {
	case Good:
		b.move(Closed, change)
	case Bad:
		change.Cause = ProbeFailed
		b.open(change, after)
	}
}

// expire ends half-open when a probe has been out for too long. The move counts
// from when it was due, as if a timer had made it.
func (b *Breaker) expire(now clock.Instant) {
	r, s := b.rules.Load(), b.aside()
	due := s.probes.oldest().Add(r.ProbeTimeout)
	if r.ProbeTimeout <= 0 || due > now || s.probes.out == 0 {
		return
	}
	change := Change{Cause: ProbeExpired, Counts: s.outcomes, At: now, Due: due}
	if r.ExpiryCloses {
		b.move(Closed, change)
		return
	}
	b.open(change, 0)
}

// Delay dates p later, by how long the caller did something else between Acquire and
// the call: that time is not the dependency's.
func (b *Breaker) Delay(p Permit, by time.Duration) Permit {
	p.start = p.start.Add(by)
	if p.serial == 0 || by <= 0 {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.side; b.word.Load() == p.word && s != nil {
		if p.Probe() {
			s.probes.delay(p.slot, p.serial, by)
		} else {
			s.flying.delay(p.slot, p.serial, by)
		}
	}
	return p
}

// Held reports whether p is a permit at all: the zero Permit is none.
func (p Permit) Held() bool { return p.word != 0 }

// Probe reports whether the permit is one of the few that a half-open breaker
// grants.
func (p Permit) Probe() bool { return stateOf(p.word) == HalfOpen }
