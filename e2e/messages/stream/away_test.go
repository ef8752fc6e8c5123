package stream

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// disposed counts messages by what became of them.
type disposed struct {
	mu sync.Mutex
	by map[string]int
	at []time.Time // when each was done
}

// Observe implements gabion.Observer.
func (d *disposed) Observe(_ context.Context, e policy.Event) {
	if e.Kind != policy.KindMessageDisposed {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by[e.Code]++
	if e.Code == "ack/done" {
		d.at = append(d.at, time.Now())
	}
}

func (d *disposed) count(code string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[code]
}

// since is how many were done in a span.
func (d *disposed) since(from time.Time, span time.Duration) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.at {
		if since := at.Sub(from); since >= 0 && since < span {
			n++
		}
	}
	return n
}

// broker is a server in this process, with a stream of messages.
func broker(t *testing.T, messages int) jetstream.JetStream {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the broker does not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "AWAY", Subjects: []string{"away"}})
	}
	if err == nil {
		_, err = js.CreateConsumer(t.Context(), "AWAY", jetstream.ConsumerConfig{Durable: "billing", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxDeliver: -1})
	}
	for n := range messages {
		if err == nil {
			_, err = js.PublishMsgAsync(&nats.Msg{Subject: "away", Data: []byte("1 €"), Header: nats.Header{"Idempotency-Key": {fmt.Sprint("m", n)}}})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	<-js.PublishAsyncComplete()
	return js
}

// The inbox's PostgreSQL is stopped and started again several times, with the shipped budget. What
// was delivered during the outage is worked off once it is back, and hardly any message is refused.
func TestTheInboxesDatabaseIsStoppedAndStartedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("long: a database is stopped three times. consumer.TestAfterAnOutageRedeliveriesAreWorkedOffAtOnce is short")
	}
	const messages, slots, outages = 3000, 16, 3
	postgres := testservers.StartPostgres(t)
	db, err := sql.Open("pgx", postgres.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(slots)
	db.SetMaxIdleConns(slots)
	store, err := sqlstore.New(db, sqlstore.Postgres, "inbox")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	letters, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	js := broker(t, messages)
	p := policy.Policy{
		Timeout:  policy.Timeout{Call: time.Minute, Attempt: 10 * time.Second},
		Retry:    policy.Retry{Attempts: 10, Backoff: backoff.Exp(50*time.Millisecond, 30*time.Second)},
		Bulkhead: policy.Bulkhead{Limit: slots},
	}
	quietLog := slog.New(slog.NewTextHandler(io.Discard, nil))
	seen := &disposed{by: map[string]int{}}
	c, err := consumer.New(gabion.New("billing", p, gabion.WithSeed(1), gabion.WithLogger(quietLog)), store, consumer.Options{
		Letters: letters, Logger: quietLog, GiveUpAfter: -1,
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}, Stream: seen}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- natsmsg.Consume(ctx, js, "AWAY", "billing", c, func(context.Context) error {
			runs.Add(1)
			<-time.After(40 * time.Millisecond)
			return nil
		}, natsmsg.Options{Logger: quietLog})
	}()
	until := func(what string, is func() bool) {
		t.Helper()
		for limit := time.Now().Add(patience); !is(); <-time.After(5 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s: not after %v: %v", what, patience, seen.by)
			}
		}
	}
	back := time.Now()
	for n := range outages {
		until("the work goes on", func() bool { return seen.since(back, time.Hour) >= 100 })
		failing := seen.count("retry/store_unavailable")
		postgres.Stop()
		until("the database is away", func() bool { return seen.count("retry/store_unavailable") >= failing+1 })
		<-time.After(time.Duration(n) * 2 * time.Second)
		postgres.Restart()
		back = time.Now()
	}
	until("all are done", func() bool { return seen.count("ack/done")+seen.count("ack/duplicate") >= messages })
	end()
	<-ended
	refused := seen.count("retry/refused")
	t.Logf("%v, %d runs; after the last outage %d were done in 10 s, and %d in the 5 s after", seen.by, runs.Load(), seen.since(back, 10*time.Second), seen.since(back.Add(10*time.Second), 5*time.Second))
	if refused > 2*messages {
		t.Errorf("%d refusals of %d messages", refused, messages)
	}
	if s, err := letters.Stats(t.Context(), ""); err != nil || s.Letters > 0 {
		t.Errorf("%d letters, %v", s.Letters, err)
	}
}
