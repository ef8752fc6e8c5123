package bench

import (
	"context"
	"runtime"
	"time"

	easemaphore "github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivethrottler"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	fslimiter "github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/internal/throttle"
	"github.com/gabion-go/gabion/policy"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

func limits() []*Contest {
	return []*Contest{
		{
			Name: "bulkhead", Title: "Bulkhead", Runs: 1, Floor: "atomic-add",
			About: "A slot is free.",
			Entries: []Entry{
				{Name: "gabion", Kind: Gabion, Note: "package bulkhead, queue of 128", Start: bulkheadPart},
				doEntry("gabion-do", bulkheadOnly(), nil, "through Do, with all else off"),
				{Name: "hand", Kind: Hand, Note: "a buffered channel", Start: bulkheadHand},
				{Name: "x/sync", Note: "semaphore.Weighted", Start: bulkheadSync},
				{Name: "failsafe-go-permit", Start: bulkheadPermit},
				{Name: "failsafe-go", Note: "its executor", Start: bulkheadFailsafe},
				{Name: "eapache", Note: "semaphore", Start: bulkheadEapache},
			},
		},
		{
			Name: "rate-limit", Title: "Rate limiter", Runs: 1, Floor: "monotonic-read",
			About: "A turn is free: 10⁹ a second, bursts of 10⁶ (through gabion's Do 10⁶ a second, the most that a policy allows, with a new limiter before each burst is used up).",
			Entries: []Entry{
				{Name: "gabion", Kind: Gabion, Note: "package ratelimit", Start: ratePart},
				{Name: "gabion-do", Kind: Gabion, Note: "through Do, with all else off", Start: rateDo},
				{Name: "x/time/rate", Start: rateTime},
				{Name: "failsafe-go-bursty-permit", Start: ratePermit(fslimiter.NewBursty[int](1e9, time.Second))},
				{Name: "failsafe-go-smooth-permit", Start: ratePermit(fslimiter.NewSmoothWithMaxRate[int](1))},
				{Name: "failsafe-go", Note: "bursty, its executor", Start: func(*Run) func(*Worker) func() bool {
					return executor(failsafe.With[int](fslimiter.NewBursty[int](1e9, time.Second)))
				}},
			},
		},
		{
			Name: "throttle", Title: "Adaptive throttle", Runs: 1, Floor: "monotonic-read",
			About: "Rejects by the share of recent calls that were accepted; here all are. Window 2 min, K = 2.",
			Entries: []Entry{
				throttlePart("gabion", false, "package throttle; one reading of the clock serves all verbs"),
				throttlePart("gabion-two-readings", true, "a reading before and one after, as Do takes them"),
				{Name: "gabion-do", Kind: Gabion, Note: "through Do, with all else off", Start: throttleDo},
				{Name: "failsafe-go-permit", Start: throttlePermit},
				{Name: "failsafe-go", Note: "its executor", Start: func(*Run) func(*Worker) func() bool {
					return executor(failsafe.With[int](failsafeThrottler()))
				}},
			},
		},
	}
}

func bulkheadOnly() policy.Policy {
	p := nothing()
	p.Bulkhead = policy.Bulkhead{Limit: slots}
	return p
}

func bulkheadPart(*Run) func(*Worker) func() bool {
	b := bulkhead.New(slots, 2*slots, false)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			s, ok := b.TryAcquire("", w.ID)
			if !ok {
				return false
			}
			v, err := work()
			b.Release(s, w.ID)
			return w.Right(v, err)
		}
	}
}

func bulkheadHand(*Run) func(*Worker) func() bool {
	free := make(chan struct{}, slots)
	return func(w *Worker) func() bool {
		ctx, work := context.Background(), w.Plain
		return func() bool {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return false
			}
			v, err := work()
			<-free
			return w.Right(v, err)
		}
	}
}

func bulkheadSync(*Run) func(*Worker) func() bool {
	s := semaphore.NewWeighted(slots)
	return func(w *Worker) func() bool {
		ctx, work := context.Background(), w.Plain
		return func() bool {
			if s.Acquire(ctx, 1) != nil {
				return false
			}
			v, err := work()
			s.Release(1)
			return w.Right(v, err)
		}
	}
}

