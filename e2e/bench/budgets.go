package bench

import (
	"time"

	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/clock"
)

func budgets() []*Contest {
	return []*Contest{{
		Name: "budget", Title: "Budget of retries, by shape", Runs: 1, Floor: "atomic-add",
		About: "What one call that succeeds pays in, and what the grant and the refund of one retry take. Most calls do only the first. No reading of the clock is in it.",
		Entries: []Entry{
			{Name: "earned", Kind: Gabion, Note: "the default", Start: budgetEarned},
			{Name: "window", Kind: Gabion, Note: "as Finagle's and Linkerd's", Start: budgetWindow},
			{Name: "tokens", Kind: Gabion, Start: budgetTokens(1, 0.1)},
			{Name: "quota", Kind: Gabion, Note: "as that of the AWS SDKs", Start: budgetTokens(14, 1)},
			{Name: "grpc", Kind: Gabion, Note: "gRPC's throttling: a success, a failure, and the question", Start: budgetGRPC},
			{Name: "share", Kind: Gabion, Note: "Envoy's: a call begins and ends, and so does a retry", Start: budgetShare},
		},
	}}
}

// paid makes an entry's call of what it pays and takes at a time, a microsecond later each
// time, so that windows move.
func paid(act func(w *Worker, now clock.Instant) bool) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		now, work := clock.Instant(0), w.Plain
		return func() bool {
			now = now.Add(time.Microsecond)
			return act(w, now) && w.Right(work())
		}
	}
}

func budgetEarned(*Run) func(*Worker) func() bool {
	r := budget.NewEarnedRules(1, time.Second, 1000, 1000)
	b := budget.MakeEarned(r, shards())
	return paid(func(w *Worker, now clock.Instant) bool {
		b.Earn(now, w.ID, &r)
		ok, _ := b.TryWithdraw(now, &r, 0)
		b.Refund()
		return ok
	})
}

func budgetWindow(*Run) func(*Worker) func() bool {
	r, b := budget.NewRules(1, 1e6, 10*time.Second), budget.MakeWindow(10*time.Second, shards())
	return paid(func(w *Worker, now clock.Instant) bool {
		b.Deposit(now, w.ID)
		held, ok := b.TryWithdraw(now, r)
		b.Refund(now, held)
		return ok
	})
}

func budgetTokens(cost int, ratio float64) func(*Run) func(*Worker) func() bool {
	return func(*Run) func(*Worker) func() bool {
		r, b := budget.NewBucketRules(1_000_000, cost, ratio), new(budget.Bucket)
		return paid(func(*Worker, clock.Instant) bool {
			b.Refill(r)
			ok := b.TryWithdraw(r)
			b.Refund(r)
			return ok
		})
	}
}

func budgetGRPC(*Run) func(*Worker) func() bool {
	r, b := budget.NewBucketRules(1000, 1, 1), new(budget.Bucket)
	return paid(func(*Worker, clock.Instant) bool {
		b.Drain(r)
		ok := b.OverHalf(r)
		b.Refill(r)
		return ok
	})
}

func budgetShare(*Run) func(*Worker) func() bool {
	r, b := budget.NewShareRules(0.2, 1000), budget.MakeShare(shards())
	return paid(func(w *Worker, _ clock.Instant) bool {
		b.Begin(w.ID)
		ok := b.TryWithdraw(r)
		b.Release()
		b.End(w.ID)
		return ok
	})
}
