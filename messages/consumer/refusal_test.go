package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

var hold = idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeHold, Observer: quiet{}}

// closed returns a dependency whose breaker refuses every call.
func closed(name string) *gabion.Dependency {
	d := gabion.New(name, policy.Policy{})
	b, _ := d.Breaker("")
	b.ForceOpen(0)
	return d
}

func called(ctx context.Context, d *gabion.Dependency, err error) error {
	return d.Run(ctx, func(context.Context) error { return err })
}

// What was done before the refusal would be done again: only the work knows.
func TestUnderHoldWhatWasDoneBeforeARefusalIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: hold}})
		bank, charges := closed("bank"), 0
		k.work = func(ctx context.Context) error {
			charges++
			return called(ctx, bank, nil)
		}
		k.want(k.deliver(order(1)), inbox.DeadLetter, inbox.CauseUnknown)
		k.want(k.deliver(again(order(1))), inbox.DeadLetter, inbox.CauseUnknown)
		if charges != 1 {
			t.Errorf("charged %d times", charges)
		}
	})
}

func TestARefusalDoesNotForgetTheRunsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		bank := closed("bank")
		m, failures := order(1), 0
		for n := range 10 {
			k.work = k.fails
			if n%2 == 1 {
				k.work = func(ctx context.Context) error { return called(ctx, bank, nil) }
			}
			d := k.deliver(m)
			m = again(m)
			if d.Cause == inbox.CauseFailed {
				failures++
			}
			if d.Verb == inbox.DeadLetter {
				if failures != 2 || d.Cause != inbox.CauseAttemptsExhausted || d.Attempt != 3 {
					t.Errorf("after %d failures: %+v", failures, d)
				}
				return
			}
		}
		t.Errorf("a message that failed %d times, with refusals between, is no dead letter", failures)
	})
}

func TestWhichErrorsAreRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, mail := closed("bank"), gabion.New("mail", policy.Policy{})
		refused := called(t.Context(), bank, nil)
		slow := gabion.New("slow", policy.Policy{Timeout: policy.Timeout{Call: time.Minute, Attempt: 30 * time.Second, Margin: 10 * time.Second}})
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := called(hurried, slow, nil)
		if gabion.ReasonOf(late) != policy.DeadlineShort {
			late = &gabion.Error{Dependency: "slow", Reason: policy.DeadlineShort}
		}
		broken := called(t.Context(), mail, errWork)
		for _, c := range []struct {
			name string
			err  error
			want inbox.Cause
		}{
			{"a breaker that is open", refused, inbox.CauseRefused},
			{"the same with a name of the work's", fmt.Errorf("%w: %w", errWork, refused), inbox.CauseRefused},
			{"the same with what was canceled for it", errors.Join(context.Canceled, refused), inbox.CauseRefused},
			{"a refusal, and another call that failed", errors.Join(refused, broken), inbox.CauseFailed},
			{"a call that failed, and a refusal", errors.Join(broken, refused), inbox.CauseFailed},
			{"a refusal beside what is permanent", errors.Join(refused, inbox.Reject(errWork)), inbox.CausePermanent},
			{"a refusal that the work calls a failure", classify.Transient(refused), inbox.CauseFailed},
			{"too little time left for the call", late, inbox.CauseFailed},
			{"an unknown outcome", &gabion.Error{Dependency: "bank", Reason: policy.OutcomeUnknown}, inbox.CauseFailed},
		} {
			k := newDesk(t, unguarded, consumer.Options{})
			k.work = func(context.Context) error { return c.err }
			if d := k.deliver(order(1)); d.Cause != c.want {
				t.Errorf("%s: %s (%v), want %s", c.name, d.Cause, d.Err, c.want)
			}
		}
	})
}

// What one dependency of the work's asks for does not stop messages that do not need it.
func TestARefusalBelowHoldsNoOtherMessageUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := closed("bank")
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		k.work = func(ctx context.Context) error {
			err := called(ctx, bank, nil)
			var e *gabion.Error
			if errors.As(err, &e) {
				e.RetryAfter = time.Minute
			}
			return err
		}
		d := k.deliver(order(1))
		k.want(d, inbox.Retry, inbox.CauseRefused)
		if d.After < time.Minute {
			t.Errorf("it comes again after %v, and the bank asked for a minute", d.After)
		}
		if n, again := k.Room(0); n < 2 {
			t.Errorf("room for %d, again after %v", n, again)
		}
	})
}

// Messages that came late say nothing about whether others can be worked on.
func TestMessagesInAHurryDoNotOpenTheBreaker(t *testing.T) {
	for _, c := range []struct {
		name  string
		left  time.Duration
		pause bool
	}{
		{"5 ms were left", 5 * time.Millisecond, false},
		{"a second was left", time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newDesk(t, policy.Policy{Timeout: policy.Timeout{Attempt: 2 * time.Second, Call: time.Minute}}, consumer.Options{})
			k.work = func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
			for i := range 100 {
				m := order(i)
				m.Headers = m.Headers.WithDeadline(time.Now().Add(c.left))
				k.want(k.deliver(m), inbox.Retry, inbox.CauseFailed)
				if n, _ := k.Room(0); n == 0 {
					if !c.pause {
						t.Errorf("%s: the subscription pauses after %d messages", c.name, i+1)
					}
					return
				}
			}
			if c.pause {
				t.Errorf("%s: the work hangs, and the subscription goes on", c.name)
			}
		})
	}
}
