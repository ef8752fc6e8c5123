package bench

import (
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
	"github.com/go-kratos/aegis/ratelimit"
	"github.com/go-kratos/aegis/ratelimit/bbr"
)

// No limit here may come below the goroutines that call, or calls would be refused: what
// is measured is what learning costs, and not what is learned of work that takes nothing.
const (
	leastSlots = slots
	mostSlots  = 1000
)

func learners() []*Contest {
	return []*Contest{{
		Name: "learned", Title: "Learned concurrency limit", Runs: 1, Floor: "monotonic-read",
		About: "A slot is free, and the limit is learned from how long calls take: between 64 and 1000. A fixed limit of 64 is there to compare with.",
		Entries: []Entry{
			doEntry("gabion", learnedOnly(), nil, "through Do, with all else off"),
			doEntry("gabion-fixed", bulkheadOnly(), nil, "the same with a fixed limit"),
			{Name: "gabion-parts", Kind: Gabion, Note: "packages bulkhead and learned, and two readings of the clock", Start: learnedParts},
			{Name: "failsafe-go-permit", Note: "its adaptive limiter, alone", Start: learnedPermit},
			{Name: "failsafe-go", Note: "its executor", Start: func(*Run) func(*Worker) func() bool {
				return executor(failsafe.With[int](failsafeLimiter[int]()))
			}},
			{Name: "aegis", Note: "BBR of go-kratos; its CPU threshold is out of reach, so that it lets all in", Start: learnedBBR},
		},
	}}
}

func learnedOnly() policy.Policy {
	p := nothing()
	p.Bulkhead = policy.Bulkhead{Limit: policy.Learned, Min: leastSlots, Max: mostSlots}
	return p
}

func learnedParts(*Run) func(*Worker) func() bool {
	epoch := time.Now()
	b := bulkhead.New(leastSlots, 2*leastSlots, false)
	l := learned.New(instant(epoch), learned.NewRule(learned.Bounds{Min: leastSlots, Max: mostSlots}, leastSlots), shards())
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			sent := instant(epoch)
			s, ok := b.TryAcquire("", w.ID)
			if !ok {
				return false
			}
			v, err := work()
			now := instant(epoch)
			if limit, moved := l.Done(now, w.ID, now.Sub(sent), learned.Worked); moved {
				b.Resize(limit, 2*limit)
			}
			b.Release(s, w.ID)
			return w.Right(v, err)
		}
	}
}

func failsafeLimiter[R any]() adaptivelimiter.AdaptiveLimiter[R] {
	return adaptivelimiter.NewBuilder[R]().WithLimits(leastSlots, mostSlots, leastSlots).Build()
}

func learnedPermit(*Run) func(*Worker) func() bool {
	l := failsafeLimiter[int]()
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			p, ok := l.TryAcquirePermit()
			if !ok {
				return false
			}
			v, err := work()
			p.Record()
			return w.Right(v, err)
		}
	}
}

// aegisLimiter refuses by concurrency only while the machine's processors are busier than
// its threshold, in thousandths. Benchmarks are what makes them busy.
func aegisLimiter() *bbr.BBR { return bbr.NewLimiter(bbr.WithCPUThreshold(1001)) }

func learnedBBR(*Run) func(*Worker) func() bool {
	l := aegisLimiter()
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			done, err := l.Allow()
			if err != nil {
				return false
			}
			v, err := work()
			done(ratelimit.DoneInfo{Err: err})
			return w.Right(v, err)
		}
	}
}
