package gabion_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

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
				classify := gabion.ClassifyWith(func(v any, _ error) policy.Outcome {
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
