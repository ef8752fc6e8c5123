package machine

import (
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// taken is what a call has taken of others for the attempt that it is about to make,
// and what wraps the whole call. When the attempt is sent, its ticket has
// the permit and the slot, and the rest is spent. When it is not made, undo gives everything back.
type taken struct {
	held
	charge  budget.Reservation // of a budget that is a window
	turn    clock.Instant      // of the rate limit
	under   *Rules             // whose rate it is a turn of; nil without a lease
	since   clock.Instant      // when the call began to wait for a turn
	place   uint64             // in the line of those who wait for one; 0 outside of it
	counted clock.Instant      // when the throttle counted the request
	epoch   uint32             // of the State when charge was made
	has     things             // which of all this is there; the rest means nothing
	kept    things             // those of has that wrap the whole call: they stay until its end
}

// held is what an attempt has while it is out.
type held struct {
	permit breaker.Permit
	slot   bulkhead.Slot
}

// things is a set, so that one look tells that there is nothing to give back.
type things uint16

const (
	aPermit  things = 1 << iota // of the breaker
	aSlot                       // of the bulkhead
	aCharge                     // of a budget
	aRepeat                     // the charge is of the budget for conflicts
	aTurn                       // of the rate limit
	aRequest                    // the throttle has counted the attempt
	aStart                      // a start time of the pacer, which needs no giving back
	asked                       // the rate limit was asked a second time, with a fresh clock
	aCheap                      // the charge is what a quota asks after a throttled attempt
	aDear                       // the charge is what a quota asks after a timeout
	aPlace                      // among the calls in flight, of a budget that is a share of them
	aTrial                      // the attempt is a repeat that nothing has paid for
	aDebt                       // the call waits, and pays when it is sent
	aRoom                       // of the quotas
	again                       // the turn that the call waited for was void, so it asks again
)

// charges are what the end of an attempt must know of its charge.
const charges = aCharge | aRepeat | aCheap | aDear | aTrial

// undo gives back what was taken for an attempt that is not made, each as it must.
func (c *Call) undo(now clock.Instant) {
	t := &c.taken
	has := t.has &^ t.kept
	t.has = t.kept
	if has&aCharge != 0 {
		c.refund(now, has)
	}
	if has&aTrial != 0 {
		c.state.trials().back(now)
	}
	if has&aDebt != 0 {
		c.state.earned.Settle()
	}
	if has&aTurn != 0 {
		cancelTurn(c, now)
	}
	if has&aRoom != 0 {
		c.wait.room.leave(now)
	}
	if has&aRequest != 0 {
		c.state.throttle().Forget(t.counted, now)
	}
	if has&aPermit != 0 {
		c.part.breaker.Load().Settle(now, c.shard, t.permit, breaker.Neutral, 0)
	}
	if has&aSlot != 0 { // last, so that whoever gets it finds all of the above
		c.state.bulkhead().Release(t.slot, c.shard)
	}
}

// keep leaves with the call what its first attempt took for the whole of it.
func (c *Call) keep(t *held) {
	whole := c.rules.whole
	if c.taken.has&aSlot == 0 { // it goes without
		whole &^= aSlot
	}
	if c.inside && !t.permit.Held() { // the breaker would have refused it
		whole &^= aPermit
	}
	if whole&aPermit != 0 {
		if c.taken.kept&aPermit == 0 {
			c.taken.permit = t.permit
		}
		t.permit = breaker.Permit{}
	}
	if whole&aSlot != 0 {
		t.slot = bulkhead.Slot{}
	}
	c.taken.kept = whole
}

// endWhole gives back what wraps the whole call, which has ended: the breaker's permit
// with what the last attempt showed, its place among the calls in flight, and the slot once
// no work is left.
func (c *Call) endWhole(now clock.Instant) {
	t := &c.taken
	if t.kept&aPermit != 0 {
		t.drop(aPermit)
		v := breaker.Neutral
		if c.sent.judged {
			v = c.sent.last
		}
		c.settlePermit(now, t.permit, v, c.end.after, c.sent.open != 0)
	}
	if t.kept&aPlace != 0 {
		t.drop(aPlace)
		c.state.share().End(c.shard)
	}
	if t.kept&aSlot != 0 && c.sent.workless() {
		t.drop(aSlot)
		c.state.bulkhead().Release(t.slot, c.shard)
	}
}

func (t *taken) drop(one things) { t.has, t.kept = t.has&^one, t.kept&^one }

func (t *taken) addSlot(s bulkhead.Slot) {
	t.slot = s
	t.has |= aSlot
}

// dropSlot gives back the slot, which would be held idle in a wait.
func (c *Call) dropSlot() {
	if c.taken.has&^c.taken.kept&aSlot != 0 {
		c.taken.has &^= aSlot
		c.state.bulkhead().Release(c.taken.slot, c.shard)
		c.taken.slot = bulkhead.Slot{}
	}
}

// takeRequest counts the attempt as a request to the throttle, which rejects it with
// the probability that recent accepts call for. A rejected one stays counted.
func (c *Call) takeRequest(now clock.Instant) (ok bool) {
	if c.taken.has&aRequest != 0 {
		return true
	}
	p := c.state.throttle().Admit(now, c.rules.Policy.Throttle.K)
	if p != 0 && chance.U(c.draw(), 0, uint64(c.sent.n), chance.Throttled) < p {
		return false
	}
	c.taken.counted = now
	c.taken.has |= aRequest
	return true
}
