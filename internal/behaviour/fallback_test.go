package behaviour

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// G7: a fallback answers the reasons that it names, never while an effect is
// unknown, and each answer is counted.
func TestFallbackAnswersOnlyWhatItNames(t *testing.T) {
	noEffect := classify.Throttled(errors.New("busy"), 0)
	cases := []struct {
		name  string
		on    []gabion.Reason
		work  error
		opts  []gabion.CallOption
		falls bool
	}{
		{"named, and nothing happened", []gabion.Reason{policy.AttemptsExhausted}, noEffect, nil, true},
		{"named, but it may have happened", []gabion.Reason{policy.AttemptsExhausted}, errDown, nil, false},
		{"not named", []gabion.Reason{policy.BreakerOpen}, noEffect, nil, false},
		{"success", []gabion.Reason{policy.AttemptsExhausted, policy.None}, nil, nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Pace: policy.Pace{Off: true}})
				var got error
				f := gabion.Fallback[int]{On: c.on, Answer: func(ctx context.Context, err error) (int, error) { got = err; return 42, nil }}
				v, err := gabion.DoOr(t.Context(), d, withResult(fails(c.work)), f, c.opts...)
				if fell := v == 42 && err == nil; fell != c.falls || fell != (got != nil) {
					t.Fatalf("%d, %v, the fallback got %v", v, err, got)
				}
				want := 0
				if c.falls {
					want = 1
					wantReason(t, got, policy.AttemptsExhausted)
				} else if c.work != nil && !errors.Is(err, c.work) {
					t.Errorf("the real error is lost: %v", err)
				}
				if n := count(rec, kind(policy.KindFellBack)); n != want || d.Stats().Fallbacks != int64(want) {
					t.Errorf("%d events, %d counted, want %d", n, d.Stats().Fallbacks, want)
				}
			})
		})
	}
}

func TestFallbackAnswersAnOpenBreakerAndMayFailItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Breaker: eager(time.Minute)})
		d.Run(t.Context(), fails(errDown))
		f := gabion.Fallback[int]{On: []gabion.Reason{policy.BreakerOpen}, Answer: func(context.Context, error) (int, error) { return 7, errPermanent }}
		if v, err := gabion.DoOr(t.Context(), d, withResult(works), f); v != 7 || err != errPermanent {
			t.Errorf("%d, %v", v, err)
		}
	})
}

// never is for fallbacks that answer nothing here.
var never = []gabion.Reason{policy.UnknownDependency}

// Share exercises the fallback on good days.
func TestFallbackShareIsExercised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, share := range []policy.Ratio{0, 0.1, 1} {
			d, _ := watched(policy.Policy{})
			f := gabion.Fallback[int]{On: never, Share: share, Answer: func(_ context.Context, err error) (int, error) {
				if err != nil {
					t.Errorf("exercised with %v", err)
				}
				return 2, nil
			}}
			var answered [3]int
			for range 2000 {
				v, _ := gabion.DoOr(t.Context(), d, withResult(works), f)
				answered[v]++
			}
			if got, want := answered[2], int(2000*share); got < want*8/10 || got > want*12/10 {
				t.Errorf("share %v: %d of 2000 went to the fallback", share, got)
			}
			if d.Stats().Fallbacks != int64(answered[2]) {
				t.Errorf("%d counted, %d made", d.Stats().Fallbacks, answered[2])
			}
		}
	})
}

// A result that the fallback's answer replaces reaches no caller, so it is discarded like those of
// earlier attempts.
func TestFallbackDiscardsTheResultThatItTakesThePlaceOf(t *testing.T) {
	busy := func(v any, err error) policy.Outcome {
		if err != nil {
			return classify.Error(err)
		}
		return policy.Outcome{Class: policy.ClassServer} // a 200 that is a failure, and did nothing
	}
	cases := map[string]struct {
		hedges    int
		on        []gabion.Reason
		fails     bool
		made, won int
	}{
		"it answers":                {on: []gabion.Reason{policy.AttemptsExhausted}, made: 3},
		"it answers a hedged call":  {hedges: 1, on: []gabion.Reason{policy.AttemptsExhausted}, made: 3},
		"it answers another reason": {on: []gabion.Reason{policy.BreakerOpen}, made: 3, won: 1},
		"there is no result":        {on: []gabion.Reason{policy.AttemptsExhausted}, fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := watched(policy.Policy{
					Safe: true, Hedge: policy.Hedge{Off: c.hedges == 0, Max: c.hedges, Delay: time.Hour}, Timeout: policy.Timeout{Call: 2 * time.Hour},
				}, gabion.WithClassify(busy))
				made, lost := 0, map[any]int{}
				work := func(context.Context) (int, error) {
					if c.fails {
						return 0, classify.Throttled(errDown, 0)
					}
					made++
					return made, nil
				}
				f := gabion.Fallback[int]{On: c.on, Answer: func(context.Context, error) (int, error) { return -1, nil }}
				v, _ := gabion.DoOr(t.Context(), d, work, f, gabion.WithDiscard(func(v any) { lost[v]++ }))
				won := 0
				if v > 0 {
					won = 1
				}
				if made < c.made || won != c.won || len(lost) != made-won {
					t.Errorf("%d results were made, %d handed out, discarded are %v", made, won, lost)
				}
				for v, n := range lost {
					if n != 1 {
						t.Errorf("%v was discarded %d times", v, n)
					}
				}
			})
		})
	}
}

// A fallback that is meant for outages answers all of one, whatever ends the calls: here
// nothing ever worked, the slots are taken, the breaker is open.
func TestFallbackForAnOutageAnswersAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := new(gabiontest.Recorder)
		d := gabion.New("db", policy.Policy{Safe: true, Bulkhead: policy.Bulkhead{Limit: 4, Queue: policy.Off}}, gabion.WithObserver(rec))
		down := func(context.Context) (int, error) {
			time.Sleep(20 * time.Millisecond)
			return 0, refused{}
		}
		f := gabion.Fallback[int]{On: gabion.Unavailable(), Answer: func(context.Context, error) (int, error) { return 42, nil }}
		var wg sync.WaitGroup
		for i := range 600 {
			time.Sleep(20 * time.Millisecond)
			n := 1
			if i%50 == 0 {
				n = 8
			}
			for range n {
				wg.Go(func() {
					if v, err := gabion.DoOr(t.Context(), d, down, f); v != 42 || err != nil {
						t.Errorf("%d, %v", v, err)
					}
				})
			}
		}
		wg.Wait()
		reasons := map[gabion.Reason]bool{}
		for _, e := range rec.Events() {
			if e.Kind == policy.KindFellBack {
				reasons[e.Reason] = true
			}
		}
		for _, r := range []gabion.Reason{policy.BreakerOpen, policy.AllFailing, policy.BulkheadFull} {
			if !reasons[r] {
				t.Errorf("nothing ended with %v: %v", r, reasons)
			}
		}
	})
}

// refused is an answer of a dependency that fails before it begins.
type refused struct{}

func (refused) Error() string { return "refused" }
func (refused) Outcome() policy.Outcome {
	return policy.Refused(policy.ClassServer)
}
