package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
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

// reload puts p in force.
func reload(t *testing.T, d *gabion.Dependency, p policy.Policy) {
	t.Helper()
	if err := d.Reload(p); err != nil {
		t.Fatal(err)
	}
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

// together makes so many calls at once and returns how many reached the work, and
// how many ended for that reason.
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

func TestPartitionsOfATimeWithoutABreakerGetOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Off: true}})
		for i := range 50 {
			d.Run(t.Context(), works, gabion.WithPartition(fmt.Sprint(i)))
		}
		reload(t, d, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}})
		for i := range 50 {
			name := fmt.Sprint(i)
			handOn(t, d, name) // at once, not only when it is next called
			d.Run(t.Context(), fails(errDown), gabion.WithPartition(name))
			if got := partition(t, d, name).Breaker.State; got != breaker.Open {
				t.Errorf("the breaker of %s is %s", name, got)
			}
		}
		nothingHeld(t, d)
	})
}

func TestBreakerThatIsSwitchedOffIsGone(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	d.Run(t.Context(), works, gabion.WithPartition("a"))
	handOn(t, d, "").Trip()
	handOn(t, d, "a").Trip()
	reload(t, d, policy.Policy{Breaker: policy.Breaker{Off: true}})
	for _, name := range []string{"", "a"} {
		if _, ok := d.Breaker(name); ok {
			t.Errorf("there is a breaker of %q", name)
		}
		if err := d.Run(t.Context(), works, gabion.WithPartition(name)); err != nil {
			t.Error(err)
		}
	}
	if s := d.Stats(); s.Main.Guarded || s.Partitions[0].Guarded {
		t.Errorf("Stats shows one: %+v", s)
	}
}

func TestUnknownClassIsUnclassifiedAndLosesNothing(t *testing.T) {
	hedge := policy.Hedge{Max: 1, Delay: time.Second}
	for _, class := range []policy.Class{policy.ClassCrashed + 1, 77, math.MaxUint8} {
		for name, call := range map[string]func(context.Context, *gabion.Dependency) error{
			"run": func(ctx context.Context, d *gabion.Dependency) error { return d.Run(ctx, works) },
			"do": func(ctx context.Context, d *gabion.Dependency) error {
				_, err := gabion.Do(ctx, d, withResult(works))
				return err
			},
			"open": func(ctx context.Context, d *gabion.Dependency) error {
				_, a, err := gabion.Open(ctx, d, withResult(works))
				if a != nil {
					a.Close(nil)
				}
				return err
			},
			"begin": func(ctx context.Context, d *gabion.Dependency) error {
				a, err := gabion.Begin(ctx, d)
				if err != nil {
					return err
				}
				defer a.Close(nil)
				return a.Settle(errDown)
			},
		} {
			for _, h := range []policy.Hedge{{}, hedge} {
				t.Run(fmt.Sprintf("%d/%s/hedge=%d", class, name, h.Max), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						d := gabion.New("db", policy.Policy{Safe: true, Hedge: h, Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}},
							says(policy.Outcome{Class: class}))
						for range 2 {
							wantReason(t, call(t.Context(), d), policy.UnclassifiedError)
						}
						nothingHeld(t, d)
						if calls, failures := counts(d); calls != 2 || failures != 2 {
							t.Errorf("the breaker counted %d calls, %d failures", calls, failures)
						}
					})
				})
			}
		}
	}
}

func TestNobodySleepsForPaceIntoAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Consecutive: 1, Open: 15 * time.Second, OpenJitter: policy.Off}},
			says(policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: 5 * time.Second}))
		d.Run(t.Context(), works)
		start := time.Now()
		err := d.Run(t.Context(), works)
		wantReason(t, err, policy.BreakerOpen)
		wantElapsed(t, start, 0)
		if got := asError(t, err).RetryAfter; got != 15*time.Second {
			t.Errorf("RetryAfter is %s", got)
		}
	})
}

func TestCallsThatPacingHoldsSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{}, gabion.WithSeed(1))
		const hold = 4 * time.Second
		d.Run(t.Context(), works, gabion.ClassifyWith(func(any, error) policy.Outcome {
			return policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: hold}
		}))
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		together(t, d, 50, policy.None, func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			return nil
		})
		slices.Sort(at)
		if len(at) != 50 || at[0] < hold || at[49] >= 6250*time.Millisecond || at[49]-at[0] < time.Second {
			t.Errorf("they went at %v", at)
		}
		if n := len(slices.Compact(at)); n < 45 {
			t.Errorf("50 calls went at %d moments", n)
		}
	})
}

