package sql

import (
	"context"
	"database/sql"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// BenchmarkRunTx is a transaction with one statement on a local PostgreSQL that syncs, as
// database/sql has it and with RunTx. Compare the times of one run.
func BenchmarkRunTx(b *testing.B) {
	db := open(b, "pgx", testservers.Postgres(b, "fsync=on"), 1)
	execute(b, db, "CREATE TABLE effects (k text)")
	d := gabion.New("db", policy.Policy{})
	work := insert("x")
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := bare(b.Context(), db, work); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("RunTx", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := gabionsql.RunTx(b.Context(), d, db, work); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func bare(ctx context.Context, db *sql.DB, work func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
