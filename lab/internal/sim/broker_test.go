package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// queue is a broker with anything that there is.
func (d *dice) queue() *Queue {
	q := &Queue{
		Workers: 1 + d.N(5), Prefetch: d.N(5), Visibility: 50*ms + d.upTo(time.Second), Heartbeat: d.Yes(0.3), Inbox: Inbox(d.N(3)),
		Deliveries: one(d, 0, 3), Requeue: one(d, 0, 10*ms), Partitions: one(d, 0, 1, 4), Skip: d.Yes(0.3), LostAcks: one(d, 0, 0.1), Poison: one(d, 0, 0.05), Harm: Harm(d.N(3)),
	}
	if d.Yes(0.7) {
		q.Rules = d.rules()
	}
	return q
}

// withQueues runs a random world whose fleets are behind brokers.
func withQueues(t testing.TB, seed uint64) *Result {
	d := &dice{TB: t, Stream: draw.New(seed, 2, 1)}
	w := d.world()
	w.Drain = time.Second
	for i := range w.Fleets {
		if f := &w.Fleets[i]; f.Loop != Closed {
			f.Queue, f.Session, f.Shared = d.queue(), 0, 0
			for k := range f.Plan.Steps {
				f.Plan.Steps[k].Edge.Cache = nil // what is looked up has no effect
			}
		}
	}
	for range d.N(3) {
		w.Faults = append(w.Faults, Fault{Kind: ClientRestart, Fleet: d.N(len(w.Fleets)), At: d.upTo(w.Duration), Replicas: d.N(3), Period: one(d, 0, 500*ms)})
	}
	r := Run(w, seed)
	for _, b := range r.Broken {
		t.Errorf("world %d: %s", seed, b)
	}
	if again := Run(w, seed); again.Hash != r.Hash {
		t.Errorf("world %d: the same seed gave another run", seed)
	}
	return r
}

func TestNoMessageIsLostInRandomWorlds(t *testing.T) {
	all := MessageCounts{}
	for seed := range uint64(24) {
		r := withQueues(t, seed)
		for i := range r.Messages {
			all.add(&r.Messages[i])
		}
	}
	t.Logf("%+v", all)
	if all.Lost != 0 {
		t.Errorf("%d messages count as done and had no effect", all.Lost)
	}
	for what, n := range map[string]int64{
		"lapsed": all.Lapsed, "refused": all.Refused, "in progress": all.InProgress, "duplicates": all.Duplicates, "doubled": all.Doubled,
		"exhausted": all.Dead[DeadExhausted], "permanent": all.Dead[DeadPermanent], "unknown": all.Dead[DeadUnknown], "deliveries": all.Dead[DeadDeliveries],
	} {
		if n == 0 {
			t.Errorf("the worlds are too quiet to show anything %s", what)
		}
	}
}

func FuzzQueues(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { withQueues(t, seed) })
}

// consumed is a world of two consumers of two workers each, and messages at equal distances.
func consumed(t testing.TB, q Queue, work draw.Dist, faults ...Fault) *World {
	bare := policy.Policy{Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}}
	q.Workers = 2
	return &World{
		Duration: time.Minute, Drain: time.Minute,
		Fleets:   []Fleet{{Clients: 2, Load: Steady(2), Even: true, Queue: &q, Plan: Plan{Steps: []Step{{Edge: Edge{Rules: rules(t, bare)}}}}}},
		Services: []Service{{Time: work}}, Faults: faults,
	}
}

// billing is a policy of consumers.
func billing(t testing.TB, change ...func(*policy.Policy)) *machine.Rules {
	p := policy.Policy{
		Timeout:  policy.Timeout{Call: 11 * time.Minute, Attempt: 40 * time.Second},
		Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Const(time.Second)},
		Bulkhead: policy.Bulkhead{Limit: 2},
	}
	for _, f := range change {
		f(&p)
	}
	return rules(t, p)
}

