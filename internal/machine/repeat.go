package machine

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// This file is about work that is repeated from outside: a broker delivers a message
// again, and each delivery is a call of one attempt. Such a call is a repeat from its
// first attempt on, and the budget pays for it. What the next delivery waits for is
// decided without a call, since a broker does the waiting.

// claimRepeat pays for the first attempt of a call that is a repeat. A budget that is
// empty stays empty while nothing succeeds, and where all that is left to do are repeats,
// only a repeat can succeed. So one goes now and then that nothing has paid for.
func (c *Call) claimRepeat(now clock.Instant) {
	after, shut := c.refusedNow(now)
	switch {
	case c.resendsOff(now):
		c.refuse(now, policy.RetriesOff, 0)
	case shut:
		c.refuse(now, policy.BreakerOpen, after)
	case c.takeResend(now, policy.ClassServer):
		c.phase = entering
	default:
		if wait := c.state.unpaid(now, c.rules); wait > 0 {
			c.spent(now)
			c.refuse(now, policy.BudgetExhausted, wait)
			return
		}
		c.phase = entering
	}
}

// returnCharge gives back what a repeat has cost that succeeded. It was work that was to
// be done, and no load that came to nothing: so a backlog of repeats is worked off as
// quickly as they succeed.
func (c *Call) returnCharge(now clock.Instant, t *Ticket) {
	if t.charged() && !c.rules.shares { // a share is given back by its end
		c.refund(now, t.charge)
	}
}

// Unspent gives back what a repeat has cost that came to nothing, as its work had no need to
// run: a message that was done before, or that somebody else works on. One that nothing has
// paid for lets the next go. It must be called before the attempt settles.
func (c *Call) Unspent(now clock.Instant, t *Ticket) {
	switch {
	case !c.repeat || c.sent.out&t.bit() == 0:
	case t.charged():
		if c.returnCharge(now, t); !c.rules.shares {
			t.charge = 0
		}
	default:
		c.state.resumeUnpaid(now)
	}
}

// leastUnpaid is the shortest time between two repeats that nothing has paid for.
const leastUnpaid = time.Second

// unpaid lets a repeat go that nothing has paid for, if none did for as long as the base of
// the backoff. Else it says how long that still is.
func (s *State) unpaid(now clock.Instant, r *Rules) (wait time.Duration) {
	due := s.nextUnpaid()
	every := max(on(r.Policy.Retry.Backoff.Base), leastUnpaid)
	for {
		at := due.Load()
		if wait := clock.Instant(at).Sub(now); wait > 0 && wait <= every {
			return wait
		}
		if due.CompareAndSwap(at, int64(now.Add(every))) {
			return 0
		}
	}
}

// resumeUnpaid lets the next repeat go that nothing has paid for.
func (s *State) resumeUnpaid(now clock.Instant) {
	if p := s.more.Load(); p != nil && p.unpaid != nil {
		if at := p.unpaid.Load(); at > int64(now) {
			p.unpaid.CompareAndSwap(at, int64(now))
		}
	}
}

// nextUnpaid is when the next repeat may go that nothing has paid for.
func (s *State) nextUnpaid() *atomic.Int64 {
	if p := s.more.Load(); p != nil && p.unpaid != nil {
		return p.unpaid
	}
	s.extend(func(next *parts) {
		if next.unpaid == nil {
			next.unpaid = new(atomic.Int64)
		}
	})
	return s.more.Load().unpaid
}

// Unlimited is the answer of Room where nothing bounds the calls but slots.
const Unlimited = 1 << 30

