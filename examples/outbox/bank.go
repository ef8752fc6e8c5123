package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A bank charges each order once, in the transaction in which it remembers the message.
type bank struct {
	db    *sql.DB
	close func()

	mu    sync.Mutex
	again int // messages that came although they were done
}

func openBank(ctx context.Context, url, file string) (*bank, error) {
	db, keys, err := sqlitestore.Open(ctx, file, "inbox")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE charges (n integer PRIMARY KEY, order_id text)"); err != nil {
		return nil, err
	}
	b := &bank{db: db}
	p, _ := policy.Preset("message-queue")
	letters, err := deadletter.NewMemory(deadletter.Options{}) // a store that lasts, in earnest
	if err != nil {
		return nil, err
	}
	c, err := consumer.New(gabion.New("payments", p, gabion.WithLogger(silent)), keys, consumer.Options{
		Letters: letters,
		Inbox:   inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Stream: b}},
	})
	if err != nil {
		return nil, err
	}
	js, err := connect(url)
	if err != nil {
		return nil, err
	}
	if _, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", natsmsg.Config(c, "payments")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() {
		_ = natsmsg.Consume(ctx, js, "ORDERS", "payments", c, charge, natsmsg.Options{}) // until it is canceled
	})
	b.close = func() { cancel(); working.Wait(); js.Conn().Close(); db.Close() }
	return b, nil
}

// charge is the work of a message.
func charge(ctx context.Context) error {
	order := string(consumer.MessageFrom(ctx).Payload)
	_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO charges (order_id) VALUES (?)", order)
	return err
}

// Observe receives the outcome of each message.
func (b *bank) Observe(_ context.Context, e policy.Event) {
	if e.Kind == policy.KindMessageDisposed && e.Code == "ack/duplicate" {
		b.mu.Lock()
		b.again++
		b.mu.Unlock()
	}
}

// counts returns which orders were charged, and how many messages came again.
func (b *bank) counts() (charged []string, again int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows, err := b.db.Query("SELECT order_id FROM charges ORDER BY order_id")
	if err != nil {
		return nil, 0
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if rows.Scan(&id) == nil {
			charged = append(charged, id)
		}
	}
	if rows.Err() != nil {
		return nil, 0
	}
	return charged, b.again
}

// await waits for a number of charges and a number of duplicate messages.
func (b *bank) await(ctx context.Context, charges, duplicates int) error {
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-ticks.C {
		charged, again := b.counts()
		if len(charged) >= charges && again >= duplicates {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	charged, again := b.counts()
	return errors.New(fmt.Sprint("charged ", charged, ", duplicates ", again))
}
