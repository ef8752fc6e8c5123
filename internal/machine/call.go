package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

// Verb is what a driver must do.
type Verb uint8

// The three verbs.
const (
	Send   Verb = iota + 1 // start an attempt; it ends at its ticket's Deadline
	Wait                   // there is nothing to start
	Return                 // answer the caller; an attempt that is still out has lost
)

// Step is the machine's answer to "what now?".
type Step struct {
	Verb   Verb
	Ticket Ticket        // of Send
	Again  clock.Instant // of Send and Wait: call Next at this time at the latest
}

func (s *Step) wait(again clock.Instant) (answered bool) {
	s.Verb, s.Again = Wait, again
	return true
}

// Ticket is one attempt that is out. It carries what the attempt holds, and Settle
// takes it back. So a Call keeps no list of attempts, and what was taken is given back
// whatever the policy says by then.
type Ticket struct {
	Deadline clock.Instant // when the attempt must have ended
	Sent     clock.Instant
	held     held
	charge   things // of charges: what it has paid the budget
	Attempt  uint8  // 1 is the first
	Hedge    bool
	last     bool // the attempt ends with the call, not with its own timeout
	lone     bool // no other could follow it, so it has timeout.last
	longer   bool // attempts were cut off in series, so it may take what is left of the call
	watched  bool // attempts were cut off lately
}

// Cause is whose deadline the attempt has: its own, or that of the call.
func (t *Ticket) Cause() policy.Reason {
	if t.last {
		return policy.CallTimeout
	}
	return policy.AttemptTimeout
}

// endBy sets when the attempt must have ended: after its own limit, or with the call.
func (t *Ticket) endBy(limit time.Duration, deadline clock.Instant) {
	t.Deadline, t.last = deadline, true
	if limit > 0 {
		if at := t.Sent.Add(limit); at < deadline {
			t.Deadline, t.last = at, false
		}
	}
}

// bit stands for the attempt in the sets of [attempts]. The zero Ticket has none.
func (t *Ticket) bit() uint64 { return 1 << (t.Attempt - 1) }

// Params is what one call brings along.
type Params struct {
	Deadline  clock.Instant // the caller's own; zero or clock.Never means none
	Timeout   time.Duration // in place of the policy's Timeout.Call; zero means the policy's
	Safe      bool          // declared safe to repeat
	Keyed     bool          // has a key, which makes it safe to repeat as long as every attempt uses it: see Unkeyed
	NoRetry   bool          // one attempt, whatever the policy says
	Repeat    bool          // the work was tried before, in a call of its own: the budget pays for the first attempt, too
	NoHedge   bool          // never hedge, whatever the policy says
	Strict    bool          // attempts keep their timeout, also while they are cut off in series
	NoSlot    bool          // takes no slot: what it works with is bounded elsewhere, as the connections of a pool are
	NoQueue   bool          // takes a slot if one is free, and goes without where none is: it has a connection of a pool that is no larger
	Inside    bool          // part of work that was admitted, as a statement of a transaction is: nothing refuses or delays it, and it takes no slot
	Priority  bulkhead.Priority
	Shard     uint32      // which shard of the counters; any number
	Tenant    string      // whose call it is, for fair shares
	Partition string      // whose breaker, for partitioned dependencies
	Endpoint  *string     // the only one that may be asked, or none if it is empty; nil means any
	Cost      *quota.Cost // what each attempt is thought to use; of other units, what the policy says
	Waker     bulkhead.Waker
	Log       *Log // nil means unobserved, which costs nothing
}

// phase is where a call stands between two verbs.
type phase uint8

const (
	entering  phase = iota // wants to make an attempt
	resting                // waits until wait.until before it enters
	queued                 // waits for a slot
	sending                // has the slot that it needs
	limited                // has the slot, and waits until wait.until for its turn of the rate limit
	away                   // attempts are out, or a hedge is due
	over                   // returned
	roomless               // waits for room in the quotas
	repeating              // wants to make an attempt that the budget has to pay for
)

// grace is how much longer than its deadline a call waits for attempts that are out.
// They were told to end, and one that ends at the very deadline is seen.
const grace = time.Millisecond

