package sim

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Queue is a broker between a fleet's load and the fleet: each arrival is a message, and
// the clients are consumers. The plan is what they do for a message. It is done when the broker
// gets its acknowledgement, and has failed when it is a dead letter.
//
// The broker delivers at least once. A message that is neither acknowledged nor refused
// comes again when its visibility ends, whatever goes on with it; the acknowledgement of an
// earlier delivery still counts, as it does in SQS and JetStream.
type Queue struct {
	Rules      *machine.Rules // the consumers' policy; nil means plain consumers, that take what they are given
	Workers    int            // messages that a consumer works on at once, where no bulkhead says so
	Prefetch   int            // messages that a plain consumer has beyond those
	Visibility time.Duration  // zero means 30 s
	Heartbeat  bool           // visibility is extended while a message is worked on
	Inbox      Inbox          // of consumers with a policy
	GiveUp     time.Duration  // for at least so long a message is tried whose work fails, with an inbox; 0 means that its runs alone decide
	Deliveries int            // after this many the broker makes a message a dead letter; 0 means never
	Requeue    time.Duration  // until a message comes again that a plain consumer refused; zero means 100 ms
	LostAcks   float64        // share of acknowledgements that don't arrive
	Partitions int            // each delivers its messages in order, one at a time; 0 means that there is no order
	Skip       bool           // the others of a partition go on while one waits to come again
	Poison     float64        // share of messages whose work can't succeed
	Harm       Harm           // what these do
}

// Inbox says what consumers remember of messages.
type Inbox uint8

// The inboxes.
const (
	NoInbox        Inbox = iota // nothing
	HoldInbox                   // a run that was lost is never repeated
	ReexecuteInbox              // it is
)

// Harm is what a poison message does. It does so before anything is called.
type Harm uint8

// The harms.
const (
	Fails     Harm = iota // the work returns an unclassified error
	Permanent             // the work returns an error that says that it will be the same next time
	Crashes               // the process ends, and what it works on is lost
)

const (
	usualVisibility = 30 * time.Second
	usualRequeue    = 100 * time.Millisecond
	longestRun      = 5 * time.Minute // as package inbox has it
	longestPause    = time.Second     // until a consumer asks again whether it has room, as package consumer has it
)

// broker is a Queue at work.
type broker struct {
	*Queue
	fleet     int
	lines     []line
	consumers []consumer
	states    []*machine.State // of the consumers' dependency; nil for one that knows nothing
	turn      int              // which line or consumer is next
	restarted int              // consumers that were restarted one after the other
	all       []*message       // from the oldest that is not over
	offering  bool             // it will deliver what it can
	seq       uint64
	n         *MessageCounts
}

// line is one partition, or all of a queue that has none.
type line struct {
	ready []*message // a heap: the oldest first
	out   int        // messages that keep others from being delivered, in a partition
	high  uint64     // of those that had their effect, the youngest
}

// consumer is one process.
type consumer struct {
	taken   int      // messages that it has
	working int      // of these, being worked on, at a plain one
	held    []uint32 // deliveries that a plain one has not begun
	asking  bool     // it will ask again whether it has room
}

// spot is where a message is at the broker.
type spot uint8

const (
	nowhere spot = iota
	isReady
	isOut     // delivered, and its visibility has not ended
	isWaiting // to come again
)

// message is one message.
type message struct {
	slot    uint32
	mgen    uint32
	fleet   int
	job     uint32 // its fleet's work
	id      uint64
	seq     uint64
	line    int
	began   clock.Instant
	poison  bool
	over    bool
	spot    spot
	times   int    // it was delivered
	copies  int    // runs that go on
	current uint32 // the delivery that is out
	cgen    uint32
	memory
	witness
}

func newBroker(s *sim, i int) *broker {
	f := &s.world.Fleets[i]
	if f.Queue == nil {
		return nil
	}
	b := &broker{Queue: f.Queue, fleet: i, lines: make([]line, max(f.Queue.Partitions, 1))}
	b.consumers, b.states = make([]consumer, f.Clients), make([]*machine.State, f.Clients)
	return b
}

// queues reports whether any fleet has a broker: a message may come again for ever.
func (w *World) queues() bool {
	return slices.ContainsFunc(w.Fleets, func(f Fleet) bool { return f.Queue != nil })
}

// handleMessages handles what happens to messages.
func (s *sim) handleMessages(e event) {
	gen := e.tag >> kindBits
	switch e.tag & (1<<kindBits - 1) {
	case evDelivery:
		if d := s.deliveries.get(e.who, gen); d != nil {
			s.consume(d)
		}
	case evEnd:
		if d := s.deliveries.get(e.who, gen); d != nil {
			s.outOfTime(d)
		}
	case evLapse:
		if d := s.deliveries.get(e.who, gen); d != nil {
			s.lapse(d)
		}
	case evReady:
		if m := s.messages.get(e.who, gen); m != nil {
			s.again(*m)
		}
	case evRoom:
		b := s.fleets[gen].broker
		b.consumers[e.who].asking = false
		s.soon(b)
	case evOffer:
		b := s.fleets[e.who].broker
		b.offering = false
		s.offer(b)
	}
}

func (q *Queue) visibility() time.Duration { return or(q.Visibility, usualVisibility) }

