package gabionsql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// What the wrapper itself costs, over a driver that answers at once.
func BenchmarkConnector(b *testing.B) {
	for _, c := range []struct {
		name string
		open func() *sql.DB
	}{
		{"bare", func() *sql.DB { return sql.OpenDB(&scripted{mute: true}) }},
		{"connector", func() *sql.DB {
			return sql.OpenDB(gabionsql.Connector(&scripted{mute: true}, dependency(b, policy.Policy{})))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			db := c.open()
			defer db.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := db.ExecContext(ctx, "UPDATE n"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
