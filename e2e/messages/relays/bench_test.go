package relays

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

// BenchmarkRelay is what a relay publishes in a second, from durable databases, and "raw" what
// the same publisher does with the same messages without a database. Compare the msgs/s of
// one run: a relay should have half of raw.
func BenchmarkRelay(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		_, js := startBroker(b)
		messages := manyOf(b.N)
		b.ResetTimer()
		for part := range slices.Chunk(messages, 500) {
			for _, err := range natsmsg.Publisher(js).Publish(b.Context(), part) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	})
	b.Run("PostgreSQL", func(b *testing.B) { benchRelay(b, testservers.Postgres(b, "fsync=on")) })
	b.Run("SQLite", func(b *testing.B) { benchRelay(b, filepath.Join(b.TempDir(), "shop.db")) })
}

// manyOf are messages of 256 bytes, of a thousand aggregates.
func manyOf(n int) []outbox.Message {
	all := make([]outbox.Message, n)
	for i := range all {
		all[i] = outbox.Message{ID: fmt.Sprintf("m%d-%d", os.Getpid(), i), Topic: "orders", Aggregate: fmt.Sprint("a", i*7919%1000), Payload: make([]byte, 256)}
	}
	return all
}

func benchRelay(b *testing.B, dsn string) {
	_, js := startBroker(b)
	db, d, err := openDSN(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	box, err := outbox.New(db, d, "outbox", outbox.Options{})
	if err == nil {
		err = box.Migrate(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	for part := range slices.Chunk(manyOf(b.N), 5000) {
		tx, err := db.BeginTx(b.Context(), nil)
		if err == nil {
			err = box.Enqueue(b.Context(), tx, part...)
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	left := b.N
	relay, err := box.Relay(natsmsg.Publisher(js), dependency(policy.Policy{}), outbox.RelayOptions{Notify: func(n outbox.Notice) {
		if left -= n.Messages; left == 0 && n.Messages > 0 {
			cancel()
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := relay.Run(ctx); err != nil || left != 0 {
		b.Fatal(err, left)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	if s, err := box.Stats(context.WithoutCancel(ctx)); err != nil || s.Waiting != 0 {
		b.Fatalf("%+v, %v", s, err)
	}
}