func TestNoAttemptStartsAfterAWaitThatLeftLessThanTheMargin(t *testing.T) {
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		busy   time.Duration // how long the call before is out
		pause  time.Duration // from its start to the call's
		want   gabion.Reason
	}{
		{"slot, 49 ms left", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}, 951 * time.Millisecond, 0, policy.DeadlineShort},
		{"slot, 50 ms left", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}, 950 * time.Millisecond, 0, policy.None},
		{"rate, 49 ms left: not waited for", policy.Policy{RateLimit: policy.RateLimit{Rate: 1}}, 0, 49 * time.Millisecond, policy.RateLimited},
		{"rate, 50 ms left", policy.Policy{RateLimit: policy.RateLimit{Rate: 1}}, 0, 50 * time.Millisecond, policy.None},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.policy.Timeout = policy.Timeout{Call: time.Second, Margin: 50 * time.Millisecond}
				d, rec := watched(c.policy)
				go d.Run(t.Context(), lasts(c.busy, nil))
				synctest.Wait()
				time.Sleep(c.pause)
				wantReason(t, d.Run(t.Context(), works), c.want)
				sent := 2
				if c.want != policy.None {
					sent = 1
				}
				rec.WantAttempts(t, sent)
				nothingHeld(t, d)
			})
		})
	}
}

func TestCallersInAHurryNeverOpenTheBreaker(t *testing.T) {
	limited := func(limit time.Duration) func(*testing.T, *gabion.Dependency) error {
		return func(t *testing.T, d *gabion.Dependency) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return d.Run(ctx, hangs)
		}
	}
	for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
		for _, c := range []struct {
			fact string
			call func(*testing.T, *gabion.Dependency) error
			want breaker.State
		}{
			{"deadline of a microsecond", limited(time.Microsecond), breaker.Closed},
			{"deadline just below the margin", limited(50*time.Millisecond - 1), breaker.Closed},
			{"deadline of the margin counts", limited(50 * time.Millisecond), breaker.Open},
			{"timeout of the call below the margin", func(t *testing.T, d *gabion.Dependency) error {
				return d.Run(t.Context(), hangs, gabion.WithTimeout(time.Millisecond))
			}, breaker.Closed},
		} {
			t.Run(fmt.Sprintf("%s/per=%d", c.fact, per), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Per: per, Consecutive: 3}, Timeout: policy.Timeout{Margin: 50 * time.Millisecond}})
					for range 3 {
						wantReason(t, c.call(t, d), policy.CallTimeout)
					}
					wantState(t, d, c.want)
				})
			})
		}
	}
}

// A timeout that the policy itself sets is the dependency's to keep, however short.
func TestHangIsAFailureUnderAPolicyFasterThanItsMargin(t *testing.T) {
	for _, limit := range []policy.Timeout{
		{Call: 30 * time.Millisecond},
		{Call: time.Second, Attempt: 30 * time.Millisecond},
		{Call: 30 * time.Millisecond, Attempt: policy.Off},
	} {
		t.Run(fmt.Sprintf("call %s attempt %s", limit.Call, limit.Attempt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", policy.Policy{Timeout: limit, Breaker: policy.Breaker{Consecutive: 3}})
				for range 3 {
					d.Run(t.Context(), hangs)
				}
				wantState(t, d, breaker.Open)
			})
		})
	}
}

func TestLongQueueDoesNotOpenTheBreakerOfAHealthyDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Timeout:  policy.Timeout{Call: time.Second},
			Bulkhead: policy.Bulkhead{Limit: 1, QueueTimeout: policy.Off, Queue: 200},
			Breaker:  policy.Breaker{Consecutive: 1},
		})
		ran, short := together(t, d, 100, policy.DeadlineShort, lasts(19*time.Millisecond, nil))
		if ran != 51 || short == 0 { // at 0, 19, … 950 ms
			t.Errorf("%d ran, %d were refused for want of time", ran, short)
		}
		wantState(t, d, breaker.Closed)
		nothingHeld(t, d)
	})
}

