package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Snapshot is a breaker at one moment.
type Snapshot = policy.BreakerStats

// Snapshot returns what the breaker is at now, after the moves that have fallen due. It
// makes no move that a call has to make: an open breaker whose time is over stays open
// until the next call.
func (b *Breaker) Snapshot(now clock.Instant) Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() == HalfOpen {
		b.expire(now)
	}
	b.due(now)
	s := Snapshot{
		State:       b.state(),
		Counts:      policy.Counts(b.counts(now)),
		Opens:       int(b.opens),
		FailureRate: -1,
		SlowRate:    -1,
	}
	if refuses(s.State) || lapses(s.State) {
		s.Until = clock.Instant(b.until.Load())
	}
	if b.extra != nil {
		s.Refused = b.extra.refused.sum()
		s.Probes, s.InFlight = b.extra.probes.out, b.extra.watched.out
	}
	if r := b.rules.Load(); r.Consecutive > 0 && counts(s.State) {
		s.Run, s.RunOpens = int(b.runLength()), tooLong(b, now, r)
	}
	if c := s.Counts; s.State != HalfOpen && c.Calls >= b.rules.Load().minCalls() {
		s.FailureRate, s.SlowRate = min(rate(c.Failures, c.Calls), 1), min(rate(c.Slow, c.Calls), 1)
	}
	return s
}

// State returns the state at the last move. Moves that have fallen due since are not
// made; Snapshot makes them.
func (b *Breaker) State() State { return b.state() }

// Shut reports whether a call at that time would be refused as far as is known,
// and how long after it refusing ends, zero if that is not known. It changes
// nothing. A half-open breaker is not known to be shut: its probes may have
// ended by then.
func (b *Breaker) Shut(at clock.Instant) (retryAfter time.Duration, shut bool) {
	for {
		word := b.word.Load()
		if !refuses(stateOf(word)) {
			return 0, false
		}
		until := clock.Instant(b.until.Load())
		if b.word.Load() == word { // else it may be that of a state that admits
			return left(at, until), at < until
		}
	}
}

// Idle reports whether the breaker can be forgotten without losing more than
// counts: it is closed, or observes as its rules say, and watches no call.
func (b *Breaker) Idle(now clock.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lapse(now)
	s := b.state()
	usual := s == Closed || s == b.rules.Load().home() && clock.Instant(b.until.Load()) == clock.Never
	return usual && (b.extra == nil || b.extra.watched.out == 0)
}
