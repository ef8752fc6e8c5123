package conformance

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// caller drives one call as the front door does. Its goroutine is either inside
// work or asks the machine. With hedges a timer asks too, but only while the
// goroutine is inside work.
type caller struct {
	v        *virtual
	n        int
	plan     *Call
	call     machine.Call
	log      machine.Log
	out      []*attempt
	kept     *attempt // whose result is still open
	began    bool
	canceled bool
	racing   bool
	inside   bool
	done     bool
	sent     int
	homes    int
	returned int
}

// attempt is one that was sent.
type attempt struct {
	ticket machine.Ticket
	work   Work
	inline bool // on the caller's own goroutine
	home   bool
}

func (c *caller) begin() {
	v := c.v
	p := c.plan
	deadline := Instant(0)
	if p.Deadline > 0 {
		deadline = v.world.Origin.Add(p.Deadline)
	}
	if c.canceled || deadline != 0 && v.now >= deadline {
		return // the front door turns those away before it asks the machine
	}
	c.began = true
	c.racing = v.state.Rules().Policy.Hedge.Max > 0
	c.call.Begin(v.state, v.now, &machine.Params{
		Deadline: deadline, Timeout: p.Timeout, Safe: !p.Unsafe, NoRetry: p.NoRetry, NoHedge: p.NoHedge,
		Priority: p.Priority, Tenant: p.Tenant, Partition: p.Partition, Waker: c, Log: &c.log,
	})
	c.step()
}

// Wake implements bulkhead.Waker: Next is called at this time.
func (c *caller) Wake() { c.v.at(c.v.now, c.step) }

// step asks what to do and does it.
func (c *caller) step() {
	if c.done || c.inside && !c.racing {
		return
	}
	now := c.v.now
	s := c.call.Next(now)
	c.say()
	switch s.Verb {
	case machine.Send:
		c.send(&s.Ticket)
		if c.racing && c.call.Hedges() {
			c.v.at(s.Again, c.step)
		}
	case machine.Wait:
		if s.Again <= now {
			c.v.fault("c%d: a wait that ends now", c.n)
		}
		c.supersede()
		if !c.inside || c.call.Hedges() {
			c.v.at(s.Again, c.step)
		}
	case machine.Return:
		if !c.inside {
			c.answer()
		}
	default:
		c.v.fault("c%d: verb %d", c.n, s.Verb)
	}
}

func (c *caller) say() {
	for _, e := range c.log.Drain() {
		if e.Kind == policy.KindReturned {
			c.returned++
		}
		c.v.say(c.n, e)
	}
	if c.log.Lost() > 0 {
		c.v.fault("c%d: events lost", c.n)
	}
	c.v.deliver()
}

// send starts an attempt, whose end goes on the heap: when its work ends, or,
// unless it is deaf, when its context does.
func (c *caller) send(t *machine.Ticket) {
	a := &attempt{ticket: *t, work: c.plan.work(t.Attempt), inline: !c.inside}
	c.inside = true
	c.sent++
	c.out = append(c.out, a)
	c.v.at(c.v.now.Add(a.work.Takes), func() { c.home(a, a.work.outcome(), a.work.answers()) })
	if t.Deadline != clock.Never {
		c.cutAt(t.Deadline, a, context.DeadlineExceeded)
	}
	if c.canceled {
		c.cutAt(c.v.now, a, context.Canceled)
	}
}

// cutAt ends an attempt's context.
func (c *caller) cutAt(t Instant, a *attempt, err error) {
	if !a.work.Deaf {
		c.v.at(t, func() { c.home(a, judge(nil, err), false) })
	}
}

func (w *Work) outcome() policy.Outcome {
	if w.Panics || w.Exits {
		return policy.Outcome{Class: policy.ClassCrashed, Effect: policy.UnknownEffect}
	}
	return judge(w.Means, w.Err)
}

