package consumer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// budgeted is unguarded with a budget of that shape.
func budgeted(shape policy.BudgetShape) policy.Policy {
	p := unguarded
	p.Retry.Budget = policy.Budget{Shape: shape}
	return p
}

// After a rebalance a broker delivers again what was done already. No work runs, so the
// budget for retries has nothing to pay for.
func TestDuplicatesCostNothingOfTheBudget(t *testing.T) {
	for _, shape := range []policy.BudgetShape{policy.BudgetEarned, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetQuota, policy.BudgetShare, policy.BudgetGRPC} {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t, budgeted(shape), consumer.Options{})
			const many = 300
			for n := range many {
				k.want(k.deliver(order(n)), inbox.Ack, inbox.CauseDone)
			}
			acked := 0
			for n := range many {
				if d := k.deliver(again(order(n))); d.Cause == inbox.CauseDuplicate {
					acked++
				}
			}
			if acked != many {
				t.Errorf("%v: of %d duplicates %d were acknowledged", shape, many, acked)
			}
		})
	}
}

// An outage has spent the budget, and nothing is new: duplicates need none of it.
func TestDuplicatesAreAcknowledgedWhereTheBudgetIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, budgeted(policy.BudgetEarned), consumer.Options{})
		const many = 100
		for n := range many {
			k.want(k.deliver(order(n)), inbox.Ack, inbox.CauseDone)
		}
		k.work = k.fails
		spent := false
		for n := many; n < 2*many; n++ {
			k.deliver(order(n))
			spent = k.deliver(again(order(n))).Cause == inbox.CauseRefused || spent
		}
		if !spent {
			t.Fatal("the outage did not spend the budget")
		}
		time.Sleep(2 * time.Second)
		acked := 0
		for n := range many {
			if d := k.deliver(again(order(n))); d.Cause == inbox.CauseDuplicate {
				acked++
			}
		}
		if acked != many {
			t.Errorf("of %d duplicates %d were acknowledged", many, acked)
		}
	})
}

// Work that runs and fails is paid for all the same.
func TestRepeatsThatRunAndFailAreStillPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, budgeted(policy.BudgetEarned), consumer.Options{})
		k.work = k.fails
		runs := 0
		for n := range 1000 {
			if k.deliver(again(order(n))).Cause == inbox.CauseFailed {
				runs++
			}
		}
		if runs > 200 {
			t.Errorf("%d of 1000 failing repeats ran", runs)
		}
	})
}

// A copy of a message that is worked on elsewhere runs nothing.
func TestCopiesOfAMessageCostNothingOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := budgeted(policy.BudgetEarned)
		p.Timeout = policy.Timeout{Call: time.Hour, Attempt: time.Hour}
		k := newDesk(t, p, consumer.Options{})
		done := make(chan struct{})
		go k.Handle(t.Context(), order(1), func(context.Context) error {
			<-done
			return nil
		})
		synctest.Wait()
		for range 1000 {
			if d := k.deliver(again(order(1))); d.Cause != inbox.CauseInProgress {
				t.Errorf("%+v", d)
				break
			}
		}
		close(done)
	})
}

// forgetful does not forget: its process ended between the work's end and that, or it was
// down.
type forgetful struct {
	*shelf
	down bool
}

func (f *forgetful) Forget(ctx context.Context, id deadletter.ID) error {
	if f.down {
		return errors.New("down")
	}
	return f.shelf.Forget(ctx, id)
}

func TestWhatWasNotForgottenIsForgottenWithTheDuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		f := &forgetful{shelf: k.letters, down: true}
		c, err := consumer.New(k.d, idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Letters: f, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		k.Consumer = c
		k.work = k.fails
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseFailed)
		k.work = func(context.Context) error { return nil }
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDone)
		f.down = false
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDuplicate)
		if n := len(k.letters.failures); n != 0 {
			t.Errorf("%d messages have failures, and all are done", n)
		}
	})
}
