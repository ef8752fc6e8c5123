package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

// Messages about orders that were committed are published, and those of an order that was
// rolled back are not. One that the broker refuses is parked, until an operator decides.
func Example_outbox() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, _, err := sqlitestore.Open(ctx, filepath.Join(dir, "shop.db"), "keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	box, err := outbox.New(db, outbox.SQLite, "outbox", outbox.Options{})
	if err == nil {
		err = box.Migrate(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	orders := gabion.New("orders", policy.Policy{})
	order := func(id string, trouble error) error {
		return gabionsql.RunTx(ctx, orders, db, func(ctx context.Context, tx *sql.Tx) error {
			m := outbox.Message{ID: id, Topic: "orders.placed", Aggregate: "customer-" + id[:1], Payload: []byte(id)}
			return errors.Join(box.Enqueue(ctx, tx, m), trouble)
		})
	}
	fmt.Println(order("a1", nil), order("b1", nil), order("a2", nil))
	fmt.Println(order("c1", errors.New("sold out")) != nil)

	publish := func(_ context.Context, m outbox.Message) error {
		if m.ID == "a1" {
			return classify.Permanent(errors.New("no such topic"))
		}
		fmt.Println("published", m.ID)
		return nil
	}
	told := func(n outbox.Notice) {
		if n.Kind == "parked" {
			fmt.Println("parked", n.ID, "because", n.Err)
			cancel()
		}
	}
	relay, err := box.Relay(outbox.Each(1, publish), gabion.New("broker", policy.Policy{}), outbox.RelayOptions{Notify: told})
	if err == nil {
		err = relay.Run(ctx)
	}
	fmt.Println(err)

	ctx = context.Background()
	parked, _, err := box.Parked(ctx, "", 10)
	fmt.Println(len(parked), parked[0].Message.ID, parked[0].Behind, err)
	fmt.Println(box.Discard(ctx, "a1"))
	stats, err := box.Stats(ctx)
	fmt.Println(stats.Waiting, stats.Parked, err)
	// Output:
	// <nil> <nil> <nil>
	// true
	// published b1
	// parked a1 because no such topic
	// <nil>
	// 1 a1 1 <nil>
	// <nil>
	// 1 0 <nil>
}