// answers reports whether there is a result at all.
func (w *Work) answers() bool { return w.Err == nil && !w.Panics && !w.Exits }

// home brings an attempt in, as both real drivers do.
func (c *caller) home(a *attempt, o policy.Outcome, answer bool) {
	if a.home {
		return
	}
	a.home = true
	c.homes++
	if a.inline {
		c.inside = false
	}
	now := c.v.now
	if o.Class != policy.ClassSuccess && c.canceled {
		c.call.Cancel(now)
	}
	late := c.call.Over()
	o.Open = c.plan.Open && answer && !(late && c.racing)
	c.call.Settle(now, a.ticket, o)
	if !late || !c.racing {
		c.replace(a, o.Open)
	} else if a.inline && o.Class == policy.ClassCrashed && (a.work.Exits || !c.call.Succeeded()) {
		c.replace(a, false) // a caller that leaves gets no result; a panic is passed over where a hedge has won
	}
	c.say()
	if c.call.Over() {
		c.endAll()
	}
	c.goOn()
}

// goOn asks what to do next. In an instant with an order of its own others may
// come between, as goroutines do.
func (c *caller) goOn() {
	if c.v.world.Orders[c.v.now.Sub(c.v.world.Origin)] != 0 {
		c.v.at(c.v.now, c.step)
		return
	}
	c.step()
}

// replace keeps the latest result and releases the one before.
func (c *caller) replace(a *attempt, open bool) {
	if c.kept != nil {
		c.call.Release(c.v.now, c.kept.ticket, false)
		c.kept = nil
	}
	if open {
		c.kept = a
	}
}

// endAll ends the contexts of all that is out when a call is over.
func (c *caller) endAll() {
	for _, a := range c.out {
		if !a.home {
			c.cutAt(c.v.now, a, context.Canceled)
		}
	}
}

// supersede lets go of a result that a retry is about to replace.
func (c *caller) supersede() {
	if c.kept != nil && c.call.Resting() {
		c.call.Release(c.v.now, c.kept.ticket, false)
		c.kept = nil
	}
}

func (c *caller) cancel() {
	if d := c.plan.Deadline; d > 0 && c.v.now >= c.v.world.Origin.Add(d) {
		return // the context has ended already
	}
	c.canceled = true
	if !c.began || c.done {
		return
	}
	for _, a := range c.out {
		if !a.home {
			c.cutAt(c.v.now, a, context.Canceled)
		}
	}
	if !c.inside {
		c.call.Cancel(c.v.now)
		c.say()
		c.step()
	}
}

// answer is the end for the caller. An open result lives for a while longer.
func (c *caller) answer() {
	c.done = true
	c.endAll()
	if c.kept == nil {
		return
	}
	a := c.kept
	c.v.at(c.call.Limits(c.v.now, &a.ticket).Slot, func() {
		c.call.Outlive(c.v.now, &a.ticket)
		c.say()
	})
	c.v.at(c.v.now.Add(c.plan.Hold), func() {
		c.call.Release(c.v.now, a.ticket, c.plan.Breaks && !c.ended())
		c.say()
	})
}

// ended reports whether the caller's own context has ended.
func (c *caller) ended() bool {
	d := c.plan.Deadline
	return c.canceled || d > 0 && c.v.now >= c.v.world.Origin.Add(d)
}

func (c *caller) audit() {
	if !c.began {
		return
	}
	if c.homes != c.sent || c.call.Out() != 0 {
		c.v.fault("c%d: %d sent, %d home, %d out", c.n, c.sent, c.homes, c.call.Out())
	}
	if !c.done || c.returned != 1 {
		c.v.fault("c%d: answered %v, returned %d times", c.n, c.done, c.returned)
	}
	if s := c.call.Next(c.v.now); s.Verb != machine.Return {
		c.v.fault("c%d: goes on after its end: %v", c.n, s)
	}
}

// Units that keep scripts short.
const (
	ms = time.Millisecond
	s  = time.Second
)
