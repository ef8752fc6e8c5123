package behaviour

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A dependency that takes half as long again as an attempt has, and always did, is as useful with gabion as without. A plain client with the same call
// timeout has twelve answers.
func TestADependencyThatIsAlwaysSlowIsAnswered(t *testing.T) {
	for _, preset := range []string{"", "external-api", "internal-rpc", "database", "payment"} {
		for _, workers := range []int{1, 4, 6} {
			for _, pause := range []time.Duration{0, 10 * time.Minute} {
				t.Run(fmt.Sprintf("%s by %d at once every %v", preset, workers, pause), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						p, _ := policy.Preset(preset)
						p.Safe, p.Key = true, policy.KeyDeclared
						takes := p.Resolved().Timeout.Attempt * 3 / 2
						d := gabion.New("slow", p)
						var calls sync.WaitGroup
						for range workers {
							calls.Go(func() {
								for range 12 / workers {
									if err := d.Run(t.Context(), func(ctx context.Context) error { return slept(ctx, takes) }); err != nil {
										t.Error(err)
									}
									time.Sleep(pause)
								}
							})
						}
						calls.Wait()
					})
				})
			}
		}
	}
}

// slept is work that takes so long.
func slept(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
