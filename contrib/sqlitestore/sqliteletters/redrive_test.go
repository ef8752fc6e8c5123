package sqliteletters

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/deadletter/sqlletters"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// trips counts round trips to PostgreSQL.
type trips struct{ atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (n *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	n.Add(1)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted opens letters in PostgreSQL whose round trips are counted.
func counted(t testing.TB) (*sqlletters.Store, *trips) {
	t.Helper()
	c, err := pgx.ParseConfig(testservers.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	n := new(trips)
	c.Tracer = n
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { db.Close() })
	s, err := sqlletters.New(db, sqlletters.Postgres, "letters", deadletter.Options{})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, n
}

// Letters that are taken and settled together share their statements: what one letter costs
// bounds the rate of all consumers together, since each transaction has their redrive's row.
func TestLettersThatGoTogetherShareRoundTrips(t *testing.T) {
	s, trips := counted(t)
	const n = 64
	for _, c := range []struct {
		fact  string
		order func(int) string
	}{
		{"letters without an order", func(int) string { return "" }},
		{"letters of as many orders", func(i int) string { return string(rune('A' + i)) }},
	} {
		t.Run(c.fact, func(t *testing.T) {
			for i := range n {
				l := letter(i)
				l.Group, l.Order = c.fact, c.order(i)
				l.ID = deadletter.LetterID(l.Group, l.Key, l.Payload)
				if err := s.Put(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Order(t.Context(), deadletter.Query{Group: c.fact}, deadletter.Drive{Rate: 1e6}); err != nil {
				t.Fatal(err)
			}
			trips.Store(0)
			taken, _, err := s.Take(t.Context(), c.fact, n, time.Minute)
			if err != nil || len(taken) != n {
				t.Fatalf("%d taken, %v", len(taken), err)
			}
			if got := trips.Load(); got > 16 {
				t.Errorf("%d round trips to take %d letters", got, n)
			}
			trips.Store(0)
			var all sync.WaitGroup
			for _, l := range taken {
				all.Go(func() {
					if err := s.Settle(t.Context(), l, deadletter.Verdict{State: deadletter.Done}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := trips.Load(); got > 5*n { // how many come together is the scheduler's choice
				t.Errorf("%d round trips to settle %d letters", got, n)
			}
		})
	}
}

// BenchmarkRedriveByAConsumer is letters whose work takes no time, redriven by one consumer of 16 workers
// at the rate of 1,000 a second.
func BenchmarkRedriveByAConsumer(b *testing.B) {
	s, trips := counted(b)
	for n := range b.N {
		l := letter(n)
		l.Failures = nil // they are from 1970: it would be too old to run
		if err := s.Put(b.Context(), l); err != nil {
			b.Fatal(err)
		}
	}
	p := policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Off: true}}}
	c, err := consumer.New(gabion.New("g", p), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Group: "g", Letters: s, Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}},
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Order(b.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1000}); err != nil {
		b.Fatal(err)
	}
	trips.Store(0)
	b.ResetTimer()
	ctx, cancel := context.WithCancel(b.Context())
	var ran atomic.Int64
	_ = c.Redrive(ctx, s, func(context.Context) error {
		if ran.Add(1) == int64(b.N) {
			cancel()
		}
		return nil
	}, consumer.Redrive{})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
	b.ReportMetric(float64(trips.Load())/float64(b.N), "trips/letter")
}
