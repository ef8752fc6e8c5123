package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// work is how long a request takes without the database, so that the server is often
// killed in the middle of one.
const work = 10 * time.Millisecond

// add is the service: POST /balance with an amount in cents. The transaction is the
// one in which the key is recorded, so that both happen or neither.
func add(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	body, err := io.ReadAll(r.Body)
	cents, wrong := strconv.Atoi(string(body))
	if err != nil || wrong != nil || cents <= 0 {
		http.Error(w, "an amount in cents is wanted", http.StatusBadRequest)
		return
	}
	var balance int
	err = sqlstore.TxFrom(ctx).QueryRowContext(ctx,
		"UPDATE balance_account SET cents = cents + $1, additions = additions + 1 RETURNING cents", cents).Scan(&balance)
	if err != nil {
		sqlstore.Failed(ctx, err) // if the database wants the transaction repeated, it is
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	time.Sleep(work)
	fmt.Fprintln(w, balance)
}

// service returns the handler with its guarantee.
func service(store *sqlstore.Store) (http.Handler, error) {
	mux := http.NewServeMux()
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(add), idempotency.Config{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx,
			Wait: 5 * time.Second}, // a repeated request waits while the first one runs
	})
	if err == nil {
		mux.Handle("POST /balance", h)
	}
	return mux, err
}

const keysTable = "balance_keys"

func kindOf(where string) string {
	if strings.HasPrefix(where, "postgres") {
		return "PostgreSQL"
	}
	return "SQLite"
}

// open opens a database: a PostgreSQL URL, or else the name of a SQLite file.
func open(ctx context.Context, where string) (*sql.DB, *sqlstore.Store, error) {
	if kindOf(where) == "SQLite" {
		return sqlitestore.Open(ctx, where, keysTable)
	}
	db, err := sql.Open("pgx", where)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(clients)
	store, err := sqlstore.New(db, sqlstore.Postgres, keysTable)
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return db, store, nil
}

// prepare opens a database with an empty account.
func prepare(ctx context.Context, where string) (*sql.DB, error) {
	db, _, err := open(ctx, where)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{
		"DELETE FROM " + keysTable,
		"DROP TABLE IF EXISTS balance_account",
		"CREATE TABLE balance_account (cents bigint NOT NULL, additions bigint NOT NULL)",
		"INSERT INTO balance_account VALUES (0, 0)",
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			db.Close()
			return nil, err
		}
	}
	return db, nil
}

// serve listens on addr until the process ends. It reports when it listens.
func serve(where, addr string) error {
	ctx := context.Background()
	db, store, err := open(ctx, where)
	if err != nil {
		return err
	}
	defer db.Close()
	h, err := service(store)
	if err != nil {
		return err
	}
	go idempotency.Sweep(ctx, store, idempotency.SweepConfig{})
	l, err := listen(addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() { // the driver holds the other end: when it is gone, the server ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	told := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		fmt.Println("answered") // the driver counts
	})
	return (&http.Server{Handler: told, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}
