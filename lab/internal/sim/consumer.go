package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// delivery is a message at a consumer.
type delivery struct {
	self, gen uint32
	sim       *sim
	fleet     int
	who       int // which consumer
	message   *message
	came      clock.Instant
	until     clock.Instant // visibility ends, where nothing extends it
	machine   machine.Call  // of the consumers' dependency
	step      machine.Step
	admitted  bool // it has the step's ticket
	running   bool
	ran       bool // and that has ended
	claimed   bool // its run holds the message's record
	token     int64
	runs      int // of the message, this one included
	began     clock.Instant
	job, jgen uint32
	why       policy.Outcome // of the call that failed
	local     bool           // and it was refused before anything was sent
	noEffect  bool           // and certainly did nothing
	lapsed    bool           // the message can be delivered to others
	lost      bool           // with its process
}

// Wake implements bulkhead.Waker.
func (d *delivery) Wake() { d.sim.at(d.sim.now, evDelivery, d.self, d.gen) }

// visible is until when the broker keeps a message from others: as the heartbeats have it,
// which are sent each third of the visibility.
func (d *delivery) visible(b *broker, now clock.Instant) clock.Instant {
	if !b.Heartbeat || d.lost {
		return d.until
	}
	every := b.visibility() / 3
	beats := min(now.Sub(d.came), longestRun) / every
	return max(d.until, d.came.Add(beats*every+b.visibility()))
}

// hasRoom reports whether a consumer is worth a message now. One with a policy asks before it
// fetches, as package consumer does, and again when its dependency says so.
func (s *sim) hasRoom(b *broker, who int) bool {
	c := &b.consumers[who]
	if b.Rules == nil {
		return c.taken < b.Workers+b.Prefetch
	}
	st := s.consumes(b, who)
	calls, after := st.Room(s.now)
	if calls == 0 && !c.asking {
		c.asking = true
		s.at(s.now.Add(min(after, longestPause)), evRoom, uint32(who), uint32(b.fleet))
	}
	return min(b.slots(st), calls) > c.taken
}

// slots is how many messages a consumer works on at once.
func (b *broker) slots(st *machine.State) int {
	if n := st.Slots(); n > 0 {
		return n
	}
	return b.Workers
}

// consumes returns what a consumer knows of its dependency.
func (s *sim) consumes(b *broker, who int) *machine.State {
	if b.states[who] == nil {
		d := draw.New(s.seed, forConsumers, uint64(b.fleet)<<40|uint64(who))
		b.states[who] = machine.NewState(s.now, b.Rules, machine.Setup{Seed: d.Bits()})
	}
	return b.states[who]
}

// deliver gives a message to a consumer.
func (s *sim) deliver(b *broker, who int, m *message) {
	m.times++
	b.n.Deliveries++
	b.move(m, isOut)
	i, gen, d := s.deliveries.take()
	*d = delivery{self: i, gen: gen, sim: s, fleet: b.fleet, who: who, message: m, came: s.now, until: s.now.Add(b.visibility())}
	m.current, m.cgen = i, gen
	s.at(d.until, evLapse, i, gen)
	c := &b.consumers[who]
	c.taken++
	switch {
	case b.Rules != nil:
		d.machine.Begin(s.consumes(b, who), s.now, &machine.Params{NoRetry: true, Repeat: m.times > 1, Strict: true, Waker: d})
		s.consume(d)
	case c.working < b.Workers:
		c.working++
		s.handleMessage(d, clock.Never)
	default:
		c.held = append(c.held, i)
	}
}

// consume asks the consumers' dependency whether the work may begin.
func (s *sim) consume(d *delivery) {
	if d.admitted || d.lost {
		return
	}
	d.machine.NextInto(s.now, &d.step)
	switch d.step.Verb {
	case machine.Send:
		d.admitted = true
		s.handleMessage(d, d.step.Ticket.Deadline)
	case machine.Wait:
		if d.step.Again != clock.Never {
			s.at(d.step.Again, evDelivery, d.self, d.gen)
		}
	case machine.Return: // it was not admitted, which is no run
		b := s.fleets[d.fleet].broker
		b.n.Refused++
		v := d.machine.End()
		s.putOff(d, s.consumes(b, d.who).PutOffRefused(s.seedOf(d.message))+max(v.RetryAfter, 0))
	}
}