func TestSettleAfterCloseKeepsTheError(t *testing.T) {
	d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
	a := begin(t, d)
	a.Close(nil)
	err := a.Settle(errDown)
	if asError(t, err); !errors.Is(err, errDown) {
		t.Errorf("it says %v", err)
	}
	if err := a.Settle(nil); err != nil {
		t.Errorf("of a success it says %v", err)
	}
	_, a, err = gabion.Open(t.Context(), d, withResult(works))
	if err != nil {
		t.Fatal(err)
	}
	a.Close(nil)
	if err := a.Settle(errDown); !errors.Is(err, errDown) {
		t.Errorf("of an open result it says %v", err)
	}
	gabiontest.NothingHeld(t, d)
}

func TestRetryAfterOfAPlanCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Safe:    true,
			Timeout: policy.Timeout{Call: time.Minute},
			Retry:   policy.Retry{Backoff: every(20 * time.Second)},
			Breaker: policy.Breaker{Consecutive: 1, Open: 30 * time.Second, OpenJitter: policy.Off},
		})
		err := d.Run(t.Context(), fails(errDown))
		wantReason(t, err, policy.BreakerOpen)
		if got := asError(t, err).RetryAfter; got != 30*time.Second {
			t.Errorf("RetryAfter is %s", got)
		}
		time.Sleep(asError(t, err).RetryAfter)
		if err := d.Run(t.Context(), works); err != nil {
			t.Errorf("after that time: %v", err)
		}
	})
}

func TestColdPercentileHedgesOnlyWithADelay(t *testing.T) {
	for delay, want := range map[time.Duration]int{0: 20, 10 * time.Millisecond: 40} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Percentile: 0.95, Delay: delay}, Retry: policy.Retry{Budget: free}})
				for range 20 {
					gabion.Do(t.Context(), d, withResult(lasts(20*time.Millisecond, nil)))
				}
				synctest.Wait()
				rec.WantAttempts(t, want)
			})
		})
	}
}

func TestReloadKeepsAHandsWord(t *testing.T) {
	observing := policy.Policy{Breaker: policy.Breaker{Observe: true}}
	for _, c := range []struct {
		fact     string
		from, to policy.Policy
		move     func(gabion.Breaker)
		want     breaker.State
	}{
		{"forced open, observing to refusing", observing, policy.Policy{}, func(b gabion.Breaker) { b.ForceOpen(0) }, breaker.ForcedOpen},
		{"forced open, refusing to observing", policy.Policy{}, observing, func(b gabion.Breaker) { b.ForceOpen(0) }, breaker.ForcedOpen},
		{"isolated, observing to refusing", observing, policy.Policy{}, func(b gabion.Breaker) { b.Isolate() }, breaker.ForcedOpen},
		{"isolated, refusing to observing", policy.Policy{}, observing, func(b gabion.Breaker) { b.Isolate() }, breaker.ForcedOpen},
		{"disabled, observing to refusing", observing, policy.Policy{}, gabion.Breaker.Disable, breaker.Disabled},
		{"disabled, refusing to observing", policy.Policy{}, observing, gabion.Breaker.Disable, breaker.Disabled},
		{"observing by hand", policy.Policy{}, policy.Policy{Safe: true}, gabion.Breaker.ObserveOnly, breaker.ObserveOnly},
	} {
		t.Run(c.fact, func(t *testing.T) {
			d := gabion.New("db", c.from)
			c.move(handOn(t, d, ""))
			reload(t, d, c.to)
			wantState(t, d, c.want)
			want := policy.None
			if c.want == breaker.ForcedOpen {
				want = policy.BreakerOpen
			}
			wantReason(t, d.Run(t.Context(), works), want)
		})
	}
}

func TestRefusalOfALayerBelowSaysNothingAboveAndIsNotRetried(t *testing.T) {
	below := map[gabion.Reason]func(*testing.T) *gabion.Dependency{
		policy.BreakerOpen: func(t *testing.T) *gabion.Dependency {
			d := gabion.New("inner", policy.Policy{})
			handOn(t, d, "").ForceOpen(0)
			return d
		},
		policy.BulkheadFull: func(t *testing.T) *gabion.Dependency {
			d := gabion.New("inner", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}})
			a := begin(t, d)
			t.Cleanup(func() { a.Close(nil) })
			return d
		},
		policy.RateLimited: func(t *testing.T) *gabion.Dependency {
			d := gabion.New("inner", policy.Policy{RateLimit: policy.RateLimit{Rate: 1e-3, MaxWait: policy.Off}})
			d.Run(t.Context(), works)
			return d
		},
	}
	for why, make := range below {
		t.Run(why.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := make(t)
				outer, rec := watched(policy.Policy{Safe: true, Breaker: policy.Breaker{Consecutive: 3}})
				for range 4 {
					err := outer.Run(t.Context(), func(ctx context.Context) error { return inner.Run(ctx, works) })
					wantReason(t, err, policy.DoNotRetry)
					if !errors.Is(err, why) {
						t.Errorf("the reason below is lost: %v", err)
					}
				}
				rec.WantAttempts(t, 4)
				if calls, _ := counts(outer); calls != 0 {
					t.Errorf("the breaker above counted %d", calls)
				}
				if n := count(rec, func(e gabion.Event) bool { return e.Class == policy.ClassRejected }); n != 4 {
					t.Errorf("%d attempts were reported as rejected", n)
				}
			})
		})
	}
}

