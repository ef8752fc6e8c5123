package natsstore

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	url := testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL()
	js := testnats.Connect(t, url)
	idempotencytest.Run(t, idempotencytest.Config{
		Open: func(t testing.TB) idempotency.Store {
			return precise(t, func() *Store { return mustOpen(t, js, Options{}) })
		},
		Again: func(t testing.TB, _ idempotency.Store, ahead time.Duration) idempotency.Store {
			return precise(t, func() *Store { return openSkewed(t, testnats.Connect(t, url), ahead) })
		},
	})
}

// Clients whose clocks differ by an hour, or that share nothing but the bucket, are
// the same to the store.
func TestConformanceOfClientsWithOtherClocks(t *testing.T) {
	if testing.Short() {
		t.Skip("long: leases end in real time")
	}
	t.Parallel()
	js := testnats.Connect(t, testnats.Serve(t, testnats.Settings{Lazy: true}).ClientURL())
	idempotencytest.Run(t, idempotencytest.Config{
		Open: func(t testing.TB) idempotency.Store {
			var all mixed
			for _, off := range []time.Duration{0, -time.Hour, time.Hour} {
				all.stores = append(all.stores, precise(t, func() *Store { return openSkewed(t, js, off) }))
			}
			return &all
		},
		Again: func(t testing.TB, _ idempotency.Store, ahead time.Duration) idempotency.Store {
			return precise(t, func() *Store { return openSkewed(t, js, ahead) })
		},
	})
}

func openSkewed(t testing.TB, js jetstream.JetStream, ahead time.Duration) *Store {
	t.Helper()
	s, err := open(t.Context(), js, Options{Bucket: "records"}, skewed(ahead))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// skewed is the clocks of a machine whose time is off.
func skewed(off time.Duration) func() reading {
	right := monotonic()
	return func() reading {
		r := right()
		return reading{r.mono + off, r.wall + off}
	}
}
