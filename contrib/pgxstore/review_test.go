package pgxstore

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
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

// COMMIT checks what was deferred. That a row of the work's was there before is not a
// conflict about the record: nobody asks for the work again.
func TestDeferredViolationIsTheWorksError(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	s.exec("CREATE TABLE orders (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	s.exec("INSERT INTO orders VALUES (1)")
	order := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO orders VALUES (1)")
		return err
	}
	runs := 0
	_, err := s.store.Do(t.Context(), claimOf("do"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		runs++
		return idempotency.Result{Status: 201}, order(ctx, tx)
	})
	if runs != 1 || stateOf(err) != "23505" || errors.Is(err, ErrConflict) || errors.Is(err, idempotency.ErrUnknown) {
		t.Errorf("ran %d times: %v", runs, err)
	}
	s.work = func(w http.ResponseWriter, r *http.Request) {
		if err := order(r.Context(), From(r.Context())); err != nil {
			t.Error(err)
		}
		status(201)(w, r)
	}
	if w := s.post("handler", "x"); w.Code != 503 || w.Header().Get("Location") != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.wantRuns(1)
	s.wantEffects(0)
}
