package sql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// open returns a database. At the end of the test no connection of it is in use.
func open(t testing.TB, driver, dsn string, conns int) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	t.Cleanup(func() {
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections are in use", n)
		}
		db.Close()
	})
	return db
}

func through(dsn, addr, proxy string) string { return strings.Replace(dsn, addr, proxy, 1) }

func execute(t testing.TB, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func count(t testing.TB, db *sql.DB, text string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// patient is a dependency whose conflicts are repeated until they are over.
func patient() *gabion.Dependency {
	return gabion.New("db", policy.Policy{
		Timeout: policy.Timeout{Call: 2 * time.Minute},
		Retry:   policy.Retry{Contention: policy.ContentionRetry{Attempts: 64, Repeats: policy.Off}},
	})
}

// clients run f at the same time.
func clients(n int, f func(client int)) {
	var all sync.WaitGroup
	for client := range n {
		all.Go(func() { f(client) })
	}
	all.Wait()
}

// ran is what RunTx said of a transaction.
type ran string

const (
	done    ran = "success"
	nothing ran = "nothing"
	unknown ran = "unknown"
)

func said(err error) ran {
	switch e := new(gabion.Error); {
	case err == nil:
		return done
	case errors.As(err, &e) && e.Effect == policy.NoEffect:
		return nothing
	}
	return unknown
}

// agrees reports whether that number of effects can be what RunTx said.
func (r ran) agrees(effects int) bool {
	switch r {
	case done:
		return effects == 1
	case nothing:
		return effects == 0
	}
	return effects <= 1
}

var serializable = gabionsql.WithTxOptions(sql.TxOptions{Isolation: sql.LevelSerializable})

// insert adds an effect.
func insert(key any) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ('"+key.(string)+"')")
		return err
	}
}