func bulkheadPermit(*Run) func(*Worker) func() bool {
	b := fsbulkhead.New[int](slots)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			if !b.TryAcquirePermit() {
				return false
			}
			v, err := work()
			b.ReleasePermit()
			return w.Right(v, err)
		}
	}
}

func bulkheadFailsafe(*Run) func(*Worker) func() bool {
	return executor(failsafe.With[int](fsbulkhead.New[int](slots)))
}

func bulkheadEapache(*Run) func(*Worker) func() bool {
	s := easemaphore.New(slots, time.Second)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			if s.Acquire() != nil {
				return false
			}
			v, err := work()
			s.Release()
			return w.Right(v, err)
		}
	}
}

const burst = 1_000_000

func ratePart(*Run) func(*Worker) func() bool {
	var l ratelimit.Limiter
	rules, epoch := ratelimit.Rules{Interval: 1, Burst: burst}, time.Now()
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			if _, ok := l.Reserve(instant(epoch), rules, 0); !ok {
				if _, ok = l.Reserve(instant(epoch), rules, 0); !ok { // the first reading may have been old
					return false
				}
			}
			return w.Right(work())
		}
	}
}

// rateDo changes the dependency before its burst can be used up.
func rateDo(*Run) func(*Worker) func() bool {
	p := nothing()
	p.RateLimit = policy.RateLimit{Rate: 1e6, Burst: burst, MaxWait: policy.Off}
	deps := make([]*gabion.Dependency, 64)
	for i := range deps {
		deps[i] = gabion.New("bench", p)
	}
	each := burst / (2 * runtime.GOMAXPROCS(0))
	return func(w *Worker) func() bool {
		ctx, work, i, left := context.Background(), w.Work, 0, each
		return func() bool {
			if left--; left == 0 {
				i, left = (i+1)%len(deps), each
			}
			return w.Right(gabion.Do(ctx, deps[i], work))
		}
	}
}

func rateTime(*Run) func(*Worker) func() bool {
	l := rate.NewLimiter(1e9, burst)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool { return l.Allow() && w.Right(work()) }
	}
}

func ratePermit(l fslimiter.RateLimiter[int]) func(*Run) func(*Worker) func() bool {
	return func(*Run) func(*Worker) func() bool {
		return func(w *Worker) func() bool {
			work := w.Plain
			return func() bool { return l.TryAcquirePermit() && w.Right(work()) }
		}
	}
}

const (
	throttleK      = 2
	throttleWindow = 2 * time.Minute
)

func throttleOnly() policy.Policy {
	p := nothing()
	p.Throttle = policy.Throttle{K: throttleK, Window: throttleWindow}
	return p
}

// throttleDo begins with calls that are not measured: the formula rejects some of the
// very first ones if they run at once, when none has been accepted yet.
func throttleDo(r *Run) func(*Worker) func() bool {
	d := gabion.New("bench", throttleOnly())
	for range minCalls {
		if err := d.Run(context.Background(), func(context.Context) error { return nil }); err != nil {
			r.Fatal(err)
		}
	}
	return doCalls(d)
}

func throttlePart(name string, again bool, note string) Entry {
	return Entry{Name: name, Kind: Gabion, Note: note, Start: func(*Run) func(*Worker) func() bool {
		t, epoch := throttle.Make(throttleWindow), time.Now()
		return func(w *Worker) func() bool {
			work := w.Plain
			return func() bool {
				sent := instant(epoch)
				p := t.Admit(sent, throttleK)
				if p > 0 && chance.U(uint64(w.ID), uint64(w.Ran), 0, chance.Throttled) < p {
					return false
				}
				v, err := work()
				now := sent
				if again {
					now = instant(epoch)
				}
				if err == nil {
					t.Accept(sent, now)
				}
				return w.Right(v, err)
			}
		}
	}}
}

func failsafeThrottler() adaptivethrottler.AdaptiveThrottler[int] {
	return adaptivethrottler.NewBuilder[int]().WithFailureRateThreshold(1-1.0/throttleK, minCalls, throttleWindow).Build()
}

func throttlePermit(*Run) func(*Worker) func() bool {
	t := failsafeThrottler()
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			if !t.TryAcquirePermit() {
				return false
			}
			v, err := work()
			if err == nil {
				t.RecordSuccess()
			} else {
				t.RecordFailure()
			}
			return w.Right(v, err)
		}
	}
}