// Room says how many calls that name no partition may begin now as far as the breaker and
// the dependency's own wishes are concerned: none while they would be refused, one at a
// time while it is not known whether the dependency works. After says when to ask again
// if it is none.
func (s *State) Room(now clock.Instant) (calls int, after time.Duration) {
	r := s.rules.Load()
	calls = Unlimited
	if r.guarded {
		switch b := s.main.breaker.Load(); b.State() {
		case breaker.Open, breaker.ForcedOpen, breaker.HalfOpen:
			c := Call{state: s, rules: r, part: &s.main}
			if after, refused := c.refusedNow(now); refused {
				least := leastAgain
				if b.State() == breaker.ForcedOpen {
					least = forcedAgain
				}
				return 0, max(after, least)
			}
			calls = 1
		}
	}
	if p := s.main.pacer.Load(); p != nil && !r.Policy.Pace.Off && p.active.Load() {
		if until, held := p.held(now); held {
			return 0, max(until.Sub(now), leastAgain)
		}
		calls = 1
	}
	return calls, 0
}

// Slots returns how many attempts, or calls, the bulkhead has room for, which is what it has
// learned where it learns. Zero means that there is no bound.
func (s *State) Slots() int {
	b := s.bulkhead()
	if r := s.rules.Load(); b == nil || !r.bulkhead {
		return 0
	}
	_, limit, _ := b.Occupancy()
	return limit
}

// leastAgain is how long to wait at least before Room is asked again.
const leastAgain = 50 * time.Millisecond

// forcedAgain is leastAgain while somebody holds the breaker open, who moves it by hand.
const forcedAgain = time.Second

// longestAfter is the longest wish of a dependency that a delivery is put off for.
const longestAfter = 24 * time.Hour

// Redelivery decides what becomes of a message whose work failed, by the outcome of its run
// and how many runs there were. With None it is to be delivered again after the wait; any
// other reason says why there is no point in that. The seed names the message: the
// same message waits the same times wherever it is handled, and different ones spread.
//
// Nothing is too late for a message: where a call would end because the dependency asks
// for more time than there is, the message waits. What nobody classified is tried again
// too, since work under an inbox is safe to repeat, and attempts bound it.
func Redelivery(r *policy.Retry, o *policy.Outcome, runs int, seed uint64) (wait time.Duration, why policy.Reason) {
	switch {
	case o.Class == policy.ClassClient, o.Class == policy.ClassBusiness:
		return 0, policy.NotRetryable
	case runs >= r.Attempts, o.Once && runs > 1:
		return 0, policy.AttemptsExhausted
	}
	if wait = afterRun(r, o, runs, seed); !o.HasAfter {
		return wait, policy.None
	}
	after := min(max(o.After, 0), longestAfter)
	if !o.Exact {
		u := chance.U(seed, 0, uint64(runs), chance.After)
		after += time.Duration(u * float64(max(r.Backoff.Base, after/5)))
	}
	return max(wait, after), policy.None
}

// afterRun is the backoff after that many runs.
func afterRun(r *policy.Retry, o *policy.Outcome, runs int, seed uint64) time.Duration {
	switch {
	case o.Class == policy.ClassContention:
		return redrawn(&r.Contention.Backoff, runs, seed)
	case o.Stop && r.Backoff.Cap > 0: // a layer below has tried enough for now
		half := r.Backoff.Cap / 2
		return half + time.Duration(chance.U(seed, 0, uint64(runs), chance.Backoff)*float64(half))
	}
	return PutOff(r, runs, seed)
}

// PutOff is how long a message waits that came that often, or ran that often, whatever was
// the reason that nothing came of it.
func PutOff(r *policy.Retry, times int, seed uint64) time.Duration {
	return redrawn(&r.Backoff, times, seed)
}

// redrawn is the wait after that many times. Decorrelated jitter grows with the waits
// before, which are drawn again.
func redrawn(b *backoff.Backoff, times int, seed uint64) (wait time.Duration) {
	times = max(times, 1)
	if b.Kind == backoff.DecorrelatedJitter {
		for n := max(times-maxRedrawn, 1); n < times; n++ {
			wait = b.Delay(n-1, wait, chance.U(seed, 0, uint64(n), chance.Backoff))
		}
	}
	return b.Delay(times-1, wait, chance.U(seed, 0, uint64(times), chance.Backoff))
}

// maxRedrawn bounds the waits that are drawn again. After so many the first no longer matter.
const maxRedrawn = 32
