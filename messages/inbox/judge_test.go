package inbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/policy"
)

// Where the judge can't judge, Options.Retry does.
func TestAJudgeThatPanicsIsNotAskedAgain(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeReexecute, idempotency.GuaranteeTx} {
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g}, Retry: policy.Retry{Attempts: 3}}, fails)
			m := order("x")
			m.Judge = func(error, int) (time.Duration, policy.Reason) { panic("a bug") }
			for range 2 {
				d := p.deliver(m)
				p.want(d, Retry, CauseFailed)
				var panicked *PanicError
				if !errors.As(d.Err, &panicked) || panicked.Value != "a bug" {
					t.Errorf("%v: %v", g, d.Err)
				}
			}
			p.want(p.deliver(m), DeadLetter, CauseAttemptsExhausted)
			p.wantRuns(3)
		})
	}
}

// broken panics in Unwrap, as an error does whose pointer is nil.
type broken struct{ err error }

func (b *broken) Error() string { return b.err.Error() }
func (b *broken) Unwrap() error { return b.err }

func TestAnErrorThatPanicsIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, Retry: policy.Retry{Attempts: 3}},
			func(context.Context) error { return (*broken)(nil) })
		for range 2 {
			p.want(p.deliver(order("x")), Retry, CauseFailed)
		}
		p.want(p.deliver(order("x")), DeadLetter, CauseAttemptsExhausted)
	})
}

// Who judges runs that were lost with their processes may panic, too.
func TestAJudgeThatPanicsOverLostRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}, Retry: policy.Retry{Attempts: 3}}, fails)
		m := order("x")
		p.want(p.deliver(m), Retry, CauseFailed)
		m.Judge = func(err error, _ int) (time.Duration, policy.Reason) {
			if err == ErrNeverEnded {
				panic("a bug")
			}
			return time.Second, policy.None
		}
		p.want(p.deliver(m), Retry, CauseFailed)
		p.wantRuns(2)
	})
}

// Under Hold it is unknown what work did whose error can't be read.
func TestUnderHoldAJudgeThatPanicsLeavesTheOutcomeUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, Options{}, fails)
		m := order("x")
		m.Judge = func(error, int) (time.Duration, policy.Reason) { panic("a bug") }
		p.want(p.deliver(m), DeadLetter, CauseUnknown)
	})
}
