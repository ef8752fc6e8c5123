package behaviour

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// reload puts p in force.
func reload(t *testing.T, d *gabion.Dependency, p policy.Policy) {
	t.Helper()
	if err := d.Reload(p); err != nil {
		t.Fatal(err)
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
		{"disabled, observing to refusing", observing, policy.Policy{}, func(b gabion.Breaker) { b.Disable(0) }, breaker.Disabled},
		{"disabled, refusing to observing", policy.Policy{}, observing, func(b gabion.Breaker) { b.Disable(0) }, breaker.Disabled},
		{"observing by hand for a time, observing to refusing", observing, policy.Policy{}, func(b gabion.Breaker) { b.ObserveOnly(time.Hour) }, breaker.ObserveOnly},
		{"observing by hand", policy.Policy{}, policy.Policy{Safe: true}, func(b gabion.Breaker) { b.ObserveOnly(0) }, breaker.ObserveOnly},
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

// A call ends on the policy that it began with.
func TestReloadLeavesCallsUnderWayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 4, Backoff: every(time.Second)}})
		n := 0
		work := func(context.Context) error {
			if n++; n == 2 {
				if err := d.Reload(policy.Policy{Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}}); err != nil {
					t.Error(err)
				}
			}
			return errDown
		}
		start := time.Now()
		wantReason(t, d.Run(t.Context(), work), policy.AttemptsExhausted)
		wantElapsed(t, start, 3*time.Second)
		rec.WantAttempts(t, 4)
		wantReason(t, d.Run(t.Context(), fails(errDown)), policy.AttemptsExhausted)
		rec.WantAttempts(t, 5)
		if n := count(rec, kind(policy.KindReloaded)); n != 1 {
			t.Errorf("%d reloads reported", n)
		}
	})
}

// Breakers keep what they know when the policy changes.
func TestReloadKeepsTheBreakersState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Minute)})
		d.Run(t.Context(), fails(errDown))
		p := policy.Policy{Breaker: eager(time.Minute), Retry: policy.Retry{Attempts: 5}}
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		wantState(t, d, breaker.Open)
		p.Breaker = policy.Breaker{Off: true}
		if err := d.Reload(p); err != nil {
			t.Fatal(err)
		}
		if err := d.Run(t.Context(), works); err != nil {
			t.Errorf("with the breaker off: %v", err)
		}
	})
}

// reloading is a context that reloads a dependency when a call asks for its deadline,
// which is after the call has chosen how it is driven.
type reloading struct {
	context.Context
	reload func()
}

// Deadline implements context.Context.
func (r reloading) Deadline() (time.Time, bool) {
	r.reload()
	return r.Context.Deadline()
}

func mustReload(t *testing.T, d *gabion.Dependency, p policy.Policy) {
	t.Helper()
	if err := d.Reload(p); err != nil {
		t.Fatal(err)
	}
}

// A call that was not going to hedge does not learn it from a reload on its way in: who
// drives it has one attempt out at a time.
func TestAReloadOnTheWayInMakesNobodyHedge(t *testing.T) {
	plain := policy.Policy{Safe: true}
	hedging := policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}}
	for _, how := range []string{"Do", "Open"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", plain)
				ctx := reloading{t.Context(), func() { mustReload(t, d, hedging) }}
				tries := 0
				work := func(context.Context) (int, error) { tries++; return tries, nil }
				classify := gabion.WithClassify(func(v any, _ error) policy.Outcome {
					if v == 1 {
						return policy.Outcome{Class: policy.ClassServer}
					}
					return policy.Outcome{}
				})
				var err error
				if how == "Do" {
					_, err = gabion.Do(ctx, d, work, classify)
				} else {
					var a *gabion.Attempt
					if _, a, err = gabion.Open(ctx, d, work, classify); a != nil {
						a.Close(nil)
					}
				}
				if err != nil || tries != 2 {
					t.Errorf("%d tries, %v", tries, err)
				}
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}

// Policy writes every default out. Who changes one field of it and reloads must not be
// told that a default has no effect any more.
func TestOneFieldOfThePolicyInForceMayBeChanged(t *testing.T) {
	hedging := policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1}}
	limited := policy.Policy{RateLimit: policy.RateLimit{Rate: 10}}
	for name, c := range map[string]struct {
		was    policy.Policy
		change func(*policy.Policy)
	}{
		"no rule of failures in a row": {change: func(p *policy.Policy) { p.Breaker.Consecutive = policy.Off }},
		"another budget":               {change: func(p *policy.Policy) { p.Retry.Budget.Shape = policy.BudgetWindow }},
		"no hedges":                    {hedging, func(p *policy.Policy) { p.Hedge.Max = 0 }},
		"no rate limit":                {limited, func(p *policy.Policy) { p.RateLimit.Rate = 0 }},
		"one partition":                {change: func(p *policy.Policy) { p.Partitions.Max = policy.Off }},
	} {
		t.Run(name, func(t *testing.T) {
			d := gabion.New("db", c.was)
			p := d.Policy()
			c.change(&p)
			if err := d.Reload(p); err != nil {
				t.Error(err)
			}
		})
	}
	d := gabion.New("db", policy.Policy{})
	if err := d.Reload(policy.Policy{Hedge: policy.Hedge{Delay: time.Second}, Timeout: policy.Timeout{Call: 30}}); err == nil {
		t.Error("a call of 30 ns is put in force")
	}
	if _, err := gabion.Make("db", policy.Policy{Hedge: policy.Hedge{Delay: time.Second}}); err == nil {
		t.Error("a new dependency may have a setting without an effect")
	}
}
