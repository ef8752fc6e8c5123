package redisstore

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/testservers"
)

func TestValkeyConforms(t *testing.T) {
	t.Parallel()
	server := testservers.StartValkey(t, durable...)
	client := dial(t, server.Addr)
	wantWarnings(t, open(t, client).Caps(), true)
	idempotencytest.Run(t, idempotencytest.Config{
		Open: func(t testing.TB) idempotency.Store {
			client.FlushAll(t.Context())
			return open(t, client)
		},
		Again: func(t testing.TB, _ idempotency.Store, _ time.Duration) idempotency.Store {
			return open(t, dial(t, server.Addr))
		},
	})
}

// What was acknowledged is there after the server was killed.
func TestKilledValkeyKeepsItsRecords(t *testing.T) {
	t.Parallel()
	server := testservers.StartValkey(t, durable...)
	store := open(t, dial(t, server.Addr))
	a, err := store.Begin(t.Context(), claimOf("done"))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Apply(t.Context(), idempotency.Ref{ID: claimOf("done").ID, Token: a.Record.Token}, completed("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Begin(t.Context(), claimOf("runs")); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Restart()
	for key, want := range map[string]idempotency.Decision{"done": idempotency.DecisionReplay, "runs": idempotency.DecisionInProgress} {
		if a, err := open(t, dial(t, server.Addr)).Begin(t.Context(), other(claimOf(key))); err != nil || a.Decision != want {
			t.Errorf("%s: %v, %v, want %v", key, a.Decision, err, want)
		}
	}
}
