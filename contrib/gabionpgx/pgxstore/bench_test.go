package pgxstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/testservers"
)

const workers = 64

// BenchmarkPairs is a claim and its result of 1 KiB, by 64 goroutines, on a server that
// syncs: through the store, through sqlstore over the same driver (docs/adr/0115), and as the same
// statements without a store. Compare the pairs/s of one run.
func BenchmarkPairs(b *testing.B) {
	pool := connect(b, testservers.Postgres(b, "fsync=on", "max_connections=100"), workers)
	store := open(b, pool, "records")
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	other, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1<<10)
	rand.Read(body)
	for _, c := range []struct {
		name string
		pair func(context.Context, idempotency.Claim) error
	}{
		{"hold", holdPair(store, body)},
		{"hold/sqlstore", holdPair(other, body)},
		{"hold/raw", func(ctx context.Context, c idempotency.Claim) error { return rawPair(ctx, store, c, body) }},
		{"tx", txPair(store, body)},
		{"tx/sqlstore", txPair(other, body)},
		{"tx/raw", func(ctx context.Context, c idempotency.Claim) error { return rawTx(ctx, store, c, body) }},
	} {
		b.Run(c.name, func(b *testing.B) { measure(b, c.pair) })
	}
}

var benchKeys atomic.Int64

// measure reports pairs per second and the 99th percentile of one pair, once all
// connections are open and have their statements prepared.
func measure(b *testing.B, pair func(context.Context, idempotency.Claim) error) {
	work(b, make([]time.Duration, 8*workers), pair)
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	work(b, took, pair)
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
}

func work(b *testing.B, took []time.Duration, pair func(context.Context, idempotency.Claim) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(took)); n = next.Add(1) - 1 {
				start := time.Now()
				if err := pair(b.Context(), hold(fmt.Sprint("bench", benchKeys.Add(1)))); err != nil {
					b.Error(err)
					return
				}
				took[n] = time.Since(start)
			}
		})
	}
	all.Wait()
}

func holdPair(s idempotency.Store, body []byte) func(context.Context, idempotency.Claim) error {
	return func(ctx context.Context, c idempotency.Claim) error {
		a, err := s.Begin(ctx, c)
		if err != nil {
			return err
		}
		ref := idempotency.Ref{ID: c.ID, Token: a.Record.Token}
		return s.Apply(ctx, ref, idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: body}})
	}
}

func txPair(s idempotency.TxStore, body []byte) func(context.Context, idempotency.Claim) error {
	return func(ctx context.Context, c idempotency.Claim) error {
		_, err := s.Tx(ctx, c, func(context.Context, idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
			return idempotency.Result{Status: 201, Body: body}, idempotency.EndingSucceeded, nil
		})
		return err
	}
}

func rawArgs(c idempotency.Claim, rev int, body []byte) []any {
	return []any{c.ID[:], rev, sqltable.Version, 3, 0, 1, 1, c.Fingerprint[:], c.Owner[:], 0, 1, 2, 3, 4, 5, body, 14}
}

func rawPair(ctx context.Context, s *Store, c idempotency.Claim, body []byte) error {
	var x row
	var token int64
	err := x.scan(s.pool.QueryRow(ctx, s.sql.claim, c.ID[:], sqltable.Version, 0, c.Fingerprint[:], c.Owner[:], 1, 1, 1), &token)
	if err != nil {
		return err
	}
	return s.pool.QueryRow(ctx, s.sql.update, append(rawArgs(c, 1, body), token/1000)...).Scan(&token)
}

func rawTx(ctx context.Context, s *Store, c idempotency.Claim, body []byte) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var b pgx.Batch
	b.Queue("begin")
	var got bool
	var begun time.Time
	b.Queue(tryLock, lockOf(c.ID)).QueryRow(func(r pgx.Row) error { return r.Scan(&got, &begun) })
	b.Queue(s.sql.load, c.ID[:])
	if err := conn.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	b = pgx.Batch{}
	b.Queue(s.sql.insert, append(rawArgs(c, 0, body), begun)...)
	b.Queue("commit")
	return conn.SendBatch(ctx, &b).Close()
}