func TestEveryPartitionOfStatsHasAHand(t *testing.T) {
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Partitions: 1, Consecutive: 1}})
	for _, name := range []string{"a", "b"} {
		d.Run(t.Context(), fails(errDown), gabion.WithPartition(name))
	}
	for _, l := range d.Stats().Partitions {
		handOn(t, d, l.Name).Reset()
		if got := partition(t, d, l.Name).Breaker.State; got != breaker.Closed {
			t.Errorf("%s is %s after its reset", l.Name, got)
		}
	}
	if partition(t, d, policy.Overflow); d.Stats().Spilled != 1 {
		t.Errorf("%d spilled", d.Stats().Spilled)
	}
}

func TestPartitionLabelsOfEventsAreBounded(t *testing.T) {
	synctest.Test(t, partitionLabelsOfEventsAreBounded)
}

func partitionLabelsOfEventsAreBounded(t *testing.T) {
	for _, c := range []struct {
		partitions int
		want       []string
	}{
		{2, []string{policy.Overflow, "host0", "host1"}},
		{policy.Off, []string{""}},
	} {
		d, rec := watched(policy.Policy{Safe: true, Breaker: policy.Breaker{Partitions: c.partitions, Consecutive: 1}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}})
		for i := range 100 {
			name := gabion.WithPartition(fmt.Sprint("host", i))
			d.Run(t.Context(), fails(errDown), name)
			gabion.Do(t.Context(), d, withResult(works), name)
			if a, err := gabion.Begin(t.Context(), d, name); err == nil {
				a.Close(nil)
			}
		}
		var got []string
		for _, e := range rec.Events() {
			got = append(got, e.Partition)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, c.want) {
			t.Errorf("with %d partitions events name %q", c.partitions, got)
		}
	}
}

func TestObserverThatLeavesByGoexitDoesNotSilenceTheEvents(t *testing.T) {
	var left bool
	var after []policy.Kind
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Consecutive: 1}}, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
		if e.Kind == policy.KindBreakerMoved && !left {
			left = true
			runtime.Goexit()
		}
		if left && e.Kind == policy.KindBreakerMoved {
			after = append(after, e.Kind)
		}
	})))
	inItsOwnGoroutine(func() { d.Run(context.Background(), fails(errDown)) })
	b := handOn(t, d, "")
	b.Reset()
	b.Trip()
	if !left || len(after) != 2 {
		t.Errorf("after it left, it was told of %d of 2 moves", len(after))
	}
	gabiontest.NothingHeld(t, d)
}

func TestOneAttemptThatFailedIsAllAttempts(t *testing.T) {
	d := gabion.New("db", policy.Policy{Safe: true})
	wantReason(t, d.Run(t.Context(), fails(errDown), gabion.WithoutRetry()), policy.AttemptsExhausted)
	a := begin(t, d)
	defer a.Close(nil)
	wantReason(t, a.Settle(errDown), policy.AttemptsExhausted)
}

