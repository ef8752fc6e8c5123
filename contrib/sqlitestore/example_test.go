package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
)

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

	message := idempotency.Claim{ID: idempotency.IDOf("bookings", "message-1"), Guarantee: idempotency.Tx, Retention: 24 * time.Hour}
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
