package gabionsql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// BenchmarkRunTx is what RunTx costs beside BeginTx and Commit, without a database. The one
// in e2e/sql is on PostgreSQL.
// in e2e/sql is on PostgreSQL.
func BenchmarkRunTx(b *testing.B) {
	db := openFake(b, new(fakeDB))
	d := gabion.New("db", policy.Policy{})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			tx, err := db.BeginTx(b.Context(), nil)
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("RunTx", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := gabionsql.RunTx(b.Context(), d, db, func(context.Context, *sql.Tx) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
