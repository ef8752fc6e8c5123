package behaviour

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// What observers and classifiers take is our time and not the dependency's: it makes
// no healthy dependency slow or late, nor its breaker open.
func TestTheTimeOfObserversIsNotTheDependencys(t *testing.T) {
	slow := map[string]gabion.Option{
		"observer":   gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) { time.Sleep(5 * time.Second) })),
		"classifier": gabion.WithClassify(func(any, error) policy.Outcome { time.Sleep(5 * time.Second); return policy.Outcome{} }),
	}
	for who, opt := range slow {
		for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
			for hedges := range 2 {
				if who == "classifier" && hedges > 0 {
					continue // a hedge may become due while the first answer is being read
				}
				for verb, call := range waiting {
					t.Run(fmt.Sprintf("%s/per=%d/hedges=%d/%s", who, per, hedges, verb), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							rec := 0
							d := gabion.New("db", policy.Policy{
								Timeout: policy.Timeout{Call: time.Minute, Attempt: 4 * time.Second},
								Breaker: policy.Breaker{MinCalls: 1, SlowCall: 2 * time.Second, Per: per, Window: 10 * time.Minute},
								Hedge:   policy.Hedge{Off: hedges == 0, Max: hedges, Delay: 3 * time.Second},
							}, opt, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
								if e.Kind == policy.KindAttemptSettled && (e.Took > 1100*time.Millisecond || e.Slow) || e.Hedge {
									rec++
									t.Errorf("%+v", e)
								}
							})))
							for range 3 {
								err := call(t.Context(), d, func(ctx context.Context) error {
									at, _ := ctx.Deadline()
									if left := time.Until(at); left != 4*time.Second {
										t.Errorf("work has %v for its 4 s", left)
									}
									time.Sleep(time.Second)
									return ctx.Err()
								}, gabion.WithIdempotent())
								if err != nil {
									t.Error(err)
								}
								if s := d.Stats().Main.Breaker; s.State != breaker.Closed || s.Counts.Slow != 0 {
									t.Fatalf("the breaker is %s with %+v", s.State, s.Counts)
								}
							}
							time.Sleep(time.Minute) // until all events have arrived
						})
					})
				}
			}
		}
	}
}
