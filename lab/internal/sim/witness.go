package sim

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// DeadReason says why a message is a dead letter.
type DeadReason uint8

// The reasons.
const (
	DeadExhausted  DeadReason = iota // its attempts are over
	DeadPermanent                    // it would fail again
	DeadUnknown                      // what a lost run did is unknown
	DeadDeliveries                   // the broker delivered it too often
	deadReasons
)

// MessageCounts is what happened to the messages of a fleet, in the phase in which it did.
type MessageCounts struct {
	Deliveries int64
	Lapsed     int64 // whose visibility ended first
	Refused    int64 // by the consumers' dependency, without a run
	InProgress int64 // whose message another consumer worked on
	Duplicates int64 // whose message had been done
	Runs       int64 // of the work
	Useful     int64 // that ended and by which a message is done
	Wasted     int64 // that ended otherwise
	Doubled    int64 // effects that had been there
	Lost       int64 // messages that count as done and had no effect
	Disorder   int64 // messages whose effect came after that of a younger one of their partition
	Dead       [deadReasons]int64
	Copies     int64         // of one message, worked on at once: the most
	Oldest     time.Duration // how old a message was that was not over: the most
}

func (n *MessageCounts) add(o *MessageCounts) {
	n.Deliveries, n.Lapsed, n.Refused = n.Deliveries+o.Deliveries, n.Lapsed+o.Lapsed, n.Refused+o.Refused
	n.InProgress, n.Duplicates = n.InProgress+o.InProgress, n.Duplicates+o.Duplicates
	n.Runs, n.Useful, n.Wasted = n.Runs+o.Runs, n.Useful+o.Useful, n.Wasted+o.Wasted
	n.Doubled, n.Lost, n.Disorder = n.Doubled+o.Doubled, n.Lost+o.Lost, n.Disorder+o.Disorder
	for i, k := range o.Dead {
		n.Dead[i] += k
	}
	n.Copies, n.Oldest = max(n.Copies, o.Copies), max(n.Oldest, o.Oldest)
}

// DeadLetters is how many messages became dead letters.
func (n *MessageCounts) DeadLetters() (all int64) {
	for _, k := range n.Dead {
		all += k
	}
	return all
}

// witness counts what the services did for a message, whatever its consumers know of it.
type witness struct {
	effects map[uint32]int // by step, and which of its calls
	some    bool
}

// messageCall is what a call that the work of a message made has beside others.
type messageCall struct {
	message *message
	part    uint32         // which call of the work it is
	last    policy.Outcome // of its attempts
}

// part names a call of a plan for the witness.
func part(step, k int) uint32 { return uint32(step)<<16 | uint32(k) }

// saw is an effect that the work of a message had, and returns how often it had it.
func (s *sim) saw(m *message, part uint32) (times int) {
	b := s.fleets[m.fleet].broker
	if m.effects == nil {
		m.effects = map[uint32]int{}
	}
	m.effects[part]++
	if times = m.effects[part]; times > 1 {
		b.n.Doubled++
	}
	first := !m.some
	m.some = true
	if !first || b.Partitions == 0 {
		return times
	}
	if l := &b.lines[m.line]; m.seq < l.high {
		b.n.Disorder++
	} else {
		l.high = m.seq
	}
	return times
}

// unfelt reports whether a message that was acknowledged lacks an effect of its work.
func (s *sim) unfelt(b *broker, m *message) bool {
	steps := s.fleets[b.fleet].plan.Steps
	for i := range steps {
		if p := &steps[i]; (p.Chance <= 0 || p.Chance >= 1) && p.Quorum == 0 {
			for k := range max(p.Fan, 1) {
				if m.effects[part(i, k)] == 0 {
					return true
				}
			}
		}
	}
	return false
}
