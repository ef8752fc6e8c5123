package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// orderAll orders every letter, and runs the redrive for that long.
func (k *desk) redrive(lasts time.Duration) {
	k.Helper()
	k.letters.with(func() {
		for id, l := range k.letters.letters {
			k.letters.ordered = append(k.letters.ordered, deadletter.Lease{Letter: l, Token: 1})
			delete(k.letters.letters, id)
		}
	})
	ctx, cancel := context.WithTimeout(k.Context(), lasts)
	defer cancel()
	err := k.Redrive(ctx, k.letters, func(ctx context.Context) error {
		k.runs++
		return k.work(ctx)
	}, consumer.Redrive{Workers: 1})
	if !errors.Is(err, context.DeadlineExceeded) {
		k.Error(err)
	}
}

func (k *desk) wantVerdicts(want ...deadletter.Verdict) {
	k.Helper()
	if len(k.letters.verdicts) != len(want) {
		k.Fatalf("%d verdicts: %.200s", len(k.letters.verdicts), fmt.Sprintf("%+v", k.letters.verdicts))
	}
	for i, v := range k.letters.verdicts {
		if v.State != want[i].State || v.Reason != want[i].Reason || (v.Failure != nil) != (want[i].Reason != "") {
			k.Errorf("verdict %d: %+v, want %+v", i, v, want[i])
		}
	}
}

func (k *desk) die(n int) {
	k.work = func(context.Context) error { return inbox.Reject(errWork) }
	k.want(k.deliver(order(n)), inbox.DeadLetter, inbox.CausePermanent)
}

func TestALetterIsRedrivenWithItsOwnKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.die(1)
		var key, payload string
		k.work = func(ctx context.Context) error {
			key, payload = consumer.MessageFrom(ctx).ID, string(consumer.MessageFrom(ctx).Payload)
			return nil
		}
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Done})
		if key != "order-1" || payload != "10 €" {
			t.Errorf("%s: %s", key, payload)
		}
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDuplicate)
	})
}

func TestALetterThatFailsAgainWaitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.die(1)
		k.work = k.fails
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting, Reason: "permanent"})
		if len(k.letters.letters)+len(k.letters.failures) != 0 {
			t.Error("it was put away a second time beside its verdict")
		}
	})
}

func TestNoLetterIsTakenWhileTheBreakerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		k.die(1)
		b, _ := k.d.Breaker("")
		b.ForceOpen(0)
		runs := k.runs
		k.redrive(time.Minute)
		if k.runs != runs || len(k.letters.verdicts) != 0 || len(k.letters.ordered) != 1 {
			t.Errorf("%d runs, %+v", k.runs-runs, k.letters.verdicts)
		}
	})
}

func TestAnUnknownOutcomeIsRunAgainOnceResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeHold, Observer: quiet{}}}})
		k.work = k.fails
		k.want(k.deliver(order(1)), inbox.DeadLetter, inbox.CauseUnknown)
		k.work = func(context.Context) error { return nil }
		runs := k.runs
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting, Reason: "outcome_unknown"})
		if k.runs != runs {
			t.Error("it ran, though its outcome is unknown")
		}

		l := deadletter.Letter{Group: "billing", Key: "order-1", Payload: []byte("10 €"), Reason: deadletter.Unknown, Resolved: deadletter.ResolvedAsFailed}
		k.letters.ordered, k.letters.verdicts = []deadletter.Lease{{Letter: l}}, nil
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Done})
		if k.runs != runs+1 {
			t.Errorf("it ran %d times", k.runs-runs)
		}
	})
}

// The outcome of work that failed without an effect is known: an operator need not resolve it again.
func TestAResolvedLetterThatFailsForCertainIsUnknownNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeHold, Observer: quiet{}}}})
		k.work = k.fails
		k.want(k.deliver(order(1)), inbox.DeadLetter, inbox.CauseUnknown)
		k.work = func(ctx context.Context) error {
			idempotency.NoEffect(ctx)
			return k.fails(ctx)
		}
		l := deadletter.Letter{Group: "billing", Key: "order-1", Payload: []byte("10 €"), Reason: deadletter.Unknown, Resolved: deadletter.ResolvedAsFailed}
		clear(k.letters.letters)
		k.letters.ordered = []deadletter.Lease{{Letter: l}}
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting, Reason: "failed"})
	})
}

func TestAnExpiredLetterIsRunByWhoOrdersIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		m := order(1)
		m.Headers = m.Headers.WithDeadline(time.Now().Add(-time.Hour))
		k.want(k.deliver(m), inbox.DeadLetter, inbox.CauseExpired)
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Done})
	})
}

func TestARedriveThatIsStoppedMidwayGivesTheLetterBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Timeout = policy.Timeout{Call: time.Hour, Attempt: time.Hour}
		k := newDesk(t, p, consumer.Options{})
		k.die(1)
		k.work = func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond) // Redrive waits for it
			return ctx.Err()
		}
		k.redrive(2 * time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting})
		if k.letters.extended < 8 {
			t.Errorf("the letter's lease was prolonged %d times in 2 min", k.letters.extended)
		}
	})
}

