package sql

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// SQLite ends a transaction by itself when a statement that writes is interrupted. RunTx
// does not say that nothing was done, for it can't know what came after.
func TestSQLiteInterrupted(t *testing.T) {
	gabiontest.NoLeaks(t)
	db := open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)", 2)
	execute(t, db, "CREATE TABLE effects (k text)", "CREATE TABLE noise (n int)")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	runs := 0
	err := gabionsql.RunTx(ctx, gabion.New("db", policy.Policy{Safe: true}), db, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		if err := insert("x")(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO noise WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT x FROM c")
		return err
	})
	if n := count(t, db, "SELECT count(*) FROM effects"); err == nil || runs != 1 || n != 0 {
		t.Errorf("%d runs, %d effects: %v", runs, n, err)
	}
	t.Log(said(err), err)
	if err := gabionsql.RunTx(t.Context(), patient(), db, insert("after")); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
