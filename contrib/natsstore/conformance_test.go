package natsstore

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	js := connect(t, serve(t, settings{Lazy: true}).ClientURL())
	idempotencytest.Run(t, func(t testing.TB) idempotency.Store {
		return precise(t, func() *Store { return mustOpen(t, js, Options{}) })
	})
}

// Clients whose clocks differ by an hour, or that share nothing but the bucket, are
// the same to the store.
func TestConformanceOfClientsWithOtherClocks(t *testing.T) {
	t.Parallel()
	js := connect(t, serve(t, settings{Lazy: true}).ClientURL())
	idempotencytest.Run(t, func(t testing.TB) idempotency.Store {
		var all mixed
		for _, off := range []time.Duration{0, -time.Hour, time.Hour} {
			all.stores = append(all.stores, precise(t, func() *Store {
				s, err := open(t.Context(), js, Options{Bucket: "records"}, skewed(off))
				if err != nil {
					t.Fatal(err)
				}
				return s
			}))
		}
		return &all
	})
}

// skewed is the clocks of a machine whose time is off.
func skewed(off time.Duration) func() reading {
	right := monotonic()
	return func() reading {
		r := right()
		return reading{r.mono + off, r.wall + off}
	}
}
