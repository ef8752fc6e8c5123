package behaviour

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Through the front door: after a thousand calls of 100 ms an attempt that hangs is ended
// after three times that, and the error says so; the context of the work has that deadline.
func TestAMeasuredTimeoutEndsAnAttemptThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Safe: true, Retry: policy.Retry{Attempts: 1}, Timeout: policy.Timeout{Percentile: 0.999},
		})
		var deadline atomic.Int64
		usual := func(ctx context.Context) error {
			at, _ := ctx.Deadline()
			deadline.Store(int64(time.Until(at)))
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		for i := range 1500 {
			if err := d.Run(t.Context(), usual); err != nil {
				t.Fatal(i, err)
			}
			if left := time.Duration(deadline.Load()); i < 1000 && left != 4*time.Second {
				t.Fatalf("call %d has %v, before enough is known", i, left)
			}
		}
		time.Sleep(time.Second)
		st := d.Stats()
		if got := st.AttemptTimeout(); got.Basis != terms.TimeoutMeasured || got.Samples < 1000 || got.Attempt.Round(time.Millisecond) != 302*time.Millisecond {
			t.Errorf("%+v", got)
		}
		began := time.Now()
		err := d.Run(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		took := time.Since(began).Round(time.Millisecond)
		const want = "db: attempts_exhausted (timeout 302ms, measured p99.9) after 1 attempt, may have happened: context deadline exceeded"
		if took != 302*time.Millisecond || !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
			t.Errorf("after %v: %v, want %s", took, err, want)
		}
	})
}
