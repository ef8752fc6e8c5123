package machine

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Verb is what a driver is told to do.
type Verb uint8

// The three verbs.
const (
	Send   Verb = iota + 1 // start an attempt; it ends at its ticket's Deadline
	Wait                   // there is nothing to start
	Return                 // answer the caller; whatever is still out is a loser
)

// Step is the machine's answer to "what now?".
type Step struct {
	Verb   Verb
	Ticket Ticket        // of Send
	Again  clock.Instant // of Send and Wait: call Next at this time at the latest
}

func (s *Step) wait(again clock.Instant) { s.Verb, s.Again = Wait, again }

// Ticket is one attempt that is out. It carries what the attempt holds and comes
// home with it in Settle, so a Call keeps no list of attempts and whatever the
// policy says by then, what was taken is what is given back.
type Ticket struct {
	Deadline clock.Instant // when the attempt must have ended
	Sent     clock.Instant
	hold     hold
	Attempt  uint8 // 1 is the first
	Hedge    bool
	last     bool // the attempt ends with the call, not with its own timeout
}

// Final reports whether the attempt ends with the call rather than with a timeout
// of its own.
func (t *Ticket) Final() bool { return t.last }

// hold is what an attempt or a whole call has taken.
type hold struct {
	permit breaker.Permit
	slot   bulkhead.Slot
}

// Params is what one call brings along.
type Params struct {
	Deadline  clock.Instant // the caller's own; zero or clock.Never means none
	Timeout   time.Duration // in place of the policy's Timeout.Call; zero means the policy's
	Safe      bool          // declared safe to repeat
	NoRetry   bool          // one attempt, whatever the policy says
	NoHedge   bool          // never hedge, whatever the policy says
	Priority  bulkhead.Priority
	Shard     uint32 // which shard of the counters; any number
	Tenant    string // whose call it is, for fair shares
	Partition string // whose breaker, for partitioned dependencies
	Waker     bulkhead.Waker
	Log       *Log // nil means unobserved, which costs nothing
}

// phase is where a call stands between two verbs.
type phase uint8

const (
	entering phase = iota // wants an attempt admitted
	resting               // waits until wake before it enters
	queued                // waits for a slot
	limited               // has its turn at wake, and the slot that it needs
	away                  // attempts are out, or a hedge is due
	over                  // returned
)

// grace is how much longer than its deadline a call waits for work that is out
// and was told to end, so that a homecoming at the very deadline is seen.
const grace = time.Millisecond

// Call is the machine: everything decided for one call. Begin makes it ready; a
// Call may live on its driver's stack and may be used again by another Begin
// once every ticket came home.
//
// A Call is not safe for concurrent use: its driver serialises the verbs. All
// verbs are total: they may be used at any time in any order.
type Call struct {
	state *State
	rules *Rules
	lane  *lane
	keyed *keyedLane
	log   *Log
	waker bulkhead.Waker

	waiter    *bulkhead.Waiter
	tenant    string
	began     clock.Instant
	deadline  clock.Instant
	wake      clock.Instant // end of resting, start of a turn
	hedgeAt   clock.Instant
	queueTill clock.Instant
	turnAt    clock.Instant // the turn of the rate limit that was taken and not used
	countedAt clock.Instant // when throttle counted it
	said      clock.Instant // end of the wait that was reported last

	out      uint64 // a bit per attempt that is out
	open     uint64 // a bit per attempt whose result is still open
	lasting  uint64 // those of them that outlived their attempt's time
	id       uint64 // number of this call for draws; 0 = not asked for yet
	whole    hold   // what wraps the whole call
	pending  bulkhead.Slot
	reserved budget.Reservation // of a window
	prev     time.Duration      // the wait before this one
	after    time.Duration      // when to come back, if known
	shard    uint32
	epoch    uint32 // of the State when reserved was made

	phase    phase
	priority bulkhead.Priority
	told     breaker.Receipt // of the success whose result lives on
	verdict  breaker.Verdict // of the last attempt, for PerCall
	heard    bool            // verdict is known
	has      things
	sends    uint8
	tries    uint8
	hedges   uint8
	onces    uint8 // outcomes marked Once
	lost     uint8 // tries that ended in a conflict
	holds    uint8 // how often a retry was held back
	safe     bool
	noRetry  bool
	hedging  bool // hedges are still possible
	stopped  bool // an attempt brought the mark that stops retries
	reason   policy.Reason
	effect   policy.Effect
	cause    breaker.Cause   // BreakerOpen: what opened it
	failed   policy.Outcome  // the last failure, while a sibling may still succeed
	numbers  *policy.Numbers // of the end, where it has some
}

