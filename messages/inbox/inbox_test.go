package inbox

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

func TestRedeliveryAfterSuccessIsAcked(t *testing.T) { // 70
	for _, g := range guarantees {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, succeeds)
		p.want(p.deliver(order("x")), Ack, CauseDone)
		p.want(p.deliver(order("x")), Ack, CauseDuplicate)
		p.wantRuns(1)
	}
}

func TestRedeliveryAfterAnError(t *testing.T) { // 71
	noEffect := func(ctx context.Context) error {
		idempotency.NoEffect(ctx)
		return errWork
	}
	for _, c := range []struct {
		name  string
		g     idempotency.Guarantee
		work  func(context.Context) error
		verb  Verb
		why   Cause
		again bool // the work runs again, and then succeeds
	}{
		{"tx: rolled back, runs again", idempotency.GuaranteeTx, fails, Retry, CauseFailed, true},
		{"reexecute: runs again", idempotency.GuaranteeReexecute, fails, Retry, CauseFailed, true},
		{"hold: may have had an effect, does not run again", idempotency.GuaranteeHold, fails, DeadLetter, CauseUnknown, false},
		{"hold and no effect: runs again", idempotency.GuaranteeHold, noEffect, Retry, CauseFailed, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.g}}, c.work)
			d := p.deliver(order("x"))
			p.want(d, c.verb, c.why)
			if !errors.Is(d.Err, errWork) || d.Attempt != 1 {
				t.Errorf("attempt %d: %v", d.Attempt, d.Err)
			}
			p.work = succeeds
			if !c.again {
				p.want(p.deliver(order("x")), DeadLetter, CauseUnknown)
				p.wantRuns(1)
				return
			}
			p.want(p.deliver(order("x")), Ack, CauseDone)
			p.wantRuns(2)
		})
	}
}

func TestDuplicateWhileRunning(t *testing.T) { // 72, 73
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute} {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g, Lease: 10 * time.Second}}, func(context.Context) error {
				pass(time.Minute) // six times the lease
				return nil
			})
			var all sync.WaitGroup
			all.Go(func() { p.want(p.deliver(order("x")), Ack, CauseDone) })
			for range 59 {
				pass(time.Second)
				d := p.deliver(order("x"))
				p.want(d, Retry, CauseInProgress)
				if d.After < time.Second || d.After > 5*time.Second {
					t.Errorf("retry after %v", d.After)
				}
			}
			p.want(p.deliver(order("y")), DeadLetter, CauseMismatch)
			all.Wait()
			p.wantRuns(1)
		})
	}
}

func TestSameIDOtherPayloadIsADeadLetter(t *testing.T) { // 73
	for _, g := range guarantees {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, succeeds)
		p.want(p.deliver(order("x")), Ack, CauseDone)
		p.want(p.deliver(order("y")), DeadLetter, CauseMismatch)
		p.want(p.deliver(order("x")), Ack, CauseDuplicate) // the record is as it was
		p.wantRuns(1)
	}
}

func TestOptions(t *testing.T) { // 74
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		group string
		o     Options
		want  string // part of the error; empty: none
	}{
		{"the zero value is sound", "g", Options{}, ""},
		{"retention as long as both together", "g", Options{RunnerConfig: idempotency.RunnerConfig{Retention: 17 * day}, BrokerRetention: 14 * day, DeadLetterRetention: 3 * day}, ""},
		{"retention shorter than both together", "g", Options{RunnerConfig: idempotency.RunnerConfig{Retention: 17*day - 1}, BrokerRetention: 14 * day, DeadLetterRetention: 3 * day}, "forgotten"},
		{"retention by default as long as both together", "g", Options{BrokerRetention: 90 * day, DeadLetterRetention: day}, ""},
		{"no group", "", Options{}, "group"},
		{"negative visibility", "g", Options{Visibility: -1}, "visibility"},
		{"negative lease", "g", Options{RunnerConfig: idempotency.RunnerConfig{Lease: -1}}, "lease"},
	} {
		_, err := New(c.group, newShelf(), c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := New("g", nil, Options{}); err == nil {
		t.Error("no store is accepted")
	}
	if _, err := New("g", idempotency.NewMemoryStore(0, 0), Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}}); err == nil {
		t.Error("tx on a store without transactions is accepted")
	}
	if got := (Options{BrokerRetention: 2, DeadLetterRetention: 3}).resolved().Retention; got != 5 {
		t.Errorf("retention by default: %v", got)
	}
}

