package bench

import (
	"context"
	"time"

	eabreaker "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
	"github.com/sony/gobreaker/v2"
)

func breakers() []*Contest {
	return []*Contest{
		{
			Name: "breaker-closed", Title: "Breaker, closed", Runs: 1, Headline: true, Floor: "monotonic-read",
			About: "A call that succeeds, counted by failure rate over a window.",
			Entries: []Entry{
				breakerPart(false, "package breaker; one reading of the clock serves both verbs"),
				doEntry("gabion-do", breakerOnly(policy.Off), nil, "through Do, with all else off: two readings, an error type, a context, classification"),
				{Name: "failsafe-go-permit", Note: "its acquire and record calls", Start: closedPermit},
				{Name: "failsafe-go", Note: "its executor", Start: closedFailsafe},
				{Name: "gobreaker", Note: "fixed window: forgets all at once", Start: closedGobreaker(0)},
				{Name: "gobreaker-rolling", Note: "ten buckets", Start: closedGobreaker(time.Second)},
				{Name: "eapache", Weaker: true, Note: "no window and no rate: counts errors that come close together", Start: closedEapache},
			},
		},
		{
			Name: "breaker-slow", Title: "Breaker, closed, with slow-call rate", Runs: 1, Floor: "monotonic-read",
			About: "As above, and calls over 4 s count as slow. No peer has such a rule. Compare with their figures above.",
			Entries: []Entry{
				breakerPart(true, "package breaker; a reading of the clock before and one after"),
				doEntry("gabion-do", breakerOnly(4*time.Second), nil, "through Do, with all else off"),
			},
		},
		{
			Name: "breaker-open", Title: "Breaker, open", Runs: 0, Headline: true, Floor: "monotonic-read",
			About: "A call that is refused. Each must count as refused, and the work must not run.",
			Entries: []Entry{
				{Name: "gabion", Kind: Gabion, Note: "package breaker", Start: openPart},
				{Name: "gabion-do", Kind: Gabion, Note: "through Do: an Error that says why and when to come back is allocated", Start: openDo},
				{Name: "failsafe-go-permit", Start: openPermit},
				{Name: "failsafe-go", Start: openFailsafe},
				{Name: "gobreaker", Start: openGobreaker(0)},
				{Name: "gobreaker-rolling", Start: openGobreaker(time.Second)},
				{Name: "eapache", Weaker: true, Note: "reads no clock: a sleeping goroutine ends the open time", Start: openEapache},
			},
		},
	}
}

func breakerRules(slow time.Duration) *breaker.Rules {
	return &breaker.Rules{
		Window: window, MinCalls: minCalls, FailureRate: failRate, SlowCall: slow, SlowRate: 0.8,
		Open: openFor, OpenMax: openFor, Probes: 3, ProbeTimeout: limit,
	}
}

func breakerPart(slow bool, note string) Entry {
	return Entry{Name: "gabion", Kind: Gabion, Note: note, Start: func(*Run) func(*Worker) func() bool {
		var longest time.Duration
		if slow {
			longest = 4 * time.Second
		}
		b, epoch := breaker.New(breakerRules(longest), shards(), 1, nil), time.Now()
		return func(w *Worker) func() bool {
			work := w.Plain
			return func() bool {
				now := instant(epoch)
				p, _, ok := b.Acquire(now, w.ID)
				if !ok {
					return false
				}
				v, err := work()
				verdict := breaker.Good
				if err != nil {
					verdict = breaker.Bad
				}
				if slow {
					now = instant(epoch)
				}
				b.Settle(now, w.ID, p, verdict, 0)
				return w.Right(v, err)
			}
		}
	}}
}

func breakerOnly(slow time.Duration) policy.Policy {
	p := nothing()
	p.Breaker = guarded()
	p.Breaker.SlowCall = slow
	return p
}

// doEntry is an entry that calls Do with a policy.
func doEntry(name string, p policy.Policy, opts []gabion.Option, note string) Entry {
	return Entry{Name: name, Kind: Gabion, Note: note, Start: func(*Run) func(*Worker) func() bool {
		return doCalls(gabion.New("bench", p, opts...))
	}}
}

func doCalls(d *gabion.Dependency) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		ctx, work := context.Background(), w.Work
		return func() bool {
			v, err := gabion.Do(ctx, d, work)
			return w.Right(v, err)
		}
	}
}