func (s *sim) retry(b *broker, who int) *policy.Retry {
	return &s.consumes(b, who).Rules().Policy.Retry
}

// seedOf names a message for the draws of its waits.
func (s *sim) seedOf(m *message) uint64 {
	d := draw.New(s.seed, forWaits, m.id)
	return d.Bits()
}

// handleMessage begins a run of a message's work, unless the inbox says otherwise.
func (s *sim) handleMessage(d *delivery, deadline clock.Instant) {
	b, m := s.fleets[d.fleet].broker, d.message
	d.began, d.runs = s.now, m.times
	if b.Rules != nil {
		if deadline = min(deadline, s.now.Add(longestRun)); b.Inbox != NoInbox && !s.claim(b, d) {
			return
		}
	}
	b.n.Runs++
	d.running = true
	m.copies++
	b.n.Copies = max(b.n.Copies, int64(m.copies))
	if m.poison && b.Harm == Crashes {
		s.crash(b, d.who)
		return
	}
	if m.poison {
		d.why = policy.Outcome{Class: policy.ClassUnclassified, Effect: policy.UnknownEffect}
		if b.Harm == Permanent {
			d.why.Class = policy.ClassBusiness
		}
		s.ran(d, false)
		return
	}
	j := s.newJob(&s.fleets[d.fleet].plan)
	j.instance, j.run, j.attempt, j.agen = d.who, true, d.self, d.gen
	j.id, j.root, j.deadline = m.id*0x9e3779b97f4a7c15+uint64(m.times), m.began, deadline
	d.job, d.jgen = j.self, j.gen
	if deadline != clock.Never {
		s.at(deadline, evEnd, d.self, d.gen)
	}
	s.runJob(j)
}

// failedCall keeps what the end of a call means to the work that made it.
func (s *sim) failedCall(d *delivery, c *call, v *machine.End) {
	d.why = machine.Around(v, func() policy.Outcome { return c.of.last })
	d.local = v.Attempts == 0 && machine.Refused(v.Reason)
	d.noEffect = v.Effect == policy.NoEffect
}

// outOfTime ends a run whose time is over.
func (s *sim) outOfTime(d *delivery) {
	if !d.running {
		return
	}
	s.stop(d)
	d.why = policy.Outcome{Class: policy.ClassTimeout, Effect: policy.UnknownEffect}
	s.ran(d, false)
}

// stop ends what a run does. What it has asked for is done nevertheless.
func (s *sim) stop(d *delivery) {
	if j := s.jobs.get(d.job, d.jgen); j == nil || !j.run || j.attempt != d.self || j.agen != d.gen {
		return // it has called nothing
	}
	s.jobs.put(d.job)
	var under []*call
	s.calls.each(func(c *call) {
		if !c.over && c.job == d.job && c.jgen == d.jgen {
			under = append(under, c)
		}
	})
	for _, c := range under {
		c.machine.Cancel(s.now)
		s.step(c)
	}
}

// ran is the end of a run.
func (s *sim) ran(d *delivery, ok bool) {
	b, m := s.fleets[d.fleet].broker, d.message
	d.running, d.ran = false, true
	m.copies--
	if b.Rules == nil {
		if ok {
			s.acknowledge(d)
		} else {
			s.putOff(d, or(b.Requeue, usualRequeue))
		}
		return
	}
	f := s.fate(b, d, ok)
	s.settleRun(d, ok)
	switch {
	case f.done:
		s.acknowledge(d)
	case f.dead:
		s.lay(d, f.why)
	default:
		s.putOff(d, f.wait)
	}
}

// settleRun tells the consumers' dependency how the attempt came out.
func (s *sim) settleRun(d *delivery, ok bool) {
	o := d.why
	switch {
	case ok:
		o = policy.Outcome{Class: policy.ClassSuccess}
	case o.Class == policy.ClassRejected:
		o.Class = policy.ClassServer // for who works on messages it does not work
	}
	s.endAttempt(d, &o)
}

