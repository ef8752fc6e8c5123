package inbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

func TestWhatCanNotBeHandledIsADeadLetter(t *testing.T) {
	for _, c := range []struct {
		name string
		m    Message
		verb Verb
		why  Cause
	}{
		{"no id", Message{}, DeadLetter, CauseNoID},
		{"no payload is one", Message{ID: "a"}, Ack, CauseDone},
		{"a payload of the longest length", Message{ID: "a", Payload: make([]byte, 8)}, Ack, CauseDone},
		{"one byte more", Message{ID: "a", Payload: make([]byte, 9)}, DeadLetter, CauseTooLarge},
		{"bytes", Message{ID: "\x00\xff", Payload: []byte("\x00\xfe")}, Ack, CauseDone},
		{"today's version", Message{ID: "a", Headers: message.Headers{{Name: message.Version, Value: "1"}}}, Ack, CauseDone},
		{"a newer version", Message{ID: "a", Headers: message.Headers{{Name: message.Version, Value: "2"}}}, DeadLetter, CauseUnknownVersion},
		{"a deadline in words", Message{ID: "a", Headers: message.Headers{{Name: message.Deadline, Value: "soon"}}}, DeadLetter, CauseHeaderUnreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, MaxPayload: 8}, succeeds)
			p.want(p.deliver(c.m), c.verb, c.why)
		})
	}
}

func TestNobodyWorksForAnExpiredMessage(t *testing.T) {
	for _, g := range guarantees {
		for _, drop := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, dropped: %v", g, drop), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}, DropExpired: drop}, succeeds)
					verb := DeadLetter
					if drop {
						verb = Ack
					}
					m := order("x")
					m.Headers = m.Headers.WithDeadline(time.Now())
					d := p.deliver(m)
					p.want(d, verb, CauseExpired)
					if !errors.Is(d.Err, ErrExpired) || d.Attempt != 0 {
						t.Errorf("attempt %d: %v", d.Attempt, d.Err)
					}
					p.wantRuns(0)
					m.Headers = m.Headers.WithDeadline(time.Now().Add(time.Second)) // it got more time
					p.want(p.deliver(m), Ack, CauseDone)
					pass(time.Minute)
					p.want(p.deliver(m), Ack, CauseDuplicate) // it was done in time
				})
			})
		}
	}
}

func TestWorkEndsAtTheMessagesDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}, func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		m := order("x")
		m.Headers = m.Headers.WithDeadline(time.Now().Add(3 * time.Second))
		begun := time.Now()
		p.want(p.deliver(m), Retry, CauseFailed)
		if took := time.Since(begun); took != 3*time.Second || !errors.Is(cause, ErrExpired) {
			t.Errorf("it ended after %v by %v", took, cause)
		}
		p.want(p.deliver(m), DeadLetter, CauseExpired)
	})
}

// A message that takes its process with it leaves a claim behind and no error.
func TestAMessageThatKillsItsProcessIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, Options{
			RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Lease: time.Second, MaxExecution: 2 * time.Second}, Retry: policy.Retry{Attempts: 3},
		}, func(ctx context.Context) error { return errWork })
		kill := func() {
			claim := idempotency.Claim{ID: RecordID("billing", "order-77"), Guarantee: idempotency.GuaranteeReexecute, Fingerprint: idempotency.Fingerprint(nil, []byte("x")), Lease: time.Second, Retention: time.Hour}
			if a, err := p.store.Begin(t.Context(), claim); err != nil || a.Decision != idempotency.DecisionRun {
				t.Fatal(a.Decision, err)
			}
			pass(2 * time.Second)
		}
		for range 3 {
			kill()
		}
		d := p.deliver(order("x"))
		p.want(d, DeadLetter, CauseAttemptsExhausted)
		p.wantRuns(0)
		if !errors.Is(d.Err, ErrNeverEnded) || d.Attempt != 3 {
			t.Errorf("attempt %d: %v", d.Attempt, d.Err)
		}
		p.want(p.deliver(order("mended")), Retry, CauseFailed)
		p.wantRuns(1)
	})
}

// A transaction leaves nothing of a run that took its process with it.
func TestUnderTxAMessageThatKillsItsProcessIsGivenUp(t *testing.T) {
	t.Run("the broker counts: 3 runs and the two that were not counted", func(t *testing.T) { killsUnderTx(t, true, 5) })
	t.Run("the broker does not: 3 runs", func(t *testing.T) { killsUnderTx(t, false, 3) })
}