func TestAttempts(t *testing.T) {
	p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, Retry: policy.Retry{Attempts: 3}}, fails)
	for range 2 {
		p.want(p.deliver(order("x")), Retry, CauseFailed)
	}
	d := p.deliver(order("x"))
	p.want(d, DeadLetter, CauseAttemptsExhausted)
	if d.Attempt != 3 || !errors.Is(d.Err, errWork) {
		t.Errorf("attempt %d, %v", d.Attempt, d.Err)
	}
	p.work = succeeds // mended and sent again
	p.want(p.deliver(order("x")), Ack, CauseDone)

	p = newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}, Retry: policy.Retry{Attempts: 3}}, fails)
	for _, c := range []struct {
		delivery int
		verb     Verb
		why      Cause
	}{
		{0, Retry, CauseFailed}, {12, Retry, CauseFailed}, {13, DeadLetter, CauseAttemptsExhausted}, // however often it was delivered
		{1, Retry, CauseFailed}, {2, Retry, CauseFailed}, {3, DeadLetter, CauseAttemptsExhausted}, // the dead letter was sent again
	} {
		m := order("x")
		m.Delivery = c.delivery
		p.want(p.deliver(m), c.verb, c.why)
	}
	p.wantRuns(6)

	p = newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, Retry: policy.Retry{Attempts: 1_000_000}}, fails)
	for range 100 {
		p.want(p.deliver(order("x")), Retry, CauseFailed)
	}
}

func TestBackoffGrowsWithAttempts(t *testing.T) {
	p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, Retry: policy.Retry{Attempts: 1000, Backoff: backoff.Exp(time.Second, 10*time.Second)}}, fails)
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		if d := p.deliver(order("x")); d.After != want*time.Second {
			t.Errorf("retry after %v, want %v", d.After, want*time.Second)
		}
	}
}

func TestPermanentErrorIsADeadLetter(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeReexecute, idempotency.GuaranteeTx} {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, func(context.Context) error { return Reject(errWork) })
		d := p.deliver(order("x"))
		p.want(d, DeadLetter, CausePermanent)
		if !errors.Is(d.Err, errWork) {
			t.Errorf("%v", d.Err)
		}
		p.work = succeeds
		p.want(p.deliver(order("x")), Ack, CauseDone)
	}
	if Reject(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestPanics(t *testing.T) {
	for _, c := range []struct {
		g    idempotency.Guarantee
		verb Verb
		why  Cause
	}{
		{idempotency.GuaranteeHold, DeadLetter, CauseUnknown},
		{idempotency.GuaranteeReexecute, Retry, CauseFailed},
		{idempotency.GuaranteeTx, Retry, CauseFailed},
	} {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.g}}, func(context.Context) error { panic(errWork) })
		d := p.deliver(order("x"))
		p.want(d, c.verb, c.why)
		var panicked *PanicError
		if !errors.As(d.Err, &panicked) || !errors.Is(d.Err, errWork) || !strings.Contains(string(panicked.Stack), "inbox_test.go") {
			t.Errorf("%v", d.Err)
		}
	}
}

// runtime.Goexit can't be stopped, but it leaves no key locked.
func TestGoexitSettlesTheRecord(t *testing.T) {
	p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}, func(context.Context) error {
		runtime.Goexit()
		return nil
	})
	var all sync.WaitGroup
	all.Go(func() { p.deliver(order("x")) })
	all.Wait()
	p.work = succeeds
	p.want(p.deliver(order("x")), Ack, CauseDone)
}

func TestStoreDown(t *testing.T) {
	for _, g := range guarantees {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, succeeds)
			p.store.begin.Store(&errDown)
			p.want(p.deliver(order("x")), Retry, CauseStoreUnavailable)
			p.wantRuns(0)
			p.store.begin.Store(nil)
			pass(time.Minute)
			p.want(p.deliver(order("x")), Ack, CauseDone)
		})
	}
}

func TestStoreDownAfterTheWork(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute} {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, nil)
			p.work = func(context.Context) error {
				p.store.apply.Store(&errDown)
				return nil
			}
			p.want(p.deliver(order("x")), Retry, CauseNotRecorded)
			p.want(p.deliver(order("x")), Retry, CauseInProgress)
			p.store.apply.Store(nil)
			pass(20 * time.Second) // the result is brought later
			p.want(p.deliver(order("x")), Ack, CauseDuplicate)
			p.wantRuns(1)
			pass(time.Minute)
		})
	}
}