// publish is a message that arrives at the broker.
func (s *sim) publish(i int) {
	f := &s.fleets[i]
	b := f.broker
	j := s.newJob(&f.plan)
	j.fleet, j.id = int32(i), f.name(i, 0)
	s.rec.offered(s, i)
	d := draw.New(s.seed, forMessages, j.id)
	b.seq++
	m := &message{fleet: i, job: j.self, id: j.id, seq: b.seq, began: s.now, poison: d.Yes(b.Poison), line: d.N(len(b.lines))}
	slot, gen, at := s.messages.take()
	*at, m.slot, m.mgen = m, slot, gen
	b.all = append(b.all, m)
	s.ready(b, m)
	s.soon(b)
}

// move puts a message somewhere else.
func (b *broker) move(m *message, to spot) {
	l := &b.lines[m.line]
	if b.holds(m.spot) {
		l.out--
	}
	if b.holds(to) {
		l.out++
	}
	m.spot = to
}

// holds reports whether a message that is there keeps the others of its partition waiting.
func (b *broker) holds(p spot) bool { return p == isOut || p == isWaiting && !b.Skip }

// ready makes a message one that can be delivered, unless it was delivered too often.
func (s *sim) ready(b *broker, m *message) {
	if b.Deliveries > 0 && m.times >= b.Deliveries {
		s.bury(b, m, DeadDeliveries)
		return
	}
	b.move(m, isReady)
	b.lines[m.line].push(m)
}

// again is the end of a message's wait.
func (s *sim) again(m *message) {
	b := s.fleets[m.fleet].broker
	if m.spot == isWaiting {
		s.ready(b, m)
		s.soon(b)
	}
}

// next returns the message of a line that is to be delivered now, or nil.
func (b *broker) next(l *line) *message {
	for len(l.ready) > 0 && l.ready[0].over { // an earlier delivery was acknowledged
		l.pop()
	}
	if len(l.ready) == 0 || b.Partitions > 0 && l.out > 0 {
		return nil
	}
	return l.ready[0]
}

// soon has the broker deliver what it can, once what happens now is over: one run that
// fails at once would begin the next within itself.
func (s *sim) soon(b *broker) {
	if !b.offering {
		b.offering = true
		s.at(s.now, evOffer, uint32(b.fleet), 0)
	}
}

// offer delivers what can be delivered to consumers that have room.
func (s *sim) offer(b *broker) {
	if b.Partitions > 0 {
		for range b.lines {
			p := b.turn % len(b.lines)
			b.turn++
			if who := p % len(b.consumers); b.next(&b.lines[p]) != nil && s.hasRoom(b, who) {
				s.deliver(b, who, b.lines[p].pop())
			}
		}
		return
	}
	for full := 0; full < len(b.consumers) && b.next(&b.lines[0]) != nil; b.turn++ {
		who := b.turn % len(b.consumers)
		if !s.hasRoom(b, who) {
			full++
			continue
		}
		full = 0
		s.deliver(b, who, b.lines[0].pop())
	}
}

// lapse is the end of a delivery's visibility, unless it was extended. What goes on with it
// goes on.
func (s *sim) lapse(d *delivery) {
	b := s.fleets[d.fleet].broker
	if until := d.visible(b, s.now); until > s.now {
		s.at(until, evLapse, d.self, d.gen)
		return
	}
	d.lapsed = true
	b.n.Lapsed++
	m := d.message
	if d.lost {
		s.deliveries.put(d.self)
	}
	if m.spot == isOut && m.current == d.self && m.cgen == d.gen {
		s.ready(b, m)
		s.soon(b)
	}
}

// finish is the end of a message: it was acknowledged, or is a dead letter.
func (s *sim) finish(b *broker, m *message, ok bool) {
	m.over = true
	b.move(m, nowhere)
	j := s.jobs.at(m.job)
	s.rec.answered(s, j, ok)
	s.jobs.put(m.job)
	s.messages.put(m.slot)
	for len(b.all) > 0 && b.all[0].over {
		b.all = b.all[1:]
	}
}

// bury makes a message a dead letter.
func (s *sim) bury(b *broker, m *message, why DeadReason) {
	b.n.Dead[why]++
	s.finish(b, m, false)
}

// lag is how old the oldest message is that is not over.
func (b *broker) lag(now clock.Instant) time.Duration {
	if len(b.all) == 0 {
		return 0
	}
	return now.Sub(b.all[0].began)
}

// lags looks how old the messages are that are not over.
func (s *sim) lags() {
	for i := range s.fleets {
		if b := s.fleets[i].broker; b != nil {
			b.n.Oldest = max(b.n.Oldest, b.lag(s.now))
		}
	}
}

// push adds a message to those that can be delivered, the oldest of which is the first.
func (l *line) push(m *message) {
	h := append(l.ready, m)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].seq <= h[i].seq {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	l.ready = h
}

// pop takes the oldest message.
func (l *line) pop() *message {
	h := l.ready
	m, last := h[0], len(h)-1
	h[0], h[last] = h[last], nil
	h = h[:last]
	for i := 0; ; {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(h); k++ {
			if h[k].seq < h[least].seq {
				least = k
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	l.ready = h
	return m
}