func b2i(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// What becomes of 119 messages whose work takes longer than their visibility, or that meet
// something else, as far as it is certain.
func TestWhatBecomesOfMessages(t *testing.T) {
	const n = 119
	slow, quick := draw.Constant(1500*ms), draw.Constant(100*ms)
	down := Fault{Kind: Errors, Status: 503, At: 0, For: time.Hour}
	hard := func(p *policy.Policy) { p.Breaker.Off = true; p.Retry.Budget.Off = true }
	restart := Fault{Kind: ClientRestart, At: 10050 * ms}
	for _, c := range []struct {
		fact  string
		world *World
		want  MessageCounts // what is not zero in it
		none  func(m *MessageCounts) int64
	}{
		{"what is quick is done once", consumed(t, Queue{}, quick), MessageCounts{Deliveries: n, Runs: n, Useful: n, Copies: 1}, func(m *MessageCounts) int64 { return m.Doubled + m.Lapsed }},
		{"what is slow is delivered again and done twice", consumed(t, Queue{Visibility: time.Second}, slow), MessageCounts{Copies: 2, Useful: n}, func(m *MessageCounts) int64 { return m.Lost }},
		{"heartbeats keep it", consumed(t, Queue{Visibility: time.Second, Heartbeat: true, Rules: billing(t)}, slow), MessageCounts{Deliveries: n, Runs: n, Useful: n, Copies: 1}, func(m *MessageCounts) int64 { return m.Doubled + m.Lapsed }},
		{"the inbox doesn't, and nothing is done twice", consumed(t, Queue{Visibility: time.Second, Inbox: ReexecuteInbox, Rules: billing(t, hard)}, slow), MessageCounts{Runs: n, Useful: n, Copies: 1}, func(m *MessageCounts) int64 { return m.Doubled }},
		{"the broker gives up", consumed(t, Queue{Deliveries: 5}, quick, down), MessageCounts{Deliveries: 5 * n, Runs: 5 * n, Dead: [deadReasons]int64{DeadDeliveries: n}}, func(m *MessageCounts) int64 { return m.Useful }},
		{"the policy gives up", consumed(t, Queue{Inbox: ReexecuteInbox, Rules: billing(t, hard)}, quick, down), MessageCounts{Deliveries: 4 * n, Runs: 4 * n, Dead: [deadReasons]int64{DeadExhausted: n}}, func(m *MessageCounts) int64 { return m.Useful }},
		{"under hold a failure is the end", consumed(t, Queue{Inbox: HoldInbox, Rules: billing(t, hard)}, quick, down), MessageCounts{Runs: n, Dead: [deadReasons]int64{DeadUnknown: n}}, func(m *MessageCounts) int64 { return m.Useful }},
		{"a permanent error too", consumed(t, Queue{Inbox: ReexecuteInbox, Rules: billing(t), Poison: 1, Harm: Permanent}, quick), MessageCounts{Runs: n, Dead: [deadReasons]int64{DeadPermanent: n}}, func(m *MessageCounts) int64 { return m.Useful }},
		{"a lost run is repeated once its lease is over", consumed(t, Queue{Inbox: ReexecuteInbox, Rules: billing(t)}, quick, restart), MessageCounts{Deliveries: n + 1, Runs: n + 1, Doubled: 1, Useful: n}, (*MessageCounts).DeadLetters},
		{"under hold it is not", consumed(t, Queue{Inbox: HoldInbox, Rules: billing(t)}, quick, restart), MessageCounts{Runs: n, Dead: [deadReasons]int64{DeadUnknown: 1}}, func(m *MessageCounts) int64 { return m.Doubled }},
		{"a lost acknowledgement doubles", consumed(t, Queue{LostAcks: 0.2, Visibility: time.Second}, quick), MessageCounts{Useful: n}, func(m *MessageCounts) int64 { return b2i(m.Doubled < 10) }},
		{"and not with an inbox", consumed(t, Queue{LostAcks: 0.2, Visibility: time.Second, Inbox: ReexecuteInbox, Rules: billing(t, hard)}, quick), MessageCounts{Runs: n}, func(m *MessageCounts) int64 { return b2i(m.Duplicates < 10) + m.Doubled }},
		{"partitions keep their order", consumed(t, Queue{Partitions: 4}, quick), MessageCounts{Useful: n}, func(m *MessageCounts) int64 { return m.Disorder }},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := Run(c.world, 1)
			m := r.Messages[0]
			for _, b := range r.Broken {
				t.Error(b)
			}
			for what, v := range map[string][2]int64{
				"deliveries": {m.Deliveries, c.want.Deliveries}, "runs": {m.Runs, c.want.Runs}, "useful": {m.Useful, c.want.Useful}, "copies": {m.Copies, c.want.Copies},
				"doubled": {m.Doubled, c.want.Doubled}, "dead letters": {m.DeadLetters(), c.want.DeadLetters()},
			} {
				if v[1] != 0 && v[0] != v[1] {
					t.Errorf("%d %s, want %d", v[0], what, v[1])
				}
			}
			if c.want.DeadLetters() != 0 && m.Dead != c.want.Dead {
				t.Errorf("dead letters %v, want %v", m.Dead, c.want.Dead)
			}
			if c.none(&m) != 0 || t.Failed() {
				t.Errorf("%+v", m)
			}
		})
	}
}
