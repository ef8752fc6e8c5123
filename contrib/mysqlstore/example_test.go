package mysqlstore_test

import (
	"context"
	"database/sql"
	"log"
	"net/http"
	"time"

	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// What a handler does in the transaction of its context happens exactly once.
func Example() {
	db, store, err := mysqlstore.Open(context.Background(), "shop:secret@tcp(db.internal:3306)/shop", "idempotency_records")
	if err != nil {
		log.Print(err)
		return
	}
	defer db.Close()
	book := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), "INSERT INTO bookings (amount) VALUES (12)"); err != nil {
			sqlstore.Failed(r.Context(), err) // run again after a deadlock
			http.Error(w, "try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	h, err := idempotency.New(idempotency.Global, store, book, idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}})
	if err != nil {
		log.Print(err)
		return
	}
	log.Print(http.ListenAndServe("localhost:8080", h))
}

// A program that has its database open already keeps its records there, too. A message that
// is delivered twice is booked once.
func ExampleNew() {
	db, err := sql.Open("mysql", "shop:secret@tcp(db.internal:3306)/shop")
	if err != nil {
		log.Print(err)
		return
	}
	defer db.Close()
	ctx := context.Background()
	store, err := mysqlstore.New(db, "idempotency_records")
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		log.Print(err)
		return
	}
	message := idempotency.Claim{ID: idempotency.IDOf("bookings", "message-1"), Guarantee: idempotency.GuaranteeTx, Retention: 24 * time.Hour}
	a, err := store.Do(ctx, message, func(ctx context.Context, tx *sql.Tx) (idempotency.Result, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO bookings (amount) VALUES (12)")
		return idempotency.Result{}, err
	})
	log.Print(a.Decision, err) // run, and replay when the message comes again
}
