package machine

import (
	"math"
	"math/bits"
	"sync"
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
// only a repeat can succeed. So some go on trial, which nothing has paid for.
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
		wait, ok := c.state.trials().begin(now, c)
		if !ok {
			c.spent(now)
			c.refuse(now, policy.BudgetExhausted, wait)
			return
		}
		c.taken.has |= aTrial
		c.phase = entering
	}
}

// settleRepeat says what the end of a repeat shows of the others. One that succeeded gives back
// what it has cost: it was work that was to be done, and no load that came to nothing. So a
// backlog of repeats is worked off as quickly as they succeed.
func (c *Call) settleRepeat(now clock.Instant, t *Ticket, class policy.Class) {
	trial := t.charge&aTrial != 0
	switch class {
	case policy.ClassSuccess:
		c.returnCharge(now, t)
		c.state.trials().won(now, trial, c.state.Slots())
	case policy.ClassIgnored, policy.ClassRejected, policy.ClassClient, policy.ClassBusiness: // it says nothing of others
		if trial {
			c.state.trials().back(now)
		}
	default:
		c.state.trials().lost(now, trial, c.rules)
	}
}

// returnCharge gives back what a repeat has cost.
func (c *Call) returnCharge(now clock.Instant, t *Ticket) {
	if t.charged() && !c.rules.shares { // a share is given back by its end
		c.refund(now, t.charge)
	}
}

// Unspent says that a repeat had no need of its work, or could not begin it: the message was done
// before, somebody else works on it, or the store is away. It is a repeat no more, and what it has cost
// is given back. It must be called before the attempt settles.
func (c *Call) Unspent(now clock.Instant, t *Ticket) {
	if !c.repeat || c.sent.out&t.bit() == 0 {
		return
	}
	c.repeat = false
	if t.charge&aTrial != 0 {
		c.state.trials().back(now)
	}
	if c.returnCharge(now, t); !c.rules.shares {
		t.charge = 0
	}
}

// leastUnpaid is the shortest time between two repeats that nothing has paid for, while none
// succeeds.
const leastUnpaid = time.Second

// trials let repeats go that nothing has paid for: one at a time while they fail, with a pause in
// between, and more with each that succeeds. So in an outage one goes for each pause, and after
// it there are soon as many as there are slots. While more than a third fails they become
// fewer: those that fail are at most half of those that succeed, and as many as were under way.
type trials struct {
	mu      sync.Mutex    // guards all below
	room    int           // how many may be under way; less than one means one
	out     int           // how many are
	next    clock.Instant // when the next may go, where there is room for one
	refused int           // repeats and others since a repeat succeeded
	starved bool          // since then one was refused for lack of a budget
	seen    uint64        // successes of any call when that was
}

// begin lets a repeat go, or says how long it takes at least until one can. How many probes there
// are while the breaker is half open is the breaker's business.
func (t *trials) begin(now clock.Instant, c *Call) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if probes := c.rules.guarded && c.part.breaker.Load().State() == breaker.HalfOpen; !probes {
		if wait, full := t.full(now, c.rules); full {
			t.starved, t.seen = true, c.state.earned.Successes()
			return wait, false
		}
	}
	t.out++
	t.next = now.Add(pauseOf(c.rules))
	return 0, true
}

// full reports whether no repeat may go that nothing pays for, and how long that lasts at least.
// mu is held.
func (t *trials) full(now clock.Instant, r *Rules) (wait time.Duration, full bool) {
	if wait := t.next.Sub(now); t.room <= 1 && wait > 0 && wait <= 2*pauseOf(r) {
		return wait, true
	}
	return 0, t.out >= max(t.room, 1)
}

// dry reports whether a repeat was refused for lack of a budget and nothing has succeeded
// since, so that it is not worth the while to fetch many; and how long none is.
func (t *trials) dry(now clock.Instant, s *State, r *Rules) (wait time.Duration, dry bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.starved || s.earned.Successes() != t.seen {
		return 0, false
	}
	if wait, full := t.full(now, r); full {
		return max(wait, leastAgain), true
	}
	return 0, true
}

// pauseOf is the time between two repeats that nothing has paid for, while none succeeds.
func pauseOf(r *Rules) time.Duration { return max(on(r.Policy.Retry.Backoff.Base), leastUnpaid) }

// won notes that a repeat succeeded. At most as many go as there are slots.
func (t *trials) won(now clock.Instant, trial bool, slots int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if trial {
		t.out--
	}
	if slots <= 0 {
		slots = mostTrials
	}
	t.room, t.next, t.refused, t.starved = min(max(t.room, 1)+1, slots), now, 0, false
}

// mostTrials is how many repeats that nothing has paid for are under way where no bulkhead bounds
// them.
const mostTrials = 128

// lost notes that a repeat failed.
func (t *trials) lost(now clock.Instant, trial bool, r *Rules) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if trial {
		t.out--
	}
	if t.room -= 2; t.room == 0 || t.room == -1 { // it was two or one
		t.next = max(t.next, now.Add(pauseOf(r)))
	}
	t.room = max(t.room, 1)
}

// back notes that a repeat ended that nothing had paid for, and shows nothing: the next may go.
func (t *trials) back(now clock.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out--
	t.next = min(t.next, now)
}

// trials returns those of the dependency.
func (s *State) trials() *trials {
	if p := s.more.Load(); p != nil && p.trials != nil {
		return p.trials
	}
	s.extend(func(next *parts) {
		if next.trials == nil {
			next.trials = new(trials)
		}
	})
	return s.more.Load().trials
}

// longestRefused is the longest wait of what was refused, unless the policy's base is longer: what
// it waits for may be over soon.
const longestRefused = 5 * time.Second

// PutOffRefused is how long a delivery waits that was not admitted, or could not begin. The more
// were put off since a repeat succeeded, the longer it is: so a backlog that can't be worked on
// is not delivered again and again, whether or not its broker counts deliveries.
func (s *State) PutOffRefused(seed uint64) time.Duration {
	t := s.trials()
	t.mu.Lock()
	t.refused = min(t.refused+1, math.MaxInt32)
	n := bits.Len(uint(t.refused))
	t.mu.Unlock()
	r := &s.rules.Load().Policy.Retry
	return min(PutOff(r, n, seed), max(r.Backoff.Base, longestRefused))
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
			c := Call{Short: Short{state: s, rules: r, part: &s.main}}
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
	if p := s.more.Load(); p != nil && p.trials != nil && calls > 1 {
		if wait, dry := p.trials.dry(now, s, r); wait > 0 {
			return 0, wait
		} else if dry {
			calls = 1
		}
	}
	if p := s.main.pacer.Load(); p != nil && !r.Policy.Pace.Off && p.on() {
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

// TryOn is how long a message waits whose runs are used up, and which is tried until it is that
// old: the older it is the longer, and at most a sixteenth of that time.
func TryOn(r *policy.Retry, age, least time.Duration, seed uint64) time.Duration {
	u := chance.U(seed, uint64(age), 0, chance.Backoff)
	wait := max(r.Backoff.Base, min(age/4, least/16))
	return wait/2 + time.Duration(u*float64(wait/2))
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