func killsUnderTx(t *testing.T, counts bool, want int) {
	synctest.Test(t, func(t *testing.T) {
		killed := true
		p := newPost(t, Options{
			RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Lease: time.Second, MaxExecution: 2 * time.Second}, Retry: policy.Retry{Attempts: 3},
		}, func(context.Context) error {
			if killed {
				runtime.Goexit()
			}
			return nil
		})
		m := order("x")
		var died int
		for n := 1; n < 20; n++ {
			if counts {
				m.Delivery = n
			}
			dies := true
			var d Disposition
			done := make(chan struct{})
			go func() {
				defer close(done)
				d = p.deliver(m)
				dies = false
			}()
			<-done
			if !dies {
				p.want(d, DeadLetter, CauseAttemptsExhausted)
				if !errors.Is(d.Err, ErrNeverEnded) {
					t.Error(d.Err)
				}
				break
			}
			died++
			pass(time.Minute)
		}
		if died != want {
			t.Errorf("it killed %d processes", died)
		}
		killed = false
		p.want(p.deliver(m), Ack, CauseDone) // mended and sent again
	})
}

func TestUnderTxCopiesOfASlowMessageAreNoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}, Retry: policy.Retry{Attempts: 3}}, func(context.Context) error {
			pass(time.Minute)
			return errWork
		})
		done := make(chan Disposition)
		first := order("x")
		first.Delivery = 3
		go func() { done <- p.deliver(first) }()
		pass(time.Second)
		m := order("x")
		for m.Delivery = 4; m.Delivery < 20; m.Delivery++ {
			p.want(p.deliver(m), Retry, CauseInProgress)
		}
		if d := <-done; d.Cause != CauseFailed || d.Attempt != 1 {
			t.Errorf("%+v", d)
		}
	})
}

// txDown is a store whose transactions can't begin, while the rest of it answers.
type txDown struct {
	*shelf
	down bool
}

func (s *txDown) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	if s.down {
		return idempotency.Answer{}, errDown
	}
	return s.shelf.Tx(ctx, c, run)
}

func TestUnderTxDeliveriesWithoutARunAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{T: t, store: newShelf(), work: fails}
		store := &txDown{p.store, true}
		in, err := New("billing", store, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}, Retry: policy.Retry{Attempts: 3}})
		if err != nil {
			t.Fatal(err)
		}
		p.in = in
		m := order("x")
		for m.Delivery = 3; m.Delivery < 20; m.Delivery++ {
			p.want(p.deliver(m), Retry, CauseStoreUnavailable)
		}
		store.down = false
		for n := 1; n <= 2; n++ {
			if d := p.deliver(m); d.Cause != CauseFailed || d.Attempt != n {
				t.Errorf("run %d: %+v", n, d)
			}
		}
		p.want(p.deliver(m), DeadLetter, CauseAttemptsExhausted)
	})
}

// twice is a store that repeats a transaction, as databases want it after a conflict.
type twice struct{ *shelf }

func (s twice) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	return s.shelf.Tx(ctx, c, func(ctx context.Context, r idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		_, _, _ = run(ctx, r)
		return run(ctx, r)
	})
}

func TestTheContextOfARunThatIsRepeatedStaysOver(t *testing.T) {
	p := &post{T: t, store: newShelf()}
	in, err := New("billing", twice{p.store}, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}})
	if err != nil {
		t.Fatal(err)
	}
	var first context.Context
	p.in, p.work = in, func(ctx context.Context) error {
		if first == nil {
			first = ctx
		} else if first.Err() == nil {
			t.Error("what the first run left behind works on in the second")
		}
		return ctx.Err()
	}
	p.want(p.deliver(order("x")), Ack, CauseDone)
	p.wantRuns(2)
}

func TestAJudgeDecides(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeReexecute, idempotency.GuaranteeTx} {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, fails)
		m := order("x")
		m.Judge = func(err error, runs int) (time.Duration, policy.Reason) {
			if !errors.Is(err, errWork) && !errors.Is(err, ErrNeverEnded) {
				t.Errorf("judged: %v", err)
			}
			if runs == 3 {
				return 0, policy.NotRetryable
			}
			return time.Duration(runs) * time.Hour, policy.None
		}
		for n := 1; n <= 2; n++ {
			d := p.deliver(m)
			p.want(d, Retry, CauseFailed)
			if d.After != time.Duration(n)*time.Hour {
				t.Errorf("%v: after %v", g, d.After)
			}
		}
		p.want(p.deliver(m), DeadLetter, CausePermanent)
	}
}

// A classified error needs no mark.
func TestAnErrorOfAPermanentClassIsADeadLetter(t *testing.T) {
	p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}, func(context.Context) error { return refusal{} })
	p.want(p.deliver(order("x")), DeadLetter, CausePermanent)
}

// A refusal says what it means, as package classify lets errors do.
type refusal struct{}

func (refusal) Error() string { return "invalid argument" }

// Outcome implements what package classify asks of errors that know what they mean.
func (refusal) Outcome() policy.Outcome { return policy.Outcome{Class: policy.ClassClient} }

func TestHandleLeavesNoGoroutine(t *testing.T) {
	p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}, succeeds)
	before := runtime.NumGoroutine()
	for i := range 100 {
		m := Message{ID: fmt.Sprint(i), Extend: func(context.Context) error { return nil }}
		p.want(p.deliver(m), Ack, CauseDone)
	}
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+2 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+2 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
