package consumer_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A broken error panics in Unwrap and Is, as one does whose pointer is nil.
type brokenError struct{ err error }

func (b *brokenError) Error() string { return b.err.Error() }
func (b *brokenError) Unwrap() error { return b.err }

type brokenIs struct{ error }

func (brokenIs) Is(error) bool { panic("Is") }

type brokenAs struct{ error }

func (brokenAs) As(any) bool { panic("As") }

type brokenOutcome struct{ error }

func (brokenOutcome) Outcome() policy.Outcome { panic("Outcome") }

// Whatever is wrong with an error, its message comes again and is given up in the end; the
// process goes on.
func TestErrorsThatPanicAreErrors(t *testing.T) {
	for name, err := range map[string]error{
		"Unwrap": (*brokenError)(nil), "Is": brokenIs{errWork}, "As": brokenAs{errWork}, "Outcome": brokenOutcome{errWork},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t, unguarded, consumer.Options{})
				k.work = func(context.Context) error { return err }
				m := order(1)
				for range 2 {
					k.want(k.deliver(m), inbox.Retry, inbox.CauseFailed)
					m = again(m)
				}
				k.want(k.deliver(m), inbox.DeadLetter, inbox.CauseAttemptsExhausted)
				k.letters.only(t)
			})
		})
	}
}

func TestAClassifierThatPanicsEndsNoProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("billing", unguarded, gabion.WithClassify(func(any, error) policy.Outcome { panic("a bug") }))
		s := newShelf()
		c, err := consumer.New(d, idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Letters: s, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		m := order(1)
		for range 2 {
			if got := c.Handle(t.Context(), m, func(context.Context) error { return errWork }); got.Cause != inbox.CauseFailed {
				t.Errorf("%+v", got)
			}
			m = again(m)
		}
		if got := c.Handle(t.Context(), m, func(context.Context) error { return errWork }); got.Cause != inbox.CauseAttemptsExhausted {
			t.Errorf("%+v", got)
		}
		s.only(t)
	})
}

// What ends its process never comes to be classified: that bound is not the classifier's.
func TestAMessageThatKillsItsProcessIsGivenUpWhateverTheClassifierSays(t *testing.T) {
	for _, class := range []policy.Class{policy.ClassClient, policy.ClassBusiness, policy.ClassServer, policy.ClassUndecided} {
		synctest.Test(t, func(t *testing.T) {
			d := gabion.New("billing", unguarded, gabion.WithClassify(func(any, error) policy.Outcome { return policy.Outcome{Class: class} }))
			store := idempotency.NewMemoryStore(0, 0)
			c, err := consumer.New(d, store, consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 3 {
				claim := idempotency.Claim{ID: inbox.RecordID("billing", "order-1"), Owner: [16]byte{byte(n + 1)}, Guarantee: idempotency.GuaranteeReexecute,
					Fingerprint: idempotency.Fingerprint(nil, order(1).Payload), Lease: time.Second, Retention: time.Hour}
				if a, err := store.Begin(t.Context(), claim); err != nil || a.Decision != idempotency.DecisionRun {
					t.Fatal(a.Decision, err)
				}
				time.Sleep(2 * time.Second)
			}
			runs := 0
			got := c.Handle(t.Context(), order(1), func(context.Context) error { runs++; return nil })
			if got.Cause != inbox.CauseAttemptsExhausted || runs != 0 {
				t.Errorf("%v: %+v after %d runs", class, got, runs)
			}
		})
	}
}

func TestDeliveriesWithoutEndWaitNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.work = k.fails
		for _, n := range []int{math.MaxInt, math.MinInt, math.MaxInt32, 1 << 20} {
			m := order(n)
			m.Delivery = n
			if d := k.deliver(m); d.After <= 0 || d.After > 2*time.Minute {
				t.Errorf("delivery %d: %+v", n, d)
			}
		}
		k.letters.err = errors.New("down")
		k.work = func(context.Context) error { return inbox.Reject(errWork) }
		for _, n := range []int{math.MaxInt, math.MinInt} {
			m := order(n)
			m.Delivery = n
			if d := k.deliver(m); d.Cause != inbox.CauseNotPutAway || d.After <= 0 || d.After > 2*time.Minute {
				t.Errorf("delivery %d: %+v", n, d)
			}
		}
	})
}