// Call is the machine: everything decided for one call. Begin makes it ready. A Call
// may live on its driver's stack, and may be used again by another Begin once every
// ticket was settled.
//
// Begin sets the first group of fields. Each of the other groups belongs to one part of
// the machine, and the comment says to which.
//
// A Call is not safe for concurrent use: its driver uses one verb at a time. All verbs
// are total: they may be used at any time in any order.
type Call struct {
	Short    // plain.go
	log      *Log
	waker    bulkhead.Waker
	id       uint64 // number of this call for draws; 0 = not asked for yet
	priority bulkhead.Priority
	keyed    bool // safe by its key alone
	noQueue  bool
	inside   bool
	repeat   bool
	strict   bool

	phase phase
	wait  waiting  // enter.go
	taken taken    // taken.go
	sent  attempts // settle.go
	hedge hedging  // hedge.go
	retry retrying // retry.go
	end   ending   // end.go
}

// Begin starts a call: it pins the policy, and takes nothing. A call for an endpoint that is not there ends as
// policy.Invalid.
func (c *Call) Begin(s *State, now clock.Instant, p *Params) {
	if c.state != nil { // it was used before
		*c = Call{}
	}
	r := s.rules.Load()
	c.state, c.rules, c.part = s, r, &s.main
	if p.Log != nil || p.Waker != nil || p.Tenant != "" { // what is nil already need not be written
		c.log, c.waker, c.tenant = p.Log, p.Waker, p.Tenant
		c.log.begin()
	}
	c.began = now
	c.shard, c.priority = p.Shard, p.Priority
	c.safe, c.noRetry, c.strict = p.Safe || r.Policy.Safe, p.NoRetry, p.Strict
	if p.Keyed && !c.safe {
		c.safe, c.keyed = true, true
	}
	c.noSlot, c.noQueue, c.inside = p.NoSlot || p.Inside, p.NoQueue, p.Inside
	if p.Repeat {
		c.repeat, c.phase = true, repeating
	}
	if p.Partition != "" {
		c.enterPartition(now, p.Partition)
	}
	if r.unusual && !c.inside {
		if now >= r.until {
			r = lapse(s, now)
			c.rules = r
		}
		if len(r.Policy.RateLimit.Quotas) > 0 {
			c.wait.room = &room{cost: p.Cost}
		}
	}
	c.hedge.on = r.Policy.Hedge.Max > 0 && c.safe && !p.NoHedge && !p.NoRetry
	c.setDeadline(now, p.Timeout, p.Deadline)
	if (r.placed() || p.Endpoint != nil) && !beginPlacing(c, p) {
		c.refuse(now, policy.Invalid, 0)
	}
}

// setDeadline sets when the call ends at the latest. A limit in place of the policy's, and the caller's own deadline,
// are zero where there are none.
func (c *Short) setDeadline(now clock.Instant, limit time.Duration, theirs clock.Instant) {
	if limit <= 0 {
		limit = c.rules.Policy.Timeout.Call
	}
	c.deadline = clock.Never
	if limit > 0 {
		c.deadline = now.Add(limit)
	}
	if theirs != 0 {
		c.deadline = min(c.deadline, theirs)
	}
}

// Next says what to do now. It changes nothing while nothing has changed, so a
// spurious call is free. Unless the call is over, it must be called after every
// Settle and Cancel, after a wake, and when Step.Again has come.
func (c *Call) Next(now clock.Instant) (s Step) {
	c.next(now, &s)
	return s
}

// NextInto is Next for a driver that keeps one step and uses it again.
func (c *Call) NextInto(now clock.Instant, s *Step) { c.next(now, s) }

// SetWaker gives the call what wakes it, for drivers that make one only when the
// call waits. A call that must queue and has none answers Wait until now: it is to
// be given one and asked again at once.
func (c *Call) SetWaker(w bulkhead.Waker) { c.waker = w }

// next asks the phase that the call is in. A phase either answers, which fills in the
// step, or moves the call on to another phase, which is asked then. The step is passed
// down by pointer because it does not fit in registers, and copying it up took longer
// than all that is decided.
func (c *Call) next(now clock.Instant, s *Step) {
	if now >= c.deadline && c.phase != over {
		c.expire(now)
	}
	for answered := false; !answered; {
		switch c.phase {
		case entering:
			answered = c.enter(now, s)
		case sending:
			answered = c.trySend(now, s)
		case over:
			s.Verb, answered = Return, true
		case away:
			answered = c.watch(now, s)
		case resting:
			answered = c.rest(now, s)
		case queued:
			answered = c.queue(now, s)
		case limited:
			answered = c.awaitTurn(now, s)
		case roomless:
			answered = c.enter(now, s)
		case repeating:
			c.claimRepeat(now)
		}
	}
}