func TestCommit(t *testing.T) {
	unknown := errors.Join(idempotency.ErrUnknown, errDown)
	for _, c := range []struct {
		name     string
		err      error
		delivery int
		verb     Verb
		why      Cause
	}{
		{"its answer was lost", unknown, 1, Retry, CauseCommitUnknown},
		{"its answer was lost, and it was the last delivery", unknown, 10, Retry, CauseCommitUnknown},
		{"refused", errDown, 1, Retry, CauseFailed},
		{"refused at the last delivery, which is the first run", errDown, 10, Retry, CauseFailed},
		{"refused for the last time", errDown, 1, DeadLetter, CauseAttemptsExhausted},
	} {
		o := Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}}
		if c.why == CauseAttemptsExhausted {
			o.Retry.Attempts = 1
		}
		p := newPost(t, o, succeeds)
		p.store.commit.Store(&c.err)
		m := order("x")
		m.Delivery = c.delivery
		d := p.deliver(m)
		p.want(d, c.verb, c.why)
		if !errors.Is(d.Err, errDown) {
			t.Errorf("%s: %v", c.name, d.Err)
		}
	}
}

func TestUnreadableRecordIsRetried(t *testing.T) {
	p := newPost(t, Options{}, succeeds)
	p.store.begin.Store(&idempotency.ErrUnreadable)
	p.want(p.deliver(order("x")), Retry, CauseRecordUnreadable)
	p.wantRuns(0)
}

func TestStop(t *testing.T) {
	for _, c := range []struct {
		g    idempotency.Guarantee
		verb Verb
		why  Cause
	}{
		{idempotency.GuaranteeHold, DeadLetter, CauseUnknown},
		{idempotency.GuaranteeReexecute, Retry, CauseStopped},
		{idempotency.GuaranteeTx, Retry, CauseStopped},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.g}, Retry: policy.Retry{Attempts: 1}}, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			d := p.deliverTo(ctx, order("x"))
			if d.Verb != c.verb || d.Cause != c.why {
				t.Errorf("%v: %+v", c.g, d)
			}
			if d := p.deliverTo(ctx, Message{ID: "another"}); d.Verb != Retry || d.Cause != CauseStopped {
				t.Errorf("after the stop: %+v", d)
			}
			p.wantRuns(1)
		})
	}
}

// A consumer that dies leaves a claim behind.
func TestLostRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		g       idempotency.Guarantee
		recover func(context.Context, idempotency.Record) (idempotency.Change, error)
		verb    Verb
		why     Cause
		runs    int64
	}{
		{"hold", idempotency.GuaranteeHold, nil, DeadLetter, CauseUnknown, 0},
		{"hold, and it can be found out that it was done", idempotency.GuaranteeHold, func(context.Context, idempotency.Record) (idempotency.Change, error) {
			return idempotency.Change{State: idempotency.StateDone}, nil
		}, Ack, CauseDuplicate, 0},
		{"hold, and it can be found out that nothing was done", idempotency.GuaranteeHold, func(context.Context, idempotency.Record) (idempotency.Change, error) {
			return idempotency.Change{State: idempotency.StateRetryable}, nil
		}, Ack, CauseDone, 1},
		{"reexecute", idempotency.GuaranteeReexecute, nil, Ack, CauseDone, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.g, Recover: c.recover}}, succeeds)
				dead := idempotency.Claim{ID: RecordID("billing", "order-77"), Fingerprint: idempotency.Fingerprint(nil, []byte("x")),
					Owner: [16]byte{1}, Guarantee: c.g, Lease: 30 * time.Second, Retention: time.Hour}
				if _, err := p.store.Begin(t.Context(), dead); err != nil {
					t.Fatal(err)
				}
				p.want(p.deliver(order("x")), Retry, CauseInProgress)
				pass(31 * time.Second)
				p.want(p.deliver(order("x")), c.verb, c.why)
				p.wantRuns(c.runs)
			})
		})
	}
}

