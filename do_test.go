package gabion_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

var errDown = classify.Transient(errors.New("down"))

func TestASuccessIsReturned(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	got, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 7, nil })
	if got != 7 || err != nil {
		t.Fatalf("got %d, %v", got, err)
	}
}

func TestTransientSafeWorkIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{})
		n := 0
		_, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { n++; return 0, errDown }, gabion.WithIdempotent())
		var e *gabion.Error
		if !errors.As(err, &e) || n != 3 || e.Reason != policy.AttemptsExhausted || e.Attempts != 3 || !errors.Is(err, errDown) {
			t.Fatalf("%d attempts, %v", n, err)
		}
	})
}

func TestUnsafeWorkIsTriedOnce(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	n := 0
	err := d.Run(t.Context(), func(context.Context) error { n++; return errDown })
	if n != 1 || !errors.Is(err, policy.NotSafe) {
		t.Fatalf("%d attempts, %v", n, err)
	}
}

func TestAHedgeWinsWhenTheFirstHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		start := time.Now()
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			if n == 1 {
				<-ctx.Done()
				return 1, ctx.Err()
			}
			time.Sleep(5 * time.Millisecond)
			return n, nil
		})
		if got != 2 || err != nil || time.Since(start) != 15*time.Millisecond {
			t.Fatalf("got %d, %v after %s", got, err, time.Since(start))
		}
		synctest.Wait()
	})
}

func BenchmarkDoSuccess(b *testing.B) {
	d := gabion.New("db", policy.Policy{})
	ctx := b.Context()
	work := func(context.Context) (int, error) { return 7, nil }
	b.ReportAllocs()
	for b.Loop() {
		if v, err := gabion.Do(ctx, d, work); v != 7 || err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDoHedgeArmed(b *testing.B) {
	d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
	work := func(context.Context) (int, error) { return 7, nil }
	b.ReportAllocs()
	for b.Loop() {
		if v, err := gabion.Do(b.Context(), d, work); v != 7 || err != nil {
			b.Fatal(err)
		}
	}
}
