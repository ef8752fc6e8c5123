package behaviour

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

func TestAnObserverComesAndGoes(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	d.Run(t.Context(), works)
	rec := new(gabiontest.Recorder)
	stop := d.Observe(rec)
	d.Run(t.Context(), works)
	handOn(t, d, "").Trip()
	if got := rec.Decisions(); !slices.Equal(got, []string{"attempt_sent #1", "attempt_settled #1 success", "returned after 1", "breaker_moved closed→open by forced"}) {
		t.Errorf("while it observes it gets %q", got)
	}
	had := len(rec.Events())
	stop()
	stop()
	d.Run(t.Context(), works)
	handOn(t, d, "").Reset()
	later := new(gabiontest.Recorder)
	defer d.Observe(later)()
	d.Run(t.Context(), works)
	if n := len(rec.Events()); n != had {
		t.Errorf("after stop it gets %d more", n-had)
	}
	if got := later.Decisions(); len(got) != 3 {
		t.Errorf("one that comes later gets events from before: %q", got)
	}
	d.Observe(nil)()
}

// values is an observer that can't be compared with another.
type values []*gabiontest.Recorder

func (v values) Observe(ctx context.Context, e gabion.Event) { v[0].Observe(ctx, e) }

func TestAnObserverThatIsAttachedTwiceIsToldOnce(t *testing.T) {
	reg, err := gabion.NewRegistry(map[string]policy.Policy{"db": {}})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := reg.Get("db")
	rec, apart := new(gabiontest.Recorder), new(gabiontest.Recorder)
	told := func(r *gabiontest.Recorder) int {
		had := len(r.Events())
		d.Run(t.Context(), works)
		return len(r.Events()) - had
	}
	first, second := reg.Observe(rec), d.Observe(rec)
	defer d.Observe(values{apart})()
	defer d.Observe(values{apart})()
	const once = 3
	if n := told(rec); n != once {
		t.Errorf("told %d events of a call", n)
	}
	if n := told(apart); n != 2*once {
		t.Errorf("two that can't be compared are told %d", n)
	}
	if first(); told(rec) != once {
		t.Error("the one that goes takes the other with it")
	}
	if second(); told(rec) != 0 {
		t.Error("both are stopped, and it gets events")
	}
}

func TestObserversComeAndGoUnderLoad(t *testing.T) {
	defer gabiontest.NoLeaks(t)
	d := gabion.New("db", policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(10 * time.Microsecond)}, Hedge: policy.Hedge{Max: 1, Delay: 2 * time.Millisecond}})
	always := new(gabiontest.Recorder)
	defer d.Observe(always)()
	var sent, ended atomic.Int64
	var callers, watchers sync.WaitGroup
	over := make(chan struct{})
	for i := range 4 {
		callers.Go(func() {
			for n := range 300 {
				gabion.Do(t.Context(), d, func(context.Context) (int, error) {
					sent.Add(1)
					if (n+i)%3 == 0 {
						return 0, errDown
					}
					return 1, nil
				})
				ended.Add(1)
			}
		})
	}
	for range 2 {
		watchers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				stop := d.Observe(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) { _ = e.String() }))
				quiet := d.Observe(gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("observer") }))
				stop()
				quiet()
			}
		})
	}
	callers.Wait()
	close(over)
	watchers.Wait()
	gabiontest.NothingHeld(t, d)
	var told, returned int64
	for _, e := range always.Events() {
		switch e.Kind {
		case policy.KindAttemptSent:
			told++
		case policy.KindReturned:
			returned++
		}
	}
	if told != sent.Load() || returned != ended.Load() {
		t.Errorf("told of %d attempts of %d and %d calls of %d", told, sent.Load(), returned, ended.Load())
	}
}

