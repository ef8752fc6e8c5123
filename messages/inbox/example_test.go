package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/inbox"
)

// A broker delivers an order, then again because it heard no acknowledgement, then
// another order under the same id.
func ExampleInbox_Handle() {
	in, err := inbox.New("billing", idempotency.NewMemoryStore(0, 0), inbox.Options{
		RunnerConfig:    idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute},
		BrokerRetention: 14 * 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, payload := range []string{"12 EUR", "12 EUR", "99 EUR"} {
		m := inbox.Message{ID: "order-77", Payload: []byte(payload)}
		d := in.Handle(context.Background(), m, func(ctx context.Context) error {
			fmt.Println("booking", payload)
			return nil
		})
		fmt.Println(d.Verb, "because", d.Cause)
	}
	// Output:
	// booking 12 EUR
	// ack because done
	// ack because duplicate
	// dead_letter because mismatch
}

// An order that can't be read will be no better next time.
func ExampleReject() {
	in, err := inbox.New("billing", idempotency.NewMemoryStore(0, 0), inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := in.Handle(context.Background(), inbox.Message{ID: "order-78"}, func(context.Context) error {
		return inbox.Reject(errors.New("no amount"))
	})
	fmt.Println(d.Verb, d.Cause, d.Err)
	// Output: dead_letter permanent no amount
}

// Slow work is kept from other consumers; its context ends when that fails.
func ExampleKeepVisible() {
	extend := func(context.Context) error { return nil } // msg.InProgress, ChangeMessageVisibility, …
	alive, stop := inbox.KeepVisible(context.Background(), inbox.Visibility{Timeout: 30 * time.Second, Max: time.Hour}, extend)
	fmt.Println(alive.Err()) // the work, under alive
	stop()
	// Output: <nil>
}