func TestMistakesInCodeAreClearErrors(t *testing.T) {
	ctx := t.Context()
	answer := func(context.Context, error) (int, error) { return 0, nil }
	called := false
	work := func(context.Context) (int, error) { called = true; return 1, nil }
	share := func(s policy.Ratio) error {
		_, err := gabion.DoOr(ctx, gabion.New("db", policy.Policy{}), work, gabion.Fallback[int]{On: never, Answer: answer, Share: s})
		return err
	}
	unmade := func(call func(*gabion.Dependency) error) error { return call(new(gabion.Dependency)) }
	noName := "the name is empty: errors and events would not say who was called"
	noDependency := "gabion: invalid: the dependency is nil, or not made by New"
	for _, c := range []struct {
		fact string
		err  error
		want string
	}{
		{"Do", unmade(func(d *gabion.Dependency) error { _, err := gabion.Do(ctx, d, work); return err }), noDependency},
		{"Run", unmade(func(d *gabion.Dependency) error { return d.Run(ctx, works) }), noDependency},
		{"Open", unmade(func(d *gabion.Dependency) error { _, _, err := gabion.Open(ctx, d, work); return err }), noDependency},
		{"Begin", unmade(func(d *gabion.Dependency) error { _, err := gabion.Begin(ctx, d); return err }), noDependency},
		{"DoOr", unmade(func(d *gabion.Dependency) error {
			_, err := gabion.DoOr(ctx, d, work, gabion.Fallback[int]{On: never, Answer: answer})
			return err
		}), noDependency},
		{"fallback without an answer", func() error {
			_, err := gabion.DoOr(ctx, gabion.New("db", policy.Policy{}), work, gabion.Fallback[int]{})
			return err
		}(), "db: invalid: the fallback's Answer is nil"},
		{"fallback without reasons", func() error {
			_, err := gabion.DoOr(ctx, gabion.New("db", policy.Policy{}), work, gabion.Fallback[int]{Answer: answer, Share: 0.5})
			return err
		}(), "db: invalid: the fallback names no reasons, so that it never answers: On: gabion.Unavailable() are those of a dependency that could not be had"},
		{"share of 5", share(5), "db: invalid: the fallback's share of 5 is not between 0 and 1"},
		{"share below 0", share(-0.5), "db: invalid: the fallback's share of -0.5 is not between 0 and 1"},
		{"share of NaN", share(policy.Ratio(math.NaN())), "db: invalid: the fallback's share of NaN is not between 0 and 1"},
		{"empty name", func() error { _, err := gabion.Make("", policy.Policy{}); return err }(), noName},
		{"empty registry", func() error {
			r, err := gabion.NewRegistry(nil)
			if err != nil {
				return err
			}
			_, err = r.Get("db")
			return err
		}(), "db: unknown_dependency: none is declared"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("%s: %v", c.fact, c.err)
		}
	}
	if called {
		t.Error("the work was called all the same")
	}
	if _, err := gabion.NewRegistry(map[string]policy.Policy{"": {}}); err == nil {
		t.Error("a registry takes an empty name")
	}
	r, _ := gabion.NewRegistry(nil)
	if err := r.Reload(map[string]policy.Policy{"": {}}); err == nil {
		t.Error("a reload takes an empty name")
	}
}

func TestNothingsAreHarmless(t *testing.T) {
	d := gabion.New("db", policy.Policy{}, nil, gabion.WithObserver(nil), nil)
	if err := d.Run(t.Context(), works, gabion.CallOption{}); err != nil {
		t.Error(err)
	}
	if v := panicOf(func() {
		var b gabion.Breaker
		off, _ := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Off: true}}).Breaker("")
		for _, b := range []gabion.Breaker{b, off} {
			b.ForceOpen(0)
			b.Trip()
			b.Disable()
			b.ObserveOnly()
			b.Reset()
			b.Isolate()()
			if b.HalfOpen() == nil {
				t.Error("what is not there half-opened")
			}
		}
	}); v != nil {
		t.Errorf("a hand on nothing panics: %v", v)
	}
}

func TestOneAnswerClosesADependencyNoLongerThanMaxAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Retry:   policy.Retry{MaxAfter: 10 * time.Second},
			Pace:    policy.Pace{Off: true},
			Breaker: policy.Breaker{Consecutive: 1, Open: time.Second, OpenMax: time.Hour, OpenJitter: policy.Off},
		})
		d.Run(t.Context(), works, gabion.ClassifyWith(func(any, error) policy.Outcome {
			return policy.Outcome{Class: policy.ClassServer, HasAfter: true, After: math.MaxInt64}
		}))
		time.Sleep(10*time.Second - 1)
		wantReason(t, d.Run(t.Context(), works), policy.BreakerOpen)
		time.Sleep(1)
		wantReason(t, d.Run(t.Context(), works), policy.None)
	})
}

func TestPartitionThatAskedForTimeIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{
			Pace: policy.Pace{Max: time.Minute}, Retry: policy.Retry{MaxAfter: time.Minute},
			Breaker: policy.Breaker{Partitions: 1, PartitionIdle: time.Second},
		})
		d.Run(t.Context(), works, gabion.WithPartition("asked"), gabion.ClassifyWith(func(any, error) policy.Outcome {
			return policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: time.Minute}
		}))
		time.Sleep(30 * time.Second)
		d.Run(t.Context(), works, gabion.WithPartition("other"))
		if got := partition(t, d, "asked").Paced; got != 30*time.Second {
			t.Errorf("it is held back for %s", got)
		}
		time.Sleep(31 * time.Second)
		d.Run(t.Context(), works, gabion.WithPartition("third"))
		partition(t, d, "third") // then it is, and there is room
	})
}