func TestWhoObservesARegistryIsToldOfAllThatItHas(t *testing.T) {
	r, err := gabion.NewRegistry(map[string]policy.Policy{"a": {}, "gone": {}})
	if err != nil {
		t.Fatal(err)
	}
	host := func(name string) *gabion.Dependency {
		d, err := r.Instance("a", name)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	get := func(name string) *gabion.Dependency {
		d, err := r.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	early, gone := host("early"), get("gone")
	if err := r.Reload(map[string]policy.Policy{"a": {}}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	told := map[string]int{}
	stop := r.Observe(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
		if e.Kind == policy.KindReturned {
			mu.Lock()
			told[e.Dependency]++
			mu.Unlock()
		}
	}))
	if err := r.Reload(map[string]policy.Policy{"a": {}, "b": {}}); err != nil {
		t.Fatal(err)
	}
	all := []*gabion.Dependency{get("a"), get("b"), early, host("late"), gone}
	call := func() {
		for _, d := range all {
			d.Run(t.Context(), works)
		}
	}
	call()
	want := map[string]int{"a": 1, "b": 1, "a/early": 1, "a/late": 1, "gone": 1}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told of %v, want %v", told, want)
	}
	stop()
	call()
	host("later still").Run(t.Context(), works)
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("after stop told of %v", told)
	}
	var names []string
	for _, d := range r.All() {
		names = append(names, d.Name())
	}
	if got := fmt.Sprint(names); got != "[a a/early a/late a/later still b]" {
		t.Errorf("all are %s", got)
	}
}

// What decided can be said from the event alone.
func TestEventsSayWhy(t *testing.T) {
	down := fails(classify.Transient(errDown))
	cases := []struct {
		fact string
		p    policy.Policy
		run  func(*testing.T, *gabion.Dependency)
		kind policy.Kind
		why  gabion.Reason
		want func(gabion.Event) bool
	}{
		{
			"a spent window budget has calls, sent and allowed",
			policy.Policy{Safe: true, Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetWindow, Ratio: policy.Off, Floor: policy.Off}}},
			func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), works); d.Run(t.Context(), down) },
			policy.KindReturned, policy.BudgetExhausted,
			func(e gabion.Event) bool { n := e.Numbers; return n.Calls == 2 && n.Resends == 0 && n.Allowed == 0 },
		},
		{
			"a full bulkhead has slots in use and the queue",
			policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}},
			func(t *testing.T, d *gabion.Dependency) {
				d.Run(t.Context(), func(context.Context) error { d.Run(t.Context(), works); return nil })
			},
			policy.KindAttemptRefused, policy.BulkheadFull,
			func(e gabion.Event) bool { n := e.Numbers; return n.InUse == 1 && n.Limit == 1 && n.Queued == 0 },
		},
		{
			"a throttle has requests, accepts and k",
			policy.Policy{Throttle: policy.Throttle{K: 2}, Breaker: policy.Breaker{Off: true}},
			func(t *testing.T, d *gabion.Dependency) {
				for range 50 {
					d.Run(t.Context(), down)
				}
			},
			policy.KindAttemptRefused, policy.ThrottledLocally,
			func(e gabion.Event) bool { n := e.Numbers; return n.Requests > 1 && n.Accepts == 0 && n.Over == 2 },
		},
		{
			"a deadline has what is left and what is needed",
			policy.Policy{Safe: true, Timeout: policy.Timeout{Call: time.Second}, Retry: policy.Retry{Backoff: every(2 * time.Second)}},
			func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), down) },
			policy.KindReturned, policy.DeadlineShort,
			func(e gabion.Event) bool { n := e.Numbers; return n.Left == time.Second && n.Need > 2*time.Second },
		},
		{
			"a rate limit has the wait and the longest that may be",
			policy.Policy{RateLimit: policy.RateLimit{Rate: 1, Burst: 1, MaxWait: policy.Off}},
			func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), works); d.Run(t.Context(), works) },
			policy.KindAttemptRefused, policy.RateLimited,
			func(e gabion.Event) bool { n := e.Numbers; return n.Need > 999*time.Millisecond && n.Left == 0 },
		},
		{
			"a breaker that opens has the counts and the rule",
			policy.Policy{Safe: true, Breaker: policy.Breaker{FailureRate: 0.5, MinCalls: 4}, Retry: policy.Retry{Attempts: 1}},
			func(t *testing.T, d *gabion.Dependency) {
				for range 4 {
					d.Run(t.Context(), down)
				}
			},
			policy.KindBreakerMoved, policy.None,
			func(e gabion.Event) bool { n := e.Numbers; return n.Calls == 4 && n.Failures == 4 && n.Rule == 0.5 },
		},
		{
			"an attempt has the time that is left to its call",
			policy.Policy{Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}},
			func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), works) },
			policy.KindAttemptSent, policy.None,
			func(e gabion.Event) bool { return e.Left == 3*time.Second },
		},
		{
			"an attempt of a call without a deadline says so",
			policy.Policy{Timeout: policy.Timeout{Call: policy.Off}},
			func(t *testing.T, d *gabion.Dependency) { d.Run(t.Context(), works) },
			policy.KindAttemptSent, policy.None,
			func(e gabion.Event) bool { return e.Left == policy.NoDeadline },
		},
		{
			"a return tells hedges from retries, and whose the answer is",
			policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Millisecond}},
			func(t *testing.T, d *gabion.Dependency) {
				gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
					if gabion.AttemptNumber(ctx) == 1 {
						return 0, lasts(time.Second, nil)(ctx)
					}
					return 1, nil
				})
			},
			policy.KindReturned, policy.None,
			func(e gabion.Event) bool { return e.Attempt == 2 && e.Hedges == 1 && e.Hedge },
		},
		{
			"a return has the last code",
			policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 2}},
			func(t *testing.T, d *gabion.Dependency) {
				classed := gabion.WithClassify(func(_ int, err error) policy.Outcome {
					return policy.Outcome{Class: policy.ClassServer, Code: "503"}
				})
				gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 0, errDown }, classed)
			},
			policy.KindReturned, policy.AttemptsExhausted,
			func(e gabion.Event) bool { return e.Code == "503" },
		},
	}
	for _, c := range cases {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(c.p)
				c.run(t, d)
				for _, e := range rec.Events() {
					if e.Kind == c.kind && e.Reason == c.why {
						if !c.want(e) {
							t.Errorf("%+v with %+v", e, e.Numbers)
						}
						return
					}
				}
				t.Errorf("it was never told: %q", rec.Decisions())
			})
		})
	}
}

