package bench

import (
	"context"
	"time"

	retrygo "github.com/avast/retry-go/v5"
	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/policy"
	sethvargo "github.com/sethvargo/go-retry"
)

func retries() []*Contest {
	return []*Contest{
		{
			Name: "retry-first", Title: "Retry, first try succeeds", Runs: 1, Headline: true, Floor: "function-call",
			About:   "Nothing fails; what does being ready to retry cost?",
			Entries: retryEntries(),
		},
		{
			Name: "retry-two", Title: "Retry, two failures without a wait", Runs: 3, Fails: 2, Headline: true, Floor: "function-call",
			About:   "Two transient failures, then success.",
			Entries: retryEntries(),
		},
	}
}

func retryEntries() []Entry {
	return []Entry{
		doEntry("gabion", retryOnly(), nil, "Do with breaker, bulkhead and timeouts off; classifies, and pays each retry from a budget"),
		{Name: "gabion-parts", Kind: Gabion, Note: "a loop of packages classify, backoff, chance and budget (tokens)", Start: retryParts},
		{Name: "hand", Kind: Hand, Note: "a loop; honours the context; no wait, no budget", Start: retryHand},
		{Name: "eapache", Start: retryEapache},
		{Name: "retry-go", Note: "built for each call, which is how a call gets its context", Start: retryGoEach},
		{Name: "retry-go-reused", Weaker: true, Note: "built once: does not honour a call's context", Start: retryGoOnce},
		{Name: "sethvargo", Start: retrySethvargo},
		{Name: "backoff", Note: "cenkalti; its work gets no context", Start: retryCenkalti},
		{Name: "failsafe-go", Note: "context passed on", Start: func(*Run) func(*Worker) func() bool {
			return executorContext(failsafe.With(failsafeRetry()))
		}},
	}
}

func retryOnly() policy.Policy {
	p := nothing()
	p.Retry = policy.Retry{Attempts: attempts, Backoff: noWait, Budget: sparedBudget}
	return p
}

func retryParts(*Run) func(*Worker) func() bool {
	tokens, bucket := budget.NewBucketRules(100, 1, 2), new(budget.Bucket)
	return func(w *Worker) func() bool {
		ctx, work := context.Background(), w.Work
		return func() bool {
			for n := 0; ; n++ {
				v, err := work(ctx)
				if err == nil {
					bucket.Refill(tokens)
					return w.Right(v, err)
				}
				if !classify.Error(err).Class.Transient() || n+1 == attempts || ctx.Err() != nil || !bucket.TryWithdraw(tokens) {
					return false
				}
				if noWait.Delay(n, 0, chance.U(uint64(w.ID), uint64(w.Ran), uint64(n), chance.Backoff)) > 0 {
					return false
				}
			}
		}
	}
}

func retryHand(*Run) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		ctx, work := context.Background(), w.Work
		return func() bool {
			var v int
			var err error
			for range attempts {
				if v, err = work(ctx); err == nil || ctx.Err() != nil {
					break
				}
			}
			return w.Right(v, err)
		}
	}
}

func retryEapache(*Run) func(*Worker) func() bool {
	r := retrier.New(retrier.ConstantBackoff(attempts-1, 0), nil)
	return func(w *Worker) func() bool {
		ctx, v := context.Background(), 0
		work := func(ctx context.Context) (err error) { v, err = w.Work(ctx); return err }
		return func() bool {
			err := r.RunCtx(ctx, work)
			return w.Right(v, err)
		}
	}
}

func retryGoEach(*Run) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		ctx := context.Background()
		work := func() (int, error) { return w.Work(ctx) }
		return func() bool {
			return w.Right(retrygo.NewWithData[int](append(retryGoOptions(), retrygo.Context(ctx))...).Do(work))
		}
	}
}

func retryGoOnce(*Run) func(*Worker) func() bool {
	r := retrygo.NewWithData[int](retryGoOptions()...)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool { return w.Right(r.Do(work)) }
	}
}

func retryGoOptions() []retrygo.Option {
	return []retrygo.Option{
		retrygo.Attempts(attempts), retrygo.Delay(0), retrygo.DelayType(retrygo.FixedDelay), retrygo.LastErrorOnly(true),
	}
}

func retrySethvargo(*Run) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		ctx := context.Background()
		work := func(ctx context.Context) (int, error) {
			v, err := w.Work(ctx)
			return v, sethvargo.RetryableError(err)
		}
		now := sethvargo.BackoffFunc(func() (time.Duration, bool) { return 0, false })
		return func() bool {
			return w.Right(sethvargo.DoValue(ctx, sethvargo.WithMaxRetries(attempts-1, now), work))
		}
	}
}

func retryCenkalti(*Run) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		ctx, work := context.Background(), w.Plain
		return func() bool {
			return w.Right(cenkalti.Retry(ctx, work, cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}), cenkalti.WithMaxTries(attempts)))
		}
	}
}
