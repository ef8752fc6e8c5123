package bench

import (
	"context"
	"errors"
	"time"

	cenkalti "github.com/cenkalti/backoff/v7"
	eabreaker "github.com/eapache/go-resiliency/breaker"
	"github.com/eapache/go-resiliency/deadline"
	"github.com/eapache/go-resiliency/retrier"
	easemaphore "github.com/eapache/go-resiliency/semaphore"
	"github.com/failsafe-go/failsafe-go"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/gabion-go/gabion"
	"golang.org/x/sync/semaphore"
)

func stacks() []*Contest {
	return []*Contest{
		{
			Name: "stack", Title: "The full stack, Done not asked for", Runs: 1, Headline: true, Floor: "context.WithTimeout",
			About: "Timeout, retry, breaker, bulkhead around work that succeeds. Gabion does more than its peers here: " + Extra, Entries: stackEntries(failRate),
		},
		{
			Name: "stack-done", Title: "The full stack, Done asked for", Runs: 1, Listens: true, Headline: true, Floor: "context.WithTimeout+Done",
			About: "The same, with work that selects on its context's Done.", Entries: stackEntries(failRate),
		},
		{
			Name: "stack-two", Title: "The full stack, two failures", Runs: 3, Fails: 2, Headline: true, Floor: "context.WithTimeout",
			About:   "Two transient failures without a wait, then success. To make this possible, every breaker opens only at 100 % failures, and gabion's budget allows 3 retries a call. Both still count.",
			Entries: stackEntries(sparedFailRate),
		},
	}
}

// Extra says what gabion does in the full stack that the settings don't ask for.
const Extra = "a second timeout for the attempt, a retry budget that every call pays into, a slow-call rate, a bounded queue with a timeout at " +
	"the bulkhead, pacing by Retry-After, a deadline that the context really says, classification of errors, an error that says whether the " +
	"effect may have happened, and counts that survive a change of the policy at any time."

func stackEntries(rate float64) []Entry {
	p := whole()
	if rate == sparedFailRate {
		p.Breaker.FailureRate, p.Retry.Budget = sparedFailRate, sparedBudget
	}
	deaf := gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) {}))
	return []Entry{
		doEntry("gabion", p, nil, "Do"),
		doEntry("gabion-observed", p, []gabion.Option{deaf}, "with an observer that gets every event and does nothing"),
		{Name: "hand-leanest", Kind: Hand, Note: "context.WithTimeout, a loop, gobreaker, a buffered channel", Start: stackLeanest(rate)},
		{Name: "hand-usual", Kind: Hand, Note: "context.WithTimeout, cenkalti/backoff, gobreaker, x/sync", Start: stackUsual(rate)},
		{Name: "failsafe-go", Note: "context passed on, without a deadline", Start: stackFailsafe(rate, executorContext)},
		{Name: "failsafe-go-no-context", Weaker: true, Note: "the work gets no context", Start: stackFailsafe(rate, executor)},
		{Name: "eapache", Weaker: true, Note: "four parts composed; a breaker without a window or a rate", Start: stackEapache},
	}
}

var errRefused = errors.New("refused")

func stackLeanest(rate float64) func(*Run) func(*Worker) func() bool {
	return func(*Run) func(*Worker) func() bool {
		b, free := gobreakerOf(rate, time.Second), make(chan struct{}, slots)
		return func(w *Worker) func() bool {
			parent := context.Background()
			return func() bool {
				ctx, cancel := context.WithTimeout(parent, limit)
				defer cancel()
				try := func() (int, error) {
					select {
					case free <- struct{}{}:
					default:
						return 0, errRefused
					}
					defer func() { <-free }()
					return w.Work(ctx)
				}
				var v int
				var err error
				for range attempts {
					if v, err = b.Execute(try); err == nil || ctx.Err() != nil {
						break
					}
				}
				return w.Right(v, err)
			}
		}
	}
}

func stackUsual(rate float64) func(*Run) func(*Worker) func() bool {
	return func(*Run) func(*Worker) func() bool {
		b, s := gobreakerOf(rate, time.Second), semaphore.NewWeighted(slots)
		return func(w *Worker) func() bool {
			parent := context.Background()
			return func() bool {
				ctx, cancel := context.WithTimeout(parent, limit)
				defer cancel()
				inner := func() (int, error) {
					if err := s.Acquire(ctx, 1); err != nil {
						return 0, err
					}
					defer s.Release(1)
					return w.Work(ctx)
				}
				try := func() (int, error) { return b.Execute(inner) }
				return w.Right(cenkalti.Retry(ctx, try, cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}), cenkalti.WithMaxTries(attempts)))
			}
		}
	}
}

func stackFailsafe(rate float64, use func(failsafe.Executor[int]) func(*Worker) func() bool) func(*Run) func(*Worker) func() bool {
	return func(r *Run) func(*Worker) func() bool {
		play := use(failsafe.With[int](timeout.New[int](limit), failsafeRetry(), failsafeBreaker(rate), fsbulkhead.New[int](slots)))
		return play
	}
}

func stackEapache(r *Run) func(*Worker) func() bool {
	d, re := deadline.New(limit), retrier.New(retrier.ConstantBackoff(attempts-1, 0), nil)
	b, s := eabreaker.New(1<<30, 1, window), easemaphore.New(slots, time.Second)
	return func(w *Worker) func() bool {
		v, listens := 0, r.contest.Listens
		w.listens = false // there is no context to listen to, but a channel
		return func() bool {
			err := d.Run(func(stop <-chan struct{}) error {
				return re.Run(func() error {
					return b.Run(func() (err error) {
						if err := s.Acquire(); err != nil {
							return err
						}
						defer s.Release()
						if listens {
							select {
							case <-stop:
								return errBlip
							default:
							}
						}
						v, err = w.Plain()
						return err
					})
				})
			})
			return w.Right(v, err)
		}
	}
}
