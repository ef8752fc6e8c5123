package pgxstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxstore"
	"github.com/gabion-go/gabion/idempotency"
)

// A handler whose effects are in the same database works in the store's transaction.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://bank@localhost/bank")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	store, err := pgxstore.New(pool, "idempotency_records")
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	book := func(w http.ResponseWriter, r *http.Request) {
		if _, err := pgxstore.TxFrom(r.Context()).Exec(r.Context(), "INSERT INTO bookings VALUES (12)"); err != nil {
			http.Error(w, "try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}
	tenant := func(r *http.Request) string { return r.Header.Get("Tenant") }
	h, err := idempotency.New(tenant, store, http.HandlerFunc(book), idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", h))
}

// A message that is delivered twice is booked once.
func ExampleStore_Do() {
	var store *pgxstore.Store // see the package's example
	message := idempotency.Claim{ID: idempotency.IDOf("bookings", "message-1"), Retention: 24 * time.Hour}
	a, err := store.Do(context.Background(), message, func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		_, err := tx.Exec(ctx, "INSERT INTO bookings VALUES (12)")
		return idempotency.Result{Body: []byte("booked")}, err
	})
	fmt.Println(a.Decision, string(a.Record.Result.Body), err)
}
