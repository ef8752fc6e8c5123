package idempotency

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The context of a run does not end with its caller's, and so has none of its causes.
func TestARunHasNoCauseOfItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := NewRunner(NewMemoryStore(0, 0), RunnerConfig{Guarantee: GuaranteeReexecute, MaxExecution: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		var left context.Context
		_, _ = r.Do(ctx, IDOf("t", "1"), [32]byte{}, func(run context.Context) (Result, Ending) {
			left = run
			cancel(errors.New("the client went"))
			if cause := context.Cause(run); cause != nil || run.Err() != nil {
				t.Errorf("%v, %v", cause, run.Err())
			}
			pass(2 * time.Second)
			if cause := context.Cause(run); cause != errOverran {
				t.Errorf("it ran too long, and has the cause %v", cause)
			}
			return Result{}, EndingUnknown
		})
		if left.Err() == nil || context.Cause(left) != errOverran {
			t.Errorf("%v because of %v", left.Err(), context.Cause(left))
		}
	})
}
