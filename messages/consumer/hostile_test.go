package consumer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

func TestAnObserverThatPanicsTakesNothingFromTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("billing", policy.Policy{}, gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("a bug") })))
		c, err := consumer.New(d, idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if got := c.Handle(t.Context(), order(n), func(context.Context) error { return nil }); got.Cause != inbox.CauseDone {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A clumsy store of letters panics.
type clumsy struct{ *shelf }

func (clumsy) Fail(context.Context, deadletter.ID, deadletter.Failure) error { panic("a bug") }
func (clumsy) Forget(context.Context, deadletter.ID) error                   { panic("a bug") }
func (clumsy) Put(context.Context, deadletter.Letter) error                  { panic("a bug") }

func TestAStoreOfLettersThatPanicsIsOneThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		c, err := consumer.New(k.d, idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Letters: clumsy{k.letters}, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		k.Consumer = c
		k.work = k.fails
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseFailed)
		k.work = func(context.Context) error { return nil }
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDone)
		k.work = func(context.Context) error { return inbox.Reject(errWork) }
		k.want(k.deliver(order(2)), inbox.Retry, inbox.CauseNotPutAway)
	})
}

func TestPoliciesWithEverythingOff(t *testing.T) {
	for name, p := range map[string]policy.Policy{
		"no breaker":   {Breaker: policy.Breaker{Off: true}},
		"no bulkhead":  {Bulkhead: policy.Bulkhead{Off: true}},
		"one attempt":  {Retry: policy.Retry{Attempts: 1}},
		"no budget":    {Retry: policy.Retry{Budget: policy.Budget{Off: true}}},
		"no timeouts":  {Timeout: policy.Timeout{Call: -1, Attempt: -1}},
		"nothing said": {},
	} {
		if p.Validate() != nil {
			t.Logf("%s is no policy: %v", name, p.Validate())
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t, p, consumer.Options{})
			for n := range 50 {
				k.want(k.deliver(order(n)), inbox.Ack, inbox.CauseDone)
			}
			if n, _ := k.Room(1); n < 1 {
				t.Errorf("%s: room for %d", name, n)
			}
			k.work = k.fails
			m := order(100)
			for range 30 {
				d := k.deliver(m)
				m = again(m)
				if d.Verb == inbox.DeadLetter {
					return
				}
				if d.Verb != inbox.Retry || d.After <= 0 {
					t.Fatalf("%s: %+v", name, d)
				}
				time.Sleep(d.After)
			}
			t.Errorf("%s: poison is no dead letter after 30 deliveries", name)
		})
	}
}

// A call's attempt may take longer than its timeout where attempts are cut off in series
// (ADR 92). A message's does not: the next delivery is its next attempt.
func TestEachRunOfAMessageHasTheAttemptsTimeout(t *testing.T) {
	preset, _ := policy.Preset("message-queue")
	for name, p := range map[string]policy.Policy{"a timeout that is written": patient(4), "the preset": preset} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p.Breaker, p.Retry.Budget = policy.Breaker{Off: true}, policy.Budget{Off: true}
				k := newDesk(t, p, consumer.Options{Lend: 100})
				late := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				for i, work := range []func(context.Context) error{late, hang(t)} {
					for n := range 30 {
						begun := time.Now()
						k.Handle(k.Context(), order(100*i+n), work) // not deliver, whose count runs that are left would race for
						if took := time.Since(begun); took > p.Timeout.Attempt+5*time.Second {
							t.Errorf("message %d took %v", n, took)
						}
					}
				}
			})
		})
	}
}
