package sql

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// BenchmarkPointQuery reads one row by its key, with a deadline as every caller has one.
func BenchmarkPointQuery(b *testing.B) {
	dsn := testservers.Postgres(b)
	bare := sql.OpenDB(drivers["pgx"](b, dsn))
	defer bare.Close()
	if _, err := bare.Exec("CREATE TABLE point (id int PRIMARY KEY, n int); INSERT INTO point SELECT i, i FROM generate_series(1, 10000) i"); err != nil {
		b.Fatal(err)
	}
	d := gabion.New("pg", policy.Policy{})
	db, err := gabionsql.Open(drivers["pgx"](b, dsn), d)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	const query = "SELECT n FROM point WHERE id = $1"
	for _, c := range []struct {
		name string
		read func(ctx context.Context, id int, n *int) error
	}{
		{"bare", func(ctx context.Context, id int, n *int) error { return bare.QueryRowContext(ctx, query, id).Scan(n) }},
		{"connector", func(ctx context.Context, id int, n *int) error { return db.QueryRowContext(ctx, query, id).Scan(n) }},
		{"QueryRow", func(ctx context.Context, id int, n *int) error {
			return gabionsql.QueryRow(ctx, d, db, query, id).Scan(n)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				id, n := i%10000+1, 0
				if err := c.read(ctx, id, &n); err != nil || n != id {
					b.Fatal(n, err)
				}
				cancel()
			}
		})
	}
}
