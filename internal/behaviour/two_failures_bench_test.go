package behaviour

import (
	"context"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

func BenchmarkDoTwoFailures(b *testing.B) {
	d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Backoff: backoff.Const(0), Budget: policy.Budget{Floor: 1e6}}, Breaker: policy.Breaker{FailureRate: 1}})
	ctx := context.Background()
	work := func(ctx context.Context) (int, error) {
		if gabion.AttemptNumber(ctx) < 3 {
			return 0, errDown
		}
		return 7, nil
	}
	b.ReportAllocs()
	for b.Loop() {
		if v, err := gabion.Do(ctx, d, work); v != 7 || err != nil {
			b.Fatal(err)
		}
	}
}
