package behaviour

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// Facts that once were otherwise, and the traps of other libraries that no test
// elsewhere is named after. T14, the state of a breaker shared among processes, has
// no test because gabion has no such state: what a breaker knows stays in its
// process.

// says makes every result mean o.
func says(o policy.Outcome) gabion.Option {
	return gabion.WithClassify(func(any, error) policy.Outcome { return o })
}

// handOn is the breaker of that partition, which must be there.
func handOn(t *testing.T, d *gabion.Dependency, partition string) gabion.Breaker {
	t.Helper()
	b, ok := d.Breaker(partition)
	if !ok {
		t.Fatalf("there is no breaker of %q", partition)
	}
	return b
}

// partition is what is known of that one.
func partition(t *testing.T, d *gabion.Dependency, name string) policy.PartitionStats {
	t.Helper()
	all := d.Stats().Partitions
	i := slices.IndexFunc(all, func(l policy.PartitionStats) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("there is no partition %q", name)
	}
	return all[i]
}

// together makes n calls at once and returns how many reached the work, and how many ended for that
// reason.
func together(t *testing.T, d *gabion.Dependency, n int, why gabion.Reason, work func(context.Context) error) (ran, ended int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			err := d.Run(t.Context(), func(ctx context.Context) error {
				mu.Lock()
				ran++
				mu.Unlock()
				return work(ctx)
			})
			mu.Lock()
			defer mu.Unlock()
			if gabion.ReasonOf(err) == why {
				ended++
			}
		})
	}
	wg.Wait()
	return ran, ended
}

// verbs are the ways in, for what must hold for each.
var verbs = map[string]func(context.Context, *gabion.Dependency, func(context.Context) error, ...gabion.CallOption) error{
	"Do": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		_, err := gabion.Do(ctx, d, withResult(work), opts...)
		return err
	},
	"Run": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		return d.Run(ctx, work, opts...)
	},
	"Open": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		_, a, err := gabion.Open(ctx, d, withResult(work), opts...)
		if a != nil {
			a.Close(nil)
		}
		return err
	},
	"DoOr": func(ctx context.Context, d *gabion.Dependency, work func(context.Context) error, opts ...gabion.CallOption) error {
		f := gabion.Fallback[int]{On: never, Answer: func(_ context.Context, err error) (int, error) { return 0, err }}
		_, err := gabion.DoOr(ctx, d, withResult(work), f, opts...)
		return err
	},
}

func withResult(work func(context.Context) error) func(context.Context) (int, error) {
	if work == nil {
		return nil
	}
	return func(ctx context.Context) (int, error) { return 1, work(ctx) }
}

func TestADependencyBelongsToItsBubble(t *testing.T) {
	refused := func(t *testing.T, d *gabion.Dependency) {
		t.Helper()
		ran := 0
		work := func(context.Context) (int, error) { ran++; return 0, nil }
		for verb, call := range map[string]func() error{
			"Do":    func() error { _, err := gabion.Do(t.Context(), d, work); return err },
			"Run":   func() error { return d.Run(t.Context(), func(context.Context) error { ran++; return nil }) },
			"Open":  func() error { _, _, err := gabion.Open(t.Context(), d, work); return err },
			"Begin": func() error { _, err := gabion.Begin(t.Context(), d); return err },
		} {
			if err := call(); gabion.ReasonOf(err) != policy.Invalid || !strings.Contains(err.Error(), "bubble") {
				t.Errorf("%s: %v", verb, err)
			}
		}
		if s := d.Stats(); ran != 0 || s.Bulkhead.InUse != 0 {
			t.Errorf("the work ran %d times, and %d slots are taken", ran, s.Bulkhead.InUse)
		}
	}
	hedged := policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Percentile: policy.Off}}
	for name, p := range map[string]policy.Policy{"serial": {}, "hedged": hedged} {
		d := gabion.New("db", p)
		t.Run(name+", made outside, called inside", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { refused(t, d) })
		})
		t.Run(name+", made late in one bubble, called early in the next", func(t *testing.T) {
			var d *gabion.Dependency
			synctest.Test(t, func(*testing.T) { time.Sleep(time.Second); d = gabion.New("db", p) })
			synctest.Test(t, func(t *testing.T) { refused(t, d) })
		})
		t.Run(name+", made outside, called outside after all that", func(t *testing.T) {
			if err := d.Run(t.Context(), works); err != nil {
				t.Error(err)
			}
		})
	}
}

// watched makes a dependency whose events are kept. Make it inside the bubble.
//
// A policy that says nothing of its budget has one that allows a few retries from the
// start, which is what most tests are about.
func watched(p policy.Policy, opts ...gabion.Option) (*gabion.Dependency, *gabiontest.Recorder) {
	r := new(gabiontest.Recorder)
	if p.Retry.Budget == (policy.Budget{}) {
		p.Retry.Budget.Shape = policy.BudgetWindow
	}
	return gabion.New("db", p, append([]gabion.Option{gabion.WithSeed(1), gabion.WithObserver(r)}, opts...)...), r
}

// every waits exactly this long before each retry.
func every(d time.Duration) backoff.Backoff {
	return backoff.Backoff{Kind: backoff.Constant, Base: d, Cap: d}
}

// eager is a breaker that opens at the first failure and lets one probe decide.
func eager(open time.Duration) policy.Breaker {
	return policy.Breaker{MinCalls: 1, Open: open, OpenJitter: policy.Off, Probes: 1, SlowCall: policy.Off, ProbeTimeout: time.Second}
}

// free is a budget that is never the reason.
var free = policy.Budget{Off: true}

// fails is work that fails with err.
func fails(err error) func(context.Context) error { return func(context.Context) error { return err } }

// works is work that succeeds at once.
func works(context.Context) error { return nil }

// lasts is work that listens to its context.
func lasts(d time.Duration, err error) func(context.Context) error {
	return gabiontest.NewScript(gabiontest.Step{Takes: d, Err: err}).Run
}

// hangs is work that ends only with its context.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func wantReason(t *testing.T, err error, want gabion.Reason) {
	t.Helper()
	gabiontest.WantReason(t, err, want)
}

func wantState(t *testing.T, d *gabion.Dependency, want breaker.State) {
	t.Helper()
	if got := d.Stats().Main.Breaker.State; got != want {
		t.Errorf("the breaker is %s, want %s", got, want)
	}
}

func wantElapsed(t *testing.T, since time.Time, want time.Duration) {
	t.Helper()
	if got := time.Since(since); got != want {
		t.Errorf("it took %s, want %s", got, want)
	}
}

// nothingHeld also waits for goroutines of the bubble to rest.
func nothingHeld(t *testing.T, d *gabion.Dependency) {
	t.Helper()
	synctest.Wait()
	gabiontest.NothingHeld(t, d)
}

// count counts the events that match.
func count(r *gabiontest.Recorder, match func(gabion.Event) bool) (n int) {
	for _, e := range r.Events() {
		if match(e) {
			n++
		}
	}
	return n
}

func kind(k policy.Kind) func(gabion.Event) bool {
	return func(e gabion.Event) bool { return e.Kind == k }
}

// asError is err as the one type that calls end with.
func asError(t *testing.T, err error) *gabion.Error {
	t.Helper()
	e, ok := errors.AsType[*gabion.Error](err)
	if !ok {
		t.Fatalf("%v is no *gabion.Error", err)
	}
	return e
}

// panicOf runs f and returns what it panicked with.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