// things are what a call has at the moment, as a set: one look at it tells that
// there is nothing to give back.
type things uint8

const (
	wholePermit things = 1 << iota // whole.permit: the breaker wraps the whole call
	wholeSlot                      // whole.slot: the bulkhead does
	charge                         // reserved, of the budget
	turn                           // turnAt, of the rate limit
	request                        // the throttle has counted the attempt that is being admitted
	relook                         // the rate limit was asked again with a fresh clock
	repeat                         // reserved is of the budget for conflicts
	paceTurn                       // a turn of the pacer, which needs no giving back
)

// ofAttempt are those that an attempt takes along when it is sent.
const ofAttempt = charge | repeat | turn | request | relook | paceTurn

// Begin starts a call: it pins the policy, and takes nothing.
func (c *Call) Begin(s *State, now clock.Instant, p *Params) {
	if c.state != nil { // it was used before
		*c = Call{}
	}
	r := s.rules.Load()
	c.state, c.rules, c.lane = s, r, &s.lane
	if p.Log != nil || p.Waker != nil || p.Tenant != "" { // what is nil already need not be written
		c.log, c.waker, c.tenant = p.Log, p.Waker, p.Tenant
	}
	c.began, c.deadline, c.said = now, clock.Never, math.MinInt64
	c.shard, c.priority = p.Shard, p.Priority
	c.safe, c.noRetry = p.Safe || r.Policy.Safe, p.NoRetry
	if p.Partition != "" {
		c.enterLane(now, p.Partition)
	}
	c.hedging = r.Policy.Hedge.Max > 0 && c.safe && !p.NoHedge && !p.NoRetry
	c.setDeadline(now, p)
}

func (c *Call) setDeadline(now clock.Instant, p *Params) {
	limit := c.rules.Policy.Timeout.Call
	if p.Timeout > 0 {
		limit = p.Timeout
	}
	if limit > 0 {
		c.deadline = now.Add(limit)
	}
	if p.Deadline != 0 {
		c.deadline = min(c.deadline, p.Deadline)
	}
}

// Next says what to do now. It changes nothing while nothing has changed, so a
// spurious call is free. It must be called after every Settle and Cancel, after a
// wake, and when Step.Again has come.
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

// next fills in the step. It is passed down by pointer because a step is larger
// than what returns in registers, and copying it up through five layers cost more
// than all that they decide.
func (c *Call) next(now clock.Instant, s *Step) {
	if now >= c.deadline && c.phase != over {
		c.expire(now)
	}
	switch c.phase {
	case entering:
		c.enter(now, s)
	case over:
		s.Verb = Return
	case resting:
		c.rest(now, s)
	case queued:
		c.inQueue(now, s)
	case limited:
		c.rateTurn(now, s)
	case away:
		c.watch(now, s)
	}
}

// rest is Next while the call waits before it enters. A result of the attempt
// before that is still open holds a slot, which this call must not queue behind.
func (c *Call) rest(now clock.Instant, s *Step) {
	switch {
	case now < c.wake:
		s.wait(min(c.wake, c.deadline))
	case c.open != 0:
		s.wait(now + 1)
	case c.tries > 0 && c.held(now, s):
	default:
		c.phase = entering
		c.enter(now, s)
	}
}

