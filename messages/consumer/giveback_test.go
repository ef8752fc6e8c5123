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

// A message that was handled is not kept from others any more, and the context of its work has
// ended.
func TestAMessageThatWasHandledIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: reexecute, Visibility: 3 * time.Second}})
		extended := 0
		m := order(1)
		m.Extend = func(context.Context) error { extended++; return nil }
		var seen context.Context
		k.work = func(ctx context.Context) error { seen = ctx; return nil }
		k.want(k.deliver(m), inbox.Ack, inbox.CauseDone)
		if seen.Err() == nil {
			t.Error("the context of the work goes on")
		}
		if time.Sleep(10 * time.Minute); extended != 0 {
			t.Errorf("it was extended %d times after it was handled", extended)
		}
	})
}

// watchedShelf looks at each letter as it is put.
type watchedShelf struct {
	*shelf
	put func(context.Context)
}

func (s *watchedShelf) Put(ctx context.Context, l deadletter.Letter) error {
	s.put(ctx)
	return s.shelf.Put(ctx, l)
}

// Putting a letter away is no part of the work: it holds no slot.
func TestALetterIsPutAwayWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("billing", unguarded)
		var seen context.Context
		letters := &watchedShelf{newShelf(), func(ctx context.Context) {
			seen = ctx
			if n := d.Stats().Bulkhead.InUse; n != 0 {
				t.Errorf("%d slots are in use", n)
			}
		}}
		c, err := consumer.New(d, idempotency.NewMemoryStore(0, 0), consumer.Options{Letters: letters, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Handle(t.Context(), order(1), func(context.Context) error { return inbox.Reject(errWork) }); got.Verb != inbox.DeadLetter || seen == nil {
			t.Fatalf("%+v", got)
		}
		if seen.Err() == nil {
			t.Error("the context for the letter goes on")
		}
	})
}

// crashing is a store that panics.
type crashing struct{ idempotency.Store }

func (crashing) Begin(context.Context, idempotency.Claim) (idempotency.Answer, error) {
	panic("a bug of the store")
}

func TestAStoreThatPanicsCostsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("billing", unguarded)
		c, err := consumer.New(d, crashing{idempotency.NewMemoryStore(0, 0)}, consumer.Options{Letters: newShelf(), Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }()
			c.Handle(t.Context(), order(1), func(context.Context) error { return nil })
		}()
		if n := d.Stats().Bulkhead.InUse; n != 0 {
			t.Errorf("%d slots are in use", n)
		}
	})
}

// A duplicate that came again has no need of its work, and gets back what it paid for.
func TestADuplicateGivesBackItsCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, budgeted(policy.BudgetWindow), consumer.Options{})
		k.want(k.deliver(order(1)), inbox.Ack, inbox.CauseDone)
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDuplicate)
		if got := k.d.Stats().Budget.Sent; got != 0 {
			t.Errorf("%d re-sends are charged", got)
		}
	})
}
