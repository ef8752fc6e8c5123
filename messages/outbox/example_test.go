package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

func ExampleOutbox_Enqueue() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://127.0.0.1/shop") // or SQLite
	if err != nil {
		log.Fatal(err)
	}
	box, err := outbox.New(db, outbox.Postgres, "outbox", outbox.Options{})
	if err == nil {
		err = box.Migrate(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	orders := gabion.New("orders", policy.Policy{})
	err = gabionsql.RunTx(ctx, orders, db, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ($1)", "order-7"); err != nil {
			return err
		}
		return box.Enqueue(ctx, tx, outbox.Message{Topic: "orders.placed", Aggregate: "order-7", Payload: []byte(`{"id": "order-7"}`)})
	})
	fmt.Println(err)
}

func ExampleOutbox_Relay() {
	ctx := context.Background()
	var box *outbox.Outbox         // of New
	var publisher outbox.Publisher // natsmsg.Publisher, outbox.Each, or one's own
	p, _ := policy.Preset("internal-rpc")
	relay, err := box.Relay(publisher, gabion.New("broker", p), outbox.RelayOptions{})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Println(relay.Run(ctx)) }() // in each process: one of them leads
	relay.Wake()                                // after a commit, so that it looks at once
}

func ExampleOutbox_Parked() {
	ctx := context.Background()
	var box *outbox.Outbox // of New
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := box.Parked(ctx, cursor, 100)
		if err != nil {
			log.Fatal(err)
		}
		for _, p := range page {
			fmt.Println(p.Message.ID, p.Failure, p.Behind)
			if p.Attempts < 3 {
				err = box.Retry(ctx, p.Message.ID)
			} else {
				err = box.Discard(ctx, p.Message.ID)
			}
			if err != nil && !errors.Is(err, outbox.ErrNotParked) {
				log.Fatal(err)
			}
		}
		cursor = next
	}
}

// A client that publishes one message a call becomes a Publisher that has several on their
// way.
func ExampleEach() {
	p := outbox.Each(16, func(_ context.Context, m outbox.Message) error {
		fmt.Println(m.Topic, string(m.Payload)) // the client's call, which returns when the broker has confirmed
		return nil
	})
	fmt.Println(p.Publish(context.Background(), []outbox.Message{{Topic: "orders", Payload: []byte("7")}}))
	// Output:
	// orders 7
	// [<nil>]
}
