package behaviour

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

func TestOneWhoComesLaterIsNotToldOfBefore(t *testing.T) {
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Failures: 1}})
	begun, err := gabion.Begin(t.Context(), d) // a call that is not observed
	if err != nil {
		t.Fatal(err)
	}
	stop := d.Observe(new(gabiontest.Recorder))
	begun.Settle(errDown)
	begun.Close(nil)
	stop()
	later := new(gabiontest.Recorder)
	defer d.Observe(later)()
	d.Run(t.Context(), works)
	if got := later.Decisions(); len(got) != 2 {
		t.Errorf("it gets %q", got)
	}
}

func TestACallThatIsTurnedAwaySaysWhatItHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := new(gabiontest.Recorder)
		d := gabion.New("db", policy.Policy{}, gabion.WithObserver(rec))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		d.Run(ctx, works, gabion.WithKey(""), gabion.WithOperation("pay"))
		d.Run(t.Context(), works, gabion.WithKey(""), gabion.WithTimeout(time.Second))
		d.Run(t.Context(), works, gabion.WithKey(""))
		var lefts []time.Duration
		for _, e := range rec.Events() {
			if e.Kind == policy.KindAttemptRefused {
				lefts = append(lefts, e.Left)
			}
		}
		if want := []time.Duration{3 * time.Second, time.Second, d.Policy().Timeout.Call}; !slices.Equal(lefts, want) {
			t.Errorf("they had %v, want %v", lefts, want)
		}
	})
}

func TestAFallbackIsToldWithItsOperation(t *testing.T) {
	rec := new(gabiontest.Recorder)
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{}}, gabion.WithObserver(rec))
	handOn(t, d, "").ForceOpen(0)
	f := gabion.Fallback[int]{On: gabion.Unavailable(), Answer: func(context.Context, error) (int, error) { return 7, nil }}
	work := func(context.Context) (int, error) { return 1, nil }
	if v, err := gabion.DoOr(t.Context(), d, work, f, gabion.WithOperation("read")); v != 7 || err != nil {
		t.Fatal(v, err)
	}
	all := rec.Events()
	if e := all[len(all)-1]; e.Kind != policy.KindFellBack || e.Operation != "read" || e.Reason != policy.BreakerOpen {
		t.Errorf("told %+v", e)
	}
}

func TestEveryTracedCallReturns(t *testing.T) {
	open := map[uint64]int{}
	tr := &tracer{
		call:    func(ctx context.Context, e gabion.Event) context.Context { open[e.Call]++; return ctx },
		attempt: passes,
		observe: func(_ context.Context, e gabion.Event) {
			if e.Kind == policy.KindReturned {
				open[e.Call]--
			}
		},
	}
	d := gabion.New("db", policy.Policy{}, gabion.WithObserver(tr))
	d.Run(t.Context(), works)
	d.Run(t.Context(), works, gabion.WithKey(""))
	d.Run(t.Context(), works, gabion.WithClassify(func(int, error) policy.Outcome { return policy.Outcome{} }))
	for call, n := range open {
		if n != 0 {
			t.Errorf("call %d was traced, and returned %d times less", call, n)
		}
	}
	if len(open) != 3 {
		t.Errorf("%d calls were traced, of 3", len(open))
	}
}

func TestHedgesThatAreNotMadeSayWhy(t *testing.T) {
	for _, c := range []struct {
		fact string
		p    policy.Policy
		want policy.Reason
	}{
		{"the dependency asks for too long", policy.Policy{Retry: policy.Retry{MaxAfter: time.Second}}, policy.RetryAfterTooLong},
		{"the dependency asks for longer than the call has", policy.Policy{Timeout: policy.Timeout{Call: 2 * time.Second}}, policy.RetryAfterTooLong},
		{"the rate limit has no turn", policy.Policy{RateLimit: policy.RateLimit{Rate: 1, Burst: 1}}, policy.RateLimited},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := new(gabiontest.Recorder)
				p := c.p
				p.Safe, p.Hedge = true, policy.Hedge{Max: 1, Delay: 100 * time.Millisecond}
				d := gabion.New("db", gabiontest.FreeRetries(p), gabion.WithObserver(rec))
				gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
					if c.want == policy.RateLimited {
						time.Sleep(500 * time.Millisecond)
						return 0, nil
					}
					return 0, classify.Throttled(errDown, 5*time.Second)
				})
				i := slices.IndexFunc(rec.Events(), func(e gabion.Event) bool { return e.Kind == policy.KindHedgeSkipped })
				if i < 0 {
					t.Fatalf("no hedge is skipped: %v", rec.Decisions())
				}
				e := rec.Events()[i]
				if e.Reason != c.want || e.Numbers == nil || e.Numbers.Need <= e.Numbers.Left {
					t.Errorf("skipped: %v, numbers %+v", e, e.Numbers)
				}
			})
		})
	}
}

func TestANearDeadlineIsNotContradictedByItsNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := new(gabiontest.Recorder)
		d := gabion.New("db", gabiontest.FreeRetries(policy.Policy{Safe: true, Timeout: policy.Timeout{Call: 10 * time.Second, Margin: time.Second}}), gabion.WithObserver(rec))
		err := d.Run(t.Context(), fails(classify.Throttled(errDown, 9900*time.Millisecond)))
		gabiontest.WantReason(t, err, policy.RetryAfterTooLong)
		all := rec.Events()
		if n := all[len(all)-1].Numbers; n == nil || n.Need <= n.Left {
			t.Errorf("too long, with %+v: %v", n, err)
		}
	})
}

func TestInstancesHearThatTheirParentsRetriesAreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := gabion.NewRegistry(map[string]policy.Policy{"api": {}})
		if err != nil {
			t.Fatal(err)
		}
		rec := new(gabiontest.Recorder)
		defer r.Observe(rec)()
		parent, _ := r.Get("api")
		parent.Retries().By("ada").Stop(time.Minute)
		time.Sleep(2 * time.Minute)
		one, _ := r.Instance("api", "a")
		one.Run(t.Context(), fails(errDown))
		n := 0
		for _, e := range rec.Events() {
			if e.Kind == policy.KindRetriesSwitched {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d switches were told, of 2: %v", n, rec.Decisions())
		}
	})
}

func TestAReleasedBreakerIsWhatThePolicySaysByThen(t *testing.T) {
	for _, was := range []bool{false, true} {
		t.Run(fmt.Sprintf("observe was %v", was), func(t *testing.T) {
			d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Observe: was}})
			release := handOn(t, d, "").Isolate()
			mustReload(t, d, policy.Policy{Breaker: policy.Breaker{Observe: !was}})
			release()
			want := policy.StateClosed
			if !was {
				want = policy.StateObserveOnly
			}
			if got := d.Stats().Main.Breaker.State; got != want {
				t.Errorf("released it is %s, want %s", got, want)
			}
		})
	}
}