func TestWorkThatHangs(t *testing.T) {
	for _, c := range []struct {
		g    idempotency.Guarantee
		verb Verb
		why  Cause
	}{
		{idempotency.GuaranteeHold, DeadLetter, CauseUnknown},
		{idempotency.GuaranteeTx, Retry, CauseFailed},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.g, MaxExecution: time.Minute}}, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
			start := time.Now()
			p.want(p.deliver(order("x")), c.verb, c.why)
			if took := time.Since(start); took != time.Minute {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestGroupsAreApart(t *testing.T) {
	store := newShelf()
	runs := 0
	for _, group := range []string{"billing", "mailing"} {
		in, err := New(group, store, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			in.Handle(t.Context(), order(group), func(context.Context) error { runs++; return nil })
		}
	}
	if runs != 2 {
		t.Errorf("two groups ran %d times", runs)
	}
	if RecordID("billing", "order-77") == idempotency.IDOf("billing", "order-77") {
		t.Error("a message and a request have one record")
	}
}

func TestSecretKeysTheFingerprint(t *testing.T) {
	for _, secret := range []string{"", "s"} {
		p := newPost(t, Options{Secret: []byte(secret)}, succeeds)
		p.deliver(order("x"))
		r, err := p.store.Get(t.Context(), RecordID("billing", "order-77"))
		if err != nil || r.Fingerprint != idempotency.Fingerprint([]byte(secret), []byte("x")) {
			t.Errorf("secret %q: %x, %v", secret, r.Fingerprint, err)
		}
	}
}

func TestMessageWithoutID(t *testing.T) {
	p := newPost(t, Options{}, succeeds)
	p.want(p.deliver(Message{Payload: []byte("x")}), DeadLetter, CauseNoID)
	p.wantRuns(0)
}

func TestWorkSeesItsRun(t *testing.T) {
	var tokens []int64
	var keys []string
	phases := 0
	p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}}, func(ctx context.Context) error {
		tokens = append(tokens, idempotency.Token(ctx))
		keys = append(keys, idempotency.StepKey(ctx, "charge"))
		_, err := idempotency.Phase(ctx, "charge", func(context.Context) ([]byte, error) {
			phases++
			return []byte("ch_1"), nil
		})
		if err != nil || idempotency.Attempt(ctx) < 2 {
			return errWork
		}
		return nil
	})
	p.deliver(order("x"))
	p.want(p.deliver(order("x")), Ack, CauseDone)
	if tokens[0] == 0 || tokens[1] <= tokens[0] || keys[0] == "" || keys[0] != keys[1] || phases != 1 {
		t.Errorf("tokens %d, keys %q, %d phases", tokens, keys, phases)
	}
}

func TestMessageIsKeptFromOthersWhileTheWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extended := 0
		p := newPost(t, Options{Visibility: 30 * time.Second}, func(context.Context) error {
			pass(95 * time.Second)
			return nil
		})
		m := order("x")
		m.Extend = func(context.Context) error { extended++; return nil }
		p.want(p.deliver(m), Ack, CauseDone)
		if extended != 9 {
			t.Errorf("extended %d times in 95 s", extended)
		}
		pass(time.Hour)
		if extended != 9 {
			t.Error("extended after the end")
		}
	})
	synctest.Test(t, func(t *testing.T) { // and the work ends when it can't be kept
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, Visibility: 30 * time.Second}, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		m := order("x")
		m.Extend = func(context.Context) error { return errDown }
		start := time.Now()
		d := p.deliver(m)
		p.want(d, Retry, CauseFailed)
		if took := time.Since(start); took != 30*time.Second || !errors.Is(d.Err, ErrNotKept) || !errors.Is(d.Err, errDown) {
			t.Errorf("after %v: %v", took, d.Err)
		}
	})
}

// heard is a context without an end that counts those who wait for one.
type heard struct {
	context.Context
	done    chan struct{}
	waiting atomic.Int64
}

func (h *heard) Done() <-chan struct{} { return h.done }

func (h *heard) AfterFunc(func()) (stop func() bool) {
	h.waiting.Add(1)
	return func() bool { h.waiting.Add(-1); return true }
}

// Messages come and go under one context, that of the subscription.
func TestAMessageLeavesNothingAtTheContextOfItsSubscription(t *testing.T) {
	for _, g := range guarantees {
		synctest.Test(t, func(t *testing.T) {
			waits := int64(0)
			ctx := &heard{Context: t.Context(), done: make(chan struct{})}
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}}, func(work context.Context) error {
				work.Done()
				waits = max(waits, ctx.waiting.Load())
				return nil
			})
			if p.deliverTo(ctx, order("x")); waits == 0 || ctx.waiting.Load() != 0 {
				t.Errorf("%v: %d wait for its end while the work runs, and %d after it", g, waits, ctx.waiting.Load())
			}
		})
	}
}