// onHold orders a letter whose outcome was unknown after that many runs.
func (k *desk) onHold(runs int) {
	k.letters.ordered = []deadletter.Lease{{Token: 1, Letter: deadletter.Letter{
		Group: "billing", Key: "order-1", Payload: []byte("10 €"), Reason: deadletter.Unknown, Resolved: deadletter.ResolvedAsFailed, Attempts: runs,
	}}}
	k.letters.verdicts = nil
	clear(k.letters.letters)
}

func TestAResolvedLetterRunsWhereThePolicyHasOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Retry.Attempts = 1
		k := newDesk(t, p, consumer.Options{Inbox: inbox.Options{RunnerConfig: hold}})
		k.work = k.fails
		k.want(k.deliver(order(1)), inbox.DeadLetter, inbox.CauseUnknown)
		k.onHold(1)
		k.work = func(context.Context) error { return nil }
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Done})
	})
}

// deaf does not learn of the ends of runs.
type deaf struct{ idempotency.Store }

func (s deaf) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	if c.State == idempotency.StateDone || c.State == idempotency.StateUnknown {
		return idempotency.ErrLeaseLost
	}
	return s.Store.Apply(ctx, ref, c)
}

func TestAResolvedLetterWhoseRunIsNotOnRecordIsUnresolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		c, err := consumer.New(k.d, deaf{idempotency.NewMemoryStore(0, 0)}, consumer.Options{Guarantee: consumer.Hold, GiveUpAfter: -1, Letters: k.letters, Inbox: inbox.Options{RunnerConfig: hold}})
		if err != nil {
			t.Fatal(err)
		}
		k.Consumer = c
		k.onHold(1)
		k.redrive(time.Hour)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting, Reason: "outcome_unknown"})
		if k.runs != 1 {
			t.Errorf("it ran %d times", k.runs)
		}
	})
}

func TestALetterIsNotGivenUpForItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: reexecute, DropExpired: true}})
		m := order(1)
		m.Headers = m.Headers.WithDeadline(time.Now().Add(time.Hour))
		k.work = func(context.Context) error { return inbox.Reject(errWork) }
		k.want(k.deliver(m), inbox.DeadLetter, inbox.CausePermanent)
		time.Sleep(2 * time.Hour)
		k.work, k.runs = func(context.Context) error { return nil }, 0
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Done})
		if k.runs != 1 {
			t.Errorf("it is done after %d runs", k.runs)
		}
	})
}

func TestALetterThatIsRefusedIsNotTakenAtOnceAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.die(1)
		bank := closed("bank")
		k.work, k.runs = func(ctx context.Context) error { return called(ctx, bank, nil) }, 0
		k.redrive(time.Minute)
		if k.runs < 10 || k.runs > 70 || len(k.letters.ordered) != 1 {
			t.Errorf("it was taken %d times in a minute", k.runs)
		}
	})
}

// mismatch is no error of the work, and so no success either.
func TestAFailureWithoutAnErrorHasNoClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.want(k.deliver(order(1)), inbox.Ack, inbox.CauseDone)
		other := order(1)
		other.Payload = []byte("20 €")
		k.want(k.deliver(other), inbox.DeadLetter, inbox.CauseMismatch)
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting, Reason: "mismatch"})
		if f := k.letters.verdicts[0].Failure; f.Class != "" {
			t.Errorf("%+v", f)
		}
	})
}

type nothing struct{ text string }

func (n *nothing) Error() string { return n.text }

func TestAnErrorWhoseTextPanicsIsWrittenDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.work = func(context.Context) error { return (*nothing)(nil) }
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseFailed)
		if len(k.letters.failures) != 1 {
			t.Errorf("%d messages have failures", len(k.letters.failures))
		}
	})
}

// A rate that the store and the slots allow is reached: no letter waits for a clock's tick.
func TestARedriveKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letters, err := deadletter.NewMemory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2000 {
			m := order(n)
			l := deadletter.Letter{ID: deadletter.LetterID("billing", m.ID, m.Payload), Group: "billing", Key: m.ID, Payload: m.Payload, Reason: "permanent", Last: time.Now()}
			if err := letters.Put(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		d, err := letters.Order(t.Context(), deadletter.Query{Group: "billing"}, deadletter.Drive{Rate: 1000})
		if err != nil {
			t.Fatal(err)
		}
		k := newDesk(t, unguarded, consumer.Options{Group: "billing"})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_ = k.Redrive(ctx, letters, func(context.Context) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		}, consumer.Redrive{})
		all, err := letters.Drives(t.Context(), "")
		if err != nil || all[0].ID != d.ID || all[0].Done != 2000 {
			t.Errorf("of 2000 letters at 1000 a second %d were done in 2.5 s: %v", all[0].Done, err)
		}
	})
}
