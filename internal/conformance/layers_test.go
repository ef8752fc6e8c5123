package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// C116: five layers of three attempts are 243 calls, and 3 where a layer that
// gave up says so.
func TestC116_StackedLayersMultiplyUnlessMarked(t *testing.T) {
	unmark := func(_ any, err error) policy.Outcome {
		o := classify.Error(err)
		o.Stop = false
		return o
	}
	for _, c := range []struct {
		fact  string
		judge func(any, error) policy.Outcome
		want  int
	}{
		{"the mark that a lower layer leaves is honoured", nil, 3},
		{"without it, three to the power of five", unmark, 243},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			work := func(context.Context) (int, error) { calls++; return 0, errDown }
			for i := range 5 {
				p := retrying(3, every(ms))
				p.Timeout = policy.Timeout{Call: policy.Off, Attempt: policy.Off}
				d := gabion.New(fmt.Sprint("layer", i), p, gabion.WithClassify(c.judge))
				below := work
				work = func(ctx context.Context) (int, error) { return gabion.Do(ctx, d, below, gabion.WithIdempotent()) }
			}
			_, err := work(t.Context())
			if calls != c.want || !errors.Is(err, errDown) {
				t.Errorf("%s: %d calls, want %d: %v", c.fact, calls, c.want, err)
			}
		})
	}
}

// C119: the same seed and the same script give the same log, to the byte. C68:
// nothing is sent after Returned, which broken checks of every random script.
func TestC119_TheSameSeedTheSameLog(t *testing.T) {
	for seed := range uint64(20) {
		one, other := randomCase(seed), randomCase(seed)
		a, b := World{}.Run(&one), World{}.Run(&other)
		if a.Log.String() != b.Log.String() || len(a.Log) == 0 {
			t.Errorf("seed %d: two logs", seed)
		}
	}
}

// A refusal says who, why, when to come back and whether it may have happened
// (C5, C23, C71), and keeps the last real error.
func TestWhatTheCallerIsTold(t *testing.T) {
	after := func(class policy.Class, d int) error {
		return &told{policy.Outcome{Class: class, HasAfter: d > 0, After: s * 2, Effect: policy.UnknownEffect}}
	}
	for _, c := range []struct {
		fact   string
		script []error
		want   gabion.Error
	}{
		{"the last failure named a time", []error{after(policy.ClassServer, 1)}, gabion.Error{Reason: policy.AttemptsExhausted, Attempts: 2, RetryAfter: 2 * s, Effect: policy.UnknownEffect}},
		{"an earlier failure's time is forgotten", []error{after(policy.ClassServer, 1), errDown}, gabion.Error{Reason: policy.AttemptsExhausted, Attempts: 2, Effect: policy.UnknownEffect}},
		{"a permanent failure may name a time", []error{after(policy.ClassClient, 1)}, gabion.Error{Reason: policy.NotRetryable, Attempts: 1, RetryAfter: 2 * s, Effect: policy.UnknownEffect}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := retrying(2, every(ms))
			p.Pace = noPace
			n := 0
			_, err := gabion.Do(t.Context(), gabion.New("x", p), func(context.Context) (int, error) {
				n++
				return 0, c.script[min(n, len(c.script))-1]
			}, gabion.WithIdempotent())
			var e *gabion.Error
			if !errors.As(err, &e) || e.Reason != c.want.Reason || e.Attempts != c.want.Attempts || e.RetryAfter != c.want.RetryAfter || e.Effect != c.want.Effect || e.Err == nil {
				t.Errorf("%s: %+v", c.fact, e)
			}
		})
	}
}