// endAttempt ends the attempt of the consumers' dependency. Nil says nothing about it.
func (s *sim) endAttempt(d *delivery, o *policy.Outcome) {
	if !d.admitted {
		return
	}
	if o == nil {
		d.machine.Cancel(s.now)
		o = &policy.Outcome{Class: policy.ClassIgnored, Effect: policy.UnknownEffect}
	}
	d.machine.SettleFrom(s.now, &d.step.Ticket, o)
	d.machine.NextInto(s.now, &d.step)
}

// acknowledge tells the broker that a message is done.
func (s *sim) acknowledge(d *delivery) {
	b, m := s.fleets[d.fleet].broker, d.message
	if !m.over && b.LostAcks > 0 {
		if draws := draw.New(s.seed, forAcks, attemptID(m.id, m.times)); draws.Yes(b.LostAcks) {
			s.forgetDelivery(b, d)
			return
		}
	}
	if !m.over {
		if d.ran {
			b.n.Useful++
			d.ran = false
		}
		if s.unfelt(b, m) {
			b.n.Lost++
		}
		s.finish(b, m, true)
	}
	s.leaveConsumer(b, d)
}

// lay puts a message away.
func (s *sim) lay(d *delivery, why DeadReason) {
	b := s.fleets[d.fleet].broker
	if !d.message.over {
		s.bury(b, d.message, why)
	}
	s.leaveConsumer(b, d)
}

// putOff gives a message back, to come again after a while.
func (s *sim) putOff(d *delivery, after time.Duration) {
	b, m := s.fleets[d.fleet].broker, d.message
	if !m.over && m.spot == isOut && m.current == d.self && m.cgen == d.gen {
		b.move(m, isWaiting)
		s.at(s.now.Add(max(after, breath)), evReady, m.slot, m.mgen)
	}
	s.leaveConsumer(b, d)
}

// forgetDelivery is the end of a delivery of which the broker hears nothing.
func (s *sim) forgetDelivery(b *broker, d *delivery) {
	d.until = d.visible(b, s.now)
	d.lost = true
	s.leaveConsumer(b, d)
}

// leaveConsumer ends a delivery at its consumer, which has room for another.
func (s *sim) leaveConsumer(b *broker, d *delivery) {
	c := &b.consumers[d.who]
	c.taken--
	if d.ran {
		b.n.Wasted++
	}
	if !d.lost || d.lapsed { // else its visibility still ends
		s.deliveries.put(d.self)
	}
	if b.Rules == nil {
		c.working--
		s.begin(b, c)
	}
	s.soon(b)
}

// begin works on what a plain consumer holds.
func (s *sim) begin(b *broker, c *consumer) {
	if len(c.held) > 0 && c.working < b.Workers {
		next := s.deliveries.at(c.held[0])
		c.held = append(c.held[:0], c.held[1:]...)
		c.working++
		s.handleMessage(next, clock.Never)
	}
}

// crash ends a consumer's process, and begins another one in its place. What it worked on
// is lost; the messages come again when their visibility ends.
func (s *sim) crash(b *broker, who int) {
	var all []*delivery
	s.deliveries.each(func(d *delivery) {
		if d.fleet == b.fleet && d.who == who && !d.lost {
			all = append(all, d)
		}
	})
	asking := b.consumers[who].asking
	b.states[who], b.consumers[who] = nil, consumer{asking: asking}
	for _, e := range s.fleets[b.fleet].plan.edges {
		s.edges[e].forget(who)
	}
	for _, d := range all {
		d.until = d.visible(b, s.now)
		d.lost = true
		if d.running {
			d.running = false
			b.n.Wasted++
			d.message.copies--
			s.stop(d)
		}
		if d.lapsed {
			s.deliveries.put(d.self)
		}
	}
	s.soon(b)
}

// restartConsumers restarts all consumers of a fleet, or some of them: the next ones of it.
func (s *sim) restartConsumers(b *broker, some int) {
	n := len(b.consumers)
	if some <= 0 || some > n {
		some = n
	}
	for range some {
		s.crash(b, b.restarted%n)
		b.restarted++
	}
}
