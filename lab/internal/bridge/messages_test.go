package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// consuming is what becomes of one message in the lab and here.
type consuming struct {
	fact       string
	inbox      sim.Inbox
	work       time.Duration
	fails      time.Duration // the work fails until then
	harm       sim.Harm
	poison     bool
	visibility time.Duration
	heartbeat  bool
}

// came is how often a message was delivered, and how it ended, and when.
type came struct {
	deliveries, runs, busy int64
	end                    string
	after                  time.Duration
}

// silent hears nothing.
type silent struct{}

// Observe implements idempotency.Observer.
func (silent) Observe(context.Context, idempotency.Event) {}

func consumers() policy.Policy {
	return policy.Policy{
		Timeout:  policy.Timeout{Call: 11 * time.Minute, Attempt: 20 * time.Second},
		Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Const(1500 * time.Millisecond), Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Limit: 3},
	}
}

// One message, the same work, the same broker: the lab says of it what package consumer does.
func TestAMessageHasTheSameEndInTheLabAndHere(t *testing.T) {
	const soon, late = 100 * time.Millisecond, 2500 * time.Millisecond
	for _, c := range []consuming{
		{fact: "it is done", inbox: sim.ReexecuteInbox, work: soon},
		{fact: "it fails twice", inbox: sim.ReexecuteInbox, work: soon, fails: 2 * time.Second},
		{fact: "it fails always", inbox: sim.ReexecuteInbox, work: soon, fails: time.Hour},
		{fact: "it fails once under hold", inbox: sim.HoldInbox, work: soon, fails: time.Hour},
		{fact: "it is poison", inbox: sim.ReexecuteInbox, poison: true},
		{fact: "it is permanent poison", inbox: sim.ReexecuteInbox, poison: true, harm: sim.Permanent},
		{fact: "it is permanent poison under hold", inbox: sim.HoldInbox, poison: true, harm: sim.Permanent},
		{fact: "its visibility ends", inbox: sim.ReexecuteInbox, work: late, visibility: time.Second},
		{fact: "its visibility ends and it fails", inbox: sim.ReexecuteInbox, work: late, visibility: time.Second, fails: time.Second},
		{fact: "heartbeats keep it", inbox: sim.ReexecuteInbox, work: late, visibility: time.Second, heartbeat: true},
		{fact: "its time is over", inbox: sim.ReexecuteInbox, work: 25 * time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			c.visibility = cmp.Or(c.visibility, 30*time.Second)
			lab := c.inLab(t)
			synctest.Test(t, func(t *testing.T) {
				here := c.here(t)
				if diff := (lab.after - here.after).Abs(); here.runs == 1 && diff > 20*time.Millisecond+here.after/100 { // else waits were drawn, for another name
					t.Errorf("it ends after %v in the lab, and after %v here", lab.after, here.after)
				}
				lab.after, here.after = 0, 0
				if lab != here {
					t.Errorf("%+v in the lab, and %+v here", lab, here)
				}
			})
		})
	}
}

// inLab plays the message in the lab.
func (c *consuming) inLab(t *testing.T) (got came) {
	rules, err := machine.Compile(consumers())
	if err != nil {
		t.Fatal(err)
	}
	once, err := machine.Compile(policy.Policy{
		Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Retry: policy.Retry{Attempts: 1},
		Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	q := &sim.Queue{Rules: rules, Workers: 3, Visibility: c.visibility, Heartbeat: c.heartbeat, Inbox: c.inbox, Harm: c.harm}
	if c.poison {
		q.Poison = 1
	}
	w := &sim.World{
		Duration: time.Millisecond, Drain: 10 * time.Minute,
		Fleets:   []sim.Fleet{{Clients: 1, Loop: sim.Trace, At: []time.Duration{0}, Queue: q, Plan: sim.Plan{Steps: []sim.Step{{Edge: sim.Edge{Rules: once}}}}}},
		Services: []sim.Service{{Time: draw.Constant(c.work)}},
	}
	if c.fails > 0 {
		w.Faults = []sim.Fault{{Kind: sim.Errors, Status: 503, Late: true, For: c.fails}}
	}
	r := sim.Run(w, 1)
	for _, b := range r.Broken {
		t.Error(b)
	}
	n, f := r.Messages[0], r.Fleets[0]
	got = came{deliveries: n.Deliveries, runs: n.Runs, busy: n.InProgress, end: "ack", after: f.Latency.Quantile(0.5)}
	for why, word := range []string{sim.DeadExhausted: "attempts_exhausted", sim.DeadPermanent: "permanent", sim.DeadUnknown: "outcome_unknown"} {
		if n.Dead[why] > 0 {
			got.end = word
		}
	}
	return got
}

// here plays it with package consumer, and a broker of one message.
func (c *consuming) here(t *testing.T) (got came) {
	guarantee := idempotency.GuaranteeReexecute
	if c.inbox == sim.HoldInbox {
		guarantee = idempotency.GuaranteeHold
	}
	d := gabion.New("billing", consumers())
	in := inbox.Options{Visibility: c.visibility}
	in.Guarantee = guarantee
	in.Observer = silent{} // the store is not durable, and says so
	of, err := consumer.New(d, idempotency.NewMemoryStore(10, 1<<20), consumer.Options{Guarantee: map[bool]consumer.Guarantee{true: consumer.Hold, false: consumer.Reexecute}[guarantee == idempotency.GuaranteeHold], GiveUpAfter: -1, Inbox: in})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	var mu sync.Mutex // guards all below
	var until time.Time
	over, out := false, 0
	work := func(ctx context.Context) error {
		mu.Lock()
		got.runs++
		mu.Unlock()
		if c.poison && c.harm == sim.Permanent {
			return inbox.Reject(errors.New("it will be the same"))
		} else if c.poison {
			return errors.New("unclassified")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(c.work):
		}
		if time.Since(begun) < c.fails {
			return fmt.Errorf("the database: %w", &gabion.Error{Reason: policy.AttemptsExhausted, Attempts: 1, Effect: policy.UnknownEffect})
		}
		return nil
	}
	var running sync.WaitGroup
	var deliver func()
	end := func(word string) {
		if !over {
			over, got.end, got.after = true, word, time.Since(begun)
		}
	}
	deliver = func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		got.deliveries++
		out++
		mine := out
		until = time.Now().Add(c.visibility)
		var lapse func()
		lapse = func() {
			mu.Lock()
			left := time.Until(until)
			again := !over && mine == out
			mu.Unlock()
			switch {
			case again && left > 0:
				time.AfterFunc(left, lapse)
			case again:
				deliver()
			}
		}
		time.AfterFunc(c.visibility, lapse)
		m := consumer.Message{Message: inbox.Message{ID: "m", Delivery: int(got.deliveries)}}
		if c.heartbeat {
			m.Extend = func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				until = time.Now().Add(c.visibility)
				return nil
			}
		}
		running.Go(func() {
			v := of.Handle(t.Context(), m, work)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case v.Verb == inbox.Ack:
				end("ack")
			case v.Verb == inbox.DeadLetter:
				end(string(v.Cause))
			case mine == out:
				if v.Cause == inbox.CauseInProgress {
					got.busy++
				}
				out++ // its visibility is no matter any more
				time.AfterFunc(v.After, deliver)
			}
		})
	}
	deliver()
	<-time.After(5 * time.Minute) // of the bubble
	running.Wait()
	return got
}