func closedPermit(*Run) func(*Worker) func() bool {
	b := failsafeBreaker(failRate)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			if !b.TryAcquirePermit() {
				return false
			}
			v, err := work()
			if err != nil {
				b.RecordError(err)
			} else {
				b.RecordSuccess()
			}
			return w.Right(v, err)
		}
	}
}

func closedFailsafe(*Run) func(*Worker) func() bool {
	return executor(failsafe.With[int](failsafeBreaker(failRate)))
}

// executor is failsafe-go as it is used when the work needs no context.
func executor(e failsafe.Executor[int]) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool { return w.Right(e.Get(work)) }
	}
}

// executorContext is failsafe-go with the caller's context handed in and the
// attempt's context handed to the work.
func executorContext(e failsafe.Executor[int]) func(*Worker) func() bool {
	return func(w *Worker) func() bool {
		ctx := context.Background()
		work := func(x failsafe.Execution[int]) (int, error) { return w.Work(x.Context()) }
		return func() bool { return w.Right(e.WithContext(ctx).GetWithExecution(work)) }
	}
}

func closedGobreaker(bucket time.Duration) func(*Run) func(*Worker) func() bool {
	return func(*Run) func(*Worker) func() bool {
		b := gobreakerOf(failRate, bucket)
		return func(w *Worker) func() bool {
			work := w.Plain
			return func() bool { return w.Right(b.Execute(work)) }
		}
	}
}

func closedEapache(*Run) func(*Worker) func() bool {
	b := eabreaker.New(minCalls/2, 1, window)
	return func(w *Worker) func() bool {
		var v int
		work := func() (err error) { v, err = w.Plain(); return err }
		return func() bool {
			err := b.Run(work)
			return w.Right(v, err)
		}
	}
}

func openPart(*Run) func(*Worker) func() bool {
	b, epoch := breaker.New(breakerRules(0), shards(), 1, nil), time.Now()
	for b.State() == breaker.Closed {
		p, _, _ := b.Acquire(instant(epoch), 0)
		b.Settle(instant(epoch), 0, p, breaker.Bad, 0)
	}
	return func(w *Worker) func() bool {
		return func() bool {
			_, after, ok := b.Acquire(instant(epoch), w.ID)
			return !ok && after > 0
		}
	}
}

func openDo(r *Run) func(*Worker) func() bool {
	d, ctx := gabion.New("bench", breakerOnly(policy.Off)), context.Background()
	for range minCalls {
		if _, err := gabion.Do(ctx, d, func(context.Context) (int, error) { return 0, errBlip }); err == nil {
			r.Fatal("a failure was lost")
		}
	}
	return func(w *Worker) func() bool {
		work := w.Work
		return func() bool {
			_, err := gabion.Do(ctx, d, work)
			e, ok := err.(*gabion.Error) // Do returns nothing else, and looking for it would cost more than Do
			return ok && e.Reason == policy.BreakerOpen
		}
	}
}

func openPermit(*Run) func(*Worker) func() bool {
	b := failsafeBreaker(failRate)
	b.Open()
	return func(*Worker) func() bool { return func() bool { return !b.TryAcquirePermit() } }
}

func openFailsafe(*Run) func(*Worker) func() bool {
	b := failsafeBreaker(failRate)
	b.Open()
	e := failsafe.With[int](b)
	return func(w *Worker) func() bool {
		work := w.Plain
		return func() bool {
			_, err := e.Get(work)
			return err != nil
		}
	}
}

func openGobreaker(bucket time.Duration) func(*Run) func(*Worker) func() bool {
	return func(*Run) func(*Worker) func() bool {
		b := gobreakerOf(failRate, bucket)
		for b.State() != gobreaker.StateOpen {
			_, _ = b.Execute(func() (int, error) { return 0, errBlip })
		}
		return func(w *Worker) func() bool {
			work := w.Plain
			return func() bool {
				_, err := b.Execute(work)
				return err == gobreaker.ErrOpenState
			}
		}
	}
}

func openEapache(*Run) func(*Worker) func() bool {
	b := eabreaker.New(1, 1, openFor)
	_ = b.Run(func() error { return errBlip })
	return func(w *Worker) func() bool {
		work := func() error { _, err := w.Plain(); return err }
		return func() bool { return b.Run(work) == eabreaker.ErrBreakerOpen }
	}
}