// expire ends the call at its deadline. Work that is out has been told to end and
// gets a moment to say how it ended.
func (c *Call) expire(now clock.Instant) {
	if c.out != 0 && now < c.deadline.Add(grace) {
		return
	}
	if c.phase == queued && c.waiter != nil {
		c.leaveQueue()
	}
	c.end(now, policy.CallTimeout)
}

// watch is Next while attempts are out, or while a failure waits to be answered
// by a hedge or a retry.
func (c *Call) watch(now clock.Instant, s *Step) {
	if c.out == 0 && c.failed.Class == policy.ClassContention { // it is not a hedge's to answer
		c.plan(now)
		c.next(now, s)
		return
	}
	for said := false; c.hedging && now >= c.hedgeAt && now < c.deadline; said = true {
		if c.hedge(now, s, !said) { // hedges without a delay may all be skipped here: one event says so
			return
		}
		c.hedging = c.hedging && c.out != 0 // with nothing out, the retry's plan says why not
	}
	if c.out == 0 && !(c.hedging && c.hedgeAt < c.deadline) {
		c.plan(now)
		c.next(now, s)
		return
	}
	s.wait(c.again(now))
}

// again is when a call whose work is out must be asked next.
func (c *Call) again(now clock.Instant) clock.Instant {
	at := c.deadline
	if now >= at {
		at = at.Add(grace)
	}
	if c.hedging && c.hedgeAt < c.deadline {
		at = min(at, c.hedgeAt)
	}
	return at
}

// Cancel ends the call because the caller gave up. What waits is given back now,
// what is out when it comes home.
func (c *Call) Cancel(now clock.Instant) {
	if c.phase == over {
		return
	}
	if c.phase == queued && c.waiter != nil {
		c.leaveQueue()
	}
	c.end(now, policy.Canceled)
}

// end closes the call: every reservation goes back, and the whole call's hold
// when nothing is out any more.
func (c *Call) end(now clock.Instant, why policy.Reason) {
	c.phase, c.reason = over, why
	switch {
	case why == policy.CallTimeout && c.out != 0 && c.deadline.Sub(c.began) >= c.due():
		c.verdict, c.heard = breaker.Bad, true
	case why == policy.Canceled:
		c.heard = false
	case why == policy.BreakerOpen:
		c.cause = c.lane.breaker.Load().OpenedBy()
	}
	if c.has != 0 || c.pending.Held() {
		c.letGo(now, why)
	}
	if c.log != nil {
		v := c.Verdict()
		c.log.add(policy.Event{
			Kind: policy.KindReturned, At: now, Reason: why, Effect: v.Effect, Attempt: c.sends, Took: now.Sub(c.began),
		})
	}
	if c.keyed != nil && c.out|c.open == 0 {
		c.leaveLane(now)
	}
}

// letGo gives back what the call has of others. A request that the throttle itself
// turned away stays counted.
func (c *Call) letGo(now clock.Instant, why policy.Reason) {
	c.refund(now)
	c.dropPending(now)
	if why != policy.ThrottledLocally {
		c.uncount(now)
	}
	c.endWhole(now)
}

// endWhole gives back what wraps the whole call: the breaker's permit with the
// last verdict at the end of the call, the slot when the work is really over.
func (c *Call) endWhole(now clock.Instant) {
	if c.has&wholePermit != 0 {
		c.has &^= wholePermit
		v := breaker.Neutral
		if c.heard {
			v = c.verdict
		}
		c.hear(now, c.whole.permit, v, c.after, c.open != 0)
	}
	if c.has&wholeSlot != 0 && c.out|c.open&^c.lasting == 0 {
		c.has &^= wholeSlot
		c.state.bulkhead().Release(c.whole.slot)
	}
}

// draw names this call on first need, so that calls which draw nothing cost
// nothing.
func (c *Call) draw() uint64 {
	if c.id == 0 {
		c.id = c.state.draws.Add(1)
	}
	return c.id
}
