package gabionpgx_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionpgx"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

func TestOutboxInTransactionsOfPgx(t *testing.T) {
	pool := connect(t, testservers.Postgres(t), 4)
	db := stdlib.OpenDBFromPool(pool) // for relays and operators
	defer db.Close()
	box, err := outbox.New(db, outbox.Postgres, "outbox", outbox.Options{})
	if err == nil {
		err = box.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	orders, undone := gabion.New("orders", policy.Policy{}), errors.New("undone")
	for _, c := range []struct {
		messages []outbox.Message
		end      error
		want     error
		waiting  int
	}{
		{[]outbox.Message{{ID: "m1", Topic: "orders", Aggregate: "a", Payload: []byte{0, 0xff}}, {Topic: "orders"}}, nil, nil, 2},
		{[]outbox.Message{{ID: "m2", Topic: "orders", Aggregate: "a"}}, undone, undone, 2},
		{[]outbox.Message{{ID: "m1", Topic: "orders"}}, nil, outbox.ErrDuplicate, 2},
	} {
		err := gabionpgx.RunTx(t.Context(), orders, pool, func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(box.Enqueue(ctx, gabionpgx.Execer(tx), c.messages...), c.end)
		})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%v, want %v", err, c.want)
		}
		if s, err := box.Stats(t.Context()); err != nil || s.Waiting != c.waiting {
			t.Errorf("%+v, %v, want %d waiting", s, err, c.waiting)
		}
	}
	var none pgx.Tx
	if err := box.Enqueue(t.Context(), gabionpgx.Execer(none), outbox.Message{Topic: "orders"}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Error(err)
	}
	if err := box.Enqueue(t.Context(), (*sql.Tx)(nil), outbox.Message{Topic: "orders"}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Error(err)
	}
	if err := box.Enqueue(t.Context(), db, outbox.Message{Topic: "orders"}); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Error(err)
	}
}