// choosy wants some kinds only.
type choosy struct {
	gabiontest.Recorder
	wants []policy.Kind
}

func (c *choosy) Wants(k policy.Kind) bool { return slices.Contains(c.wants, k) }

func TestASelectiveObserverIsSparedWhatItDoesNotWant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 2, Backoff: every(time.Millisecond)}, Breaker: policy.Breaker{Off: true}}
		ends := &choosy{wants: []policy.Kind{policy.KindReturned}}
		settled := &choosy{wants: []policy.Kind{policy.KindAttemptSettled, policy.KindReloaded}}
		d := gabion.New("db", p, gabion.WithObserver(ends), gabion.WithObserver(settled))
		d.Run(t.Context(), fails(errDown))
		d.Reload(p)
		for _, c := range []struct {
			who  *choosy
			want string
		}{
			{ends, "[attempt_sent #2 returned after 2 attempts_exhausted]"},
			{settled, "[attempt_settled #1 server attempt_sent #2 attempt_settled #2 server reloaded]"},
		} {
			if got := fmt.Sprint(c.who.Decisions()); got != c.want {
				t.Errorf("told %s, want %s", got, c.want)
			}
		}
		for _, e := range settled.Events() {
			if e.Kind == policy.KindAttemptSettled && e.Left != d.Policy().Timeout.Call && e.Attempt == 1 {
				t.Errorf("when it was sent, %s were left", e.Left)
			}
		}
		all := new(gabiontest.Recorder)
		defer d.Observe(all)()
		d.Run(t.Context(), works)
		if got := fmt.Sprint(all.Decisions(), ends.Decisions()[2:], settled.Decisions()[4:]); got !=
			"[attempt_sent #1 attempt_settled #1 success returned after 1] [returned after 1] [attempt_settled #1 success]" {
			t.Errorf("beside one that wants all: %s", got)
		}
	})
}
