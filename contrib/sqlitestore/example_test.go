package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// What a handler does in the transaction of its context happens exactly once. What it
// does beside it, through db, waits for that transaction to end: SQLite has one writer.
func Example_handler() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, store, err := sqlitestore.Open(ctx, filepath.Join(dir, "bank.db"), "records")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.ExecContext(ctx, "CREATE TABLE bookings (amount integer)")

	book := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := sqlstore.TxFrom(r.Context()).ExecContext(r.Context(), "INSERT INTO bookings VALUES (12)"); err != nil {
			sqlstore.Failed(r.Context(), err) // run again, if the database asks for that
			http.Error(w, "try again", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	h, err := idempotency.New(idempotency.Global, store, book, idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/bookings", strings.NewReader("12"))
		r.Header.Set("Idempotency-Key", "order-7")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	var n int
	db.QueryRowContext(ctx, "SELECT count(*) FROM bookings").Scan(&n)
	fmt.Println(n)
	// Output:
	// 201 replayed: false
	// 201 replayed: true
	// 1
}

// A message that is delivered twice is booked once: the booking and its record
// commit together.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, store, err := sqlitestore.Open(ctx, filepath.Join(dir, "bank.db"), "records")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	db.ExecContext(ctx, "CREATE TABLE bookings (amount integer)")

	message := idempotency.Claim{ID: idempotency.IDOf("bookings", "message-1"), Guarantee: idempotency.GuaranteeTx, Retention: 24 * time.Hour}
	for range 2 {
		a, err := store.Do(ctx, message, func(ctx context.Context, tx *sql.Tx) (idempotency.Result, error) {
			_, err := tx.ExecContext(ctx, "INSERT INTO bookings VALUES (12)")
			return idempotency.Result{Body: []byte("booked")}, err
		})
		fmt.Println(a.Decision, string(a.Record.Result.Body), err)
	}
	var n int
	db.QueryRowContext(ctx, "SELECT count(*) FROM bookings").Scan(&n)
	fmt.Println(n)
	// Output:
	// run booked <nil>
	// replay booked <nil>
	// 1
}
