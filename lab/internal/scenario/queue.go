package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// consumes is the name of the consumers' policy, if any.
func (f *namedFleet) consumes() string {
	if !f.queued || f.Queue.Plain {
		return ""
	}
	return cmp.Or(f.Queue.Policy, f.name)
}

// queue checks a fleet that is behind a broker.
func (r *reader) queue(it item, f *namedFleet) {
	if f.queued = it.has("queue"); !f.queued {
		return
	}
	q := &f.Queue
	if !it.has("queue.workers") {
		it.fail("queue", "queue.workers is missing", "write queue: {workers: 10}")
	}
	if sim.Loop(f.Loop) == sim.Closed {
		it.fail("queue", "queue means nothing in a closed loop", "write a rate")
	}
	it.never("for consumers", "session", "shared")
	if q.Plain {
		it.never("for plain consumers", "queue.policy", "queue.inbox")
	} else if r.file.rival == "" {
		it.never("where no consumer is plain", "queue.prefetch", "queue.requeue")
	}
	if q.Partitions == 0 {
		it.never("without partitions", "queue.skip")
	}
	if sim.Inbox(q.Inbox) == sim.NoInbox {
		it.never("without an inbox", "queue.give_up_after")
	}
	if q.Poison == 0 {
		it.never("without poison", "queue.poison_does")
	}
}

// restarts checks how many of a fleet restart.
func (it item) restarts(f *namedFault, of *namedFleet) {
	if f.Replicas > of.Count {
		it.fail("replicas", fmt.Sprintf("there are %d of %s, not %d", of.Count, of.name, f.Replicas), "write at most as many")
	}
}

// queue is a fleet's broker; nil if it has none. A side without gabion consumes without it.
func (l *lowering) queue(f *namedFleet) *sim.Queue {
	if !f.queued {
		return nil
	}
	q := &f.Queue
	made := &sim.Queue{
		Workers: int(q.Workers), Prefetch: int(q.Prefetch), Visibility: time.Duration(q.Visibility), Heartbeat: q.Heartbeat,
		Inbox: sim.Inbox(q.Inbox), GiveUp: time.Duration(q.GiveUpAfter), Deliveries: int(q.MaxDeliveries), Requeue: time.Duration(q.Requeue), LostAcks: float64(q.LostAcks),
		Partitions: int(q.Partitions), Skip: q.Skip, Poison: float64(q.Poison), Harm: sim.Harm(q.PoisonDoes),
	}
	if name := f.consumes(); name != "" {
		made.Rules = l.rulesOf(name)
		if l.side.Rival != "" {
			made.Rules, made.Heartbeat, made.Inbox = nil, false, sim.NoInbox
		}
	}
	return made
}

// defsOfQueue returns the metrics of the messages of a fleet.
func defsOfQueue(i int, name string) []def {
	of := func(f func(n *sim.MessageCounts) float64) func(m *measured) float64 {
		return func(m *measured) float64 { return f(&m.Messages[i]) }
	}
	return []def{
		{"deliveries", name, "deliveries for each message of " + name, Ratio, false, func(m *measured) float64 { return div(m.Messages[i].Deliveries, m.Fleets[i].Offered) }},
		{"refusals", name, "deliveries for each message of " + name + " that the policy did not admit", Ratio, false, func(m *measured) float64 { return div(m.Messages[i].Refused, m.Fleets[i].Offered) }},
		{"wasted_runs", name, "runs for " + name + " that came to nothing", Share, false, of(func(n *sim.MessageCounts) float64 { return div(n.Wasted, n.Useful+n.Wasted) })},
		{"copies", name, "most runs at once of one message of " + name, Count, false, of(func(n *sim.MessageCounts) float64 { return float64(n.Copies) })},
		{"doubled", name, "effects of messages of " + name + " that were there", Count, false, of(func(n *sim.MessageCounts) float64 { return float64(n.Doubled) })},
		{"lost", name, "messages of " + name + " that are done without an effect", Count, false, of(func(n *sim.MessageCounts) float64 { return float64(n.Lost) })},
		{"disorder", name, "messages of " + name + " done after a younger one", Count, false, of(func(n *sim.MessageCounts) float64 { return float64(n.Disorder) })},
		{"dead_letters", name, "dead letters of " + name, Count, false, of(func(n *sim.MessageCounts) float64 { return float64(n.DeadLetters()) })},
		{"lag", name, "age of the oldest message of " + name, Seconds, false, of(func(n *sim.MessageCounts) float64 { return n.Oldest.Seconds() })},
	}
}

// defsOfEffects returns the metrics of the messages of all fleets, by which sides are judged.
func (f *File) defsOfEffects() []def {
	if !slices.ContainsFunc(f.fleets, func(c namedFleet) bool { return c.queued }) {
		return nil
	}
	of := func(count func(n *sim.MessageCounts) int64) func(m *measured) float64 {
		return func(m *measured) float64 {
			n, offered := int64(0), int64(0)
			for i := range f.fleets {
				if f.fleets[i].queued {
					n, offered = n+count(&m.Messages[i]), offered+m.Fleets[i].Offered
				}
			}
			return div(n, offered)
		}
	}
	return []def{
		{"doubled_share", "", "effects of messages that were there, to messages", Share, false, of(func(n *sim.MessageCounts) int64 { return n.Doubled })},
		{"lost_share", "", "messages that are done without an effect, of all", Share, false, of(func(n *sim.MessageCounts) int64 { return n.Lost })},
	}
}

// ofBrokers are the assumptions about brokers.
var ofBrokers = []string{
	"A broker and an inbox answer at once and are never down. An acknowledgement counts also when its delivery's visibility has ended.",
	"A consumer's process that ends is there again at once. What it worked on comes again when its visibility ends.",
}
