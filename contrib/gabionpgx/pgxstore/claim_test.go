package pgxstore

import (
	"context"
	"errors"
	"testing"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/jackc/pgx/v5"
)

// A record that expires as it is written would let the work run at each call.
func TestClaimWithoutRetentionIsRefused(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	c := claimOf("k")
	c.Retention = 0
	for range 2 {
		if a, err := s.store.Do(t.Context(), c, func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
			return idempotency.Result{Status: 201}, add(ctx, tx)
		}); !errors.Is(err, errNoRetention) {
			t.Errorf("%v, %v", a.Decision, err)
		}
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := s.store.BeginTx(t.Context(), tx, c)
		return err
	}); !errors.Is(err, errNoRetention) {
		t.Errorf("in a transaction of one's own: %v", err)
	}
	s.wantEffects(0)
}