// expire ends the call at its deadline. Attempts that are out have been told to end,
// and have a moment to say how they ended.
func (c *Call) expire(now clock.Instant) {
	if c.sent.out != 0 && now < c.deadline.Add(grace) {
		return
	}
	c.giveUp(now, policy.CallTimeout)
}

// watch is Next while attempts are out, or while a failure waits for the hedge or the
// retry that may follow it.
func (c *Call) watch(now clock.Instant, s *Step) (answered bool) {
	if c.sent.out == 0 && c.retry.failed.Class == policy.ClassContention { // no hedge follows a conflict
		c.plan(now)
		return false
	}
	for said := false; c.hedge.due(now) && now < c.deadline; said = true {
		if c.sendHedge(now, s, !said) { // hedges without a delay may all be skipped here: one event says so
			return true
		}
		c.hedge.on = c.hedge.on && c.sent.out != 0 // with nothing out, the retry's plan says why not
	}
	if c.sent.out == 0 && !c.hedge.before(c.deadline) {
		c.plan(now)
		return false
	}
	return s.wait(c.again(now))
}

// again is when a call that has attempts out must be asked next.
func (c *Call) again(now clock.Instant) clock.Instant {
	at := c.deadline
	if now >= at {
		at = at.Add(grace)
	}
	if c.hedge.before(c.deadline) {
		at = min(at, c.hedge.at)
	}
	return at
}

// Cancel ends the call because the caller gave up. What was taken for an attempt that
// is not made is given back now; what attempts hold, when they are settled.
func (c *Call) Cancel(now clock.Instant) {
	if c.phase != over {
		c.giveUp(now, policy.Canceled)
	}
}

// giveUp ends the call whatever it waits for.
func (c *Call) giveUp(now clock.Instant, why policy.Reason) {
	switch c.phase {
	case queued:
		c.leaveQueue()
	case limited:
		c.leaveLine()
	}
	c.finish(now, why)
}

// finish ends the call, and gives back what was taken for an attempt that is not made.
// What wraps the whole call goes back, too: the permit now, the slot once no attempt is
// out. What attempts hold goes back when they are settled.
func (c *Call) finish(now clock.Instant, why policy.Reason) {
	c.phase, c.end.reason = over, why
	if why != policy.None || c.sent.n > 1 {
		c.countEnd(why)
		if c.sent.cut {
			c.cutAndEnded(now, why)
		}
		c.cutShort(why)
	}
	switch {
	case why == policy.CallTimeout && c.sent.out != 0 && c.deadline.Sub(c.began) >= c.rules.due():
		c.sent.judge(breaker.Bad)
	case why == policy.Canceled:
		c.sent.judged = false
	case why == policy.BreakerOpen:
		c.end.cause = refuser(c, now).OpenedBy()
	}
	if c.wait.room != nil {
		c.wait.room.leave(now)
	}
	if c.taken.has != 0 {
		c.undo(now)
		c.endWhole(now)
	}
	if c.log != nil && !c.log.plain {
		v, class := c.End(), policy.ClassUndecided
		if why != policy.None {
			class = c.log.class
		}
		*c.log.next(policy.KindReturned) = policy.Event{
			Kind: policy.KindReturned, At: now, Reason: why, Class: class, Effect: v.Effect, Attempt: c.sent.n, Took: now.Sub(c.began),
			Hedges: c.sent.n - c.sent.tries, Hedge: c.log.hedge && why == policy.None, Code: c.log.code, Numbers: v.Numbers,
		}
	}
	if c.named != nil && c.sent.idle() {
		c.leavePartition(now)
	}
}

// draw gives the call a number when it first draws, so that a call that draws nothing
// pays nothing.
func (c *Call) draw() uint64 {
	if c.id == 0 {
		c.id = c.state.draws.Add(1)
	}
	return c.id
}
