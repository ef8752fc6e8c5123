package inbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// Attempts are runs of the work: a message that came many times before its work could
// run has all of them.
func TestDeliveriesAreNoAttempts(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeReexecute, idempotency.GuaranteeTx} {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}, Retry: policy.Retry{Attempts: 3}}, fails)
			m := order("x")
			p.store.begin.Store(&errDown)
			for m.Delivery = 1; m.Delivery < 12; m.Delivery++ {
				p.want(p.deliver(m), Retry, CauseStoreUnavailable)
			}
			p.store.begin.Store(nil)
			pass(time.Minute)
			p.wantRuns(0)
			for n, why := range []Cause{CauseFailed, CauseFailed, CauseAttemptsExhausted} {
				verb := Retry
				if why != CauseFailed {
					verb = DeadLetter
				}
				d := p.deliver(m)
				p.want(d, verb, why)
				if d.Attempt != n+1 {
					t.Errorf("%v: attempt %d, want %d", g, d.Attempt, n+1)
				}
				m.Delivery++
			}
			p.wantRuns(3)
		})
	}
}

// A mended dead letter can be sent again with its id, and has all attempts.
func TestMendedMessageRuns(t *testing.T) {
	permanent := func(context.Context) error { return Reject(errWork) }
	noEffect := func(ctx context.Context) error {
		idempotency.NoEffect(ctx)
		return Reject(errWork)
	}
	for _, c := range []struct {
		name string
		g    idempotency.Guarantee
		work func(context.Context) error
		dead int // the delivery that ends among the dead letters
		why  Cause
		runs bool // the mended message does
	}{
		{"reexecute, a permanent error", idempotency.GuaranteeReexecute, permanent, 1, CausePermanent, true},
		{"reexecute, too many errors", idempotency.GuaranteeReexecute, fails, 3, CauseAttemptsExhausted, true},
		{"tx, a permanent error", idempotency.GuaranteeTx, permanent, 1, CausePermanent, true},
		{"tx, too many errors", idempotency.GuaranteeTx, fails, 3, CauseAttemptsExhausted, true},
		{"hold, without effect", idempotency.GuaranteeHold, noEffect, 1, CausePermanent, true},
		{"hold: it may have had an effect", idempotency.GuaranteeHold, permanent, 1, CauseUnknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.g}, Retry: policy.Retry{Attempts: 3}}, c.work)
			for n := 1; n < c.dead; n++ {
				p.want(p.deliver(order("x")), Retry, CauseFailed)
			}
			if c.dead > 1 && c.g != idempotency.GuaranteeTx {
				p.want(p.deliver(order("another")), DeadLetter, CauseMismatch) // while it is tried, it is what it was
			}
			p.want(p.deliver(order("x")), DeadLetter, c.why)
			if !c.runs {
				p.want(p.deliver(order("mended")), DeadLetter, CauseMismatch)
				return
			}
			p.work = fails
			if c.g != idempotency.GuaranteeHold {
				d := p.deliver(order("mended"))
				p.want(d, Retry, CauseFailed)
				if d.Attempt != 1 {
					t.Errorf("attempt %d of the mended message", d.Attempt)
				}
			}
			p.work = succeeds
			p.want(p.deliver(order("mended")), Ack, CauseDone)
			p.want(p.deliver(order("mended")), Ack, CauseDuplicate)
			p.want(p.deliver(order("x")), DeadLetter, CauseMismatch)
		})
	}
}

// Under Tx the count of failures is beside the record: where it can't be kept the message
// comes again.
func TestFailuresThatCanNotBeCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}, Retry: policy.Retry{Attempts: 1}}, nil)
		counted := order("x")
		counted.Delivery = 1 // else the run is counted before it begins
		p.work = func(context.Context) error {
			p.store.begin.Store(&errDown)
			return errWork
		}
		p.want(p.deliver(counted), Retry, CauseFailed)
		p.store.begin.Store(nil)
		pass(time.Minute)
		p.work = fails
		p.want(p.deliver(counted), DeadLetter, CauseAttemptsExhausted)
	})
}