func TestFasterRateLimitForgetsTheTurnsOfTheSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{RateLimit: policy.RateLimit{Rate: 1.0 / 60}})
		d.Run(t.Context(), works)
		wantReason(t, d.Run(t.Context(), works), policy.RateLimited)
		reload(t, d, policy.Policy{RateLimit: policy.RateLimit{Rate: 100}})
		start := time.Now()
		wantReason(t, d.Run(t.Context(), works), policy.None)
		wantElapsed(t, start, 0)
	})
}

func TestBodyThatBreaksIsAFailureAlsoPerCall(t *testing.T) {
	for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
		d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Per: per, Consecutive: 1}})
		_, a, err := gabion.Open(t.Context(), d, withResult(works))
		if err != nil {
			t.Fatal(err)
		}
		wantState(t, d, breaker.Closed)
		a.Close(errDown)
		wantState(t, d, breaker.Open)
	}
}

func TestThrottledAnswerIsNoAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Pace: policy.Pace{Off: true}, Throttle: policy.Throttle{K: 2}}, says(policy.Outcome{Class: policy.ClassThrottled}))
		for range 200 {
			d.Run(t.Context(), works)
		}
		if n := rec.Load().Refused[policy.ThrottledLocally]; n < 100 {
			t.Errorf("of 200 calls that the dependency throttles %d were rejected here", n)
		}
	})
}

// atOrigin is a context whose deadline is the very moment at which a dependency was
// made, and that has not ended yet.
type atOrigin struct {
	context.Context
	at time.Time
}

func (c atOrigin) Deadline() (time.Time, bool) { return c.at, true }

func TestDeadlineAtTheOriginIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{})
		wantReason(t, d.Run(atOrigin{t.Context(), time.Now()}, works), policy.CallTimeout)
		rec.WantAttempts(t, 0)
	})
}

// T17, T19 (C30): of many calls at once a half-open breaker admits its probes and
// no more.
func TestTrapT17_T19_HalfOpenAdmitsOnlyItsProbes(t *testing.T) {
	for _, probes := range []int{1, 3} {
		t.Run(fmt.Sprint(probes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := eager(time.Second)
				rules.Probes = probes
				d := gabion.New("db", policy.Policy{Breaker: rules})
				d.Run(t.Context(), fails(errDown))
				time.Sleep(time.Second)
				ran, refused := together(t, d, 50, policy.BreakerOpen, lasts(time.Millisecond, nil))
				if ran != probes || refused != 50-probes {
					t.Errorf("%d ran, %d were refused", ran, refused)
				}
				wantState(t, d, breaker.Closed)
			})
		})
	}
}

// T17 (C33): probes that never come home make room for others.
func TestTrapT17_HungProbesDoNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := eager(time.Second)
		rules.Probes, rules.OpenGrowth = 3, 1
		d := gabion.New("db", policy.Policy{Breaker: rules})
		d.Run(t.Context(), fails(errDown))
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 3 { // of open, half-open with three that hang, open again
			time.Sleep(time.Second)
			for range 3 {
				wg.Go(func() { d.Run(t.Context(), func(context.Context) error { <-release; return nil }) })
			}
			synctest.Wait()
			wantReason(t, d.Run(t.Context(), works), policy.BreakerOpen)
			time.Sleep(time.Second) // the probes' own time
			wantState(t, d, breaker.Open)
		}
		time.Sleep(time.Second)
		if ran, _ := together(t, d, 3, policy.None, works); ran != 3 {
			t.Errorf("%d probes after nine hung", ran)
		}
		wantState(t, d, breaker.Closed)
		close(release)
		wg.Wait()
		wantState(t, d, breaker.Closed)
		nothingHeld(t, d)
	})
}

// T19: there is no wait after the last attempt.
func TestTrapT19_NoSleepAfterTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: every(time.Second)}})
		start := time.Now()
		wantReason(t, d.Run(t.Context(), fails(errDown)), policy.AttemptsExhausted)
		wantElapsed(t, start, 2*time.Second)
		rec.WantAttempts(t, 3)
	})
}
