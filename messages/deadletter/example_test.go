package deadletter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// A letter goes in with what happened, an order takes it out again, and its key is the same.
func Example() {
	ctx := context.Background()
	store, err := deadletter.NewMemory(deadletter.Options{MaxLetters: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	payload := []byte(`{"order": 7, "amount": 12}`)
	id := deadletter.LetterID("payments", "order-7", payload)

	// What a consumer does, as package consumer does it.
	failed := deadletter.Failure{At: time.Now(), Attempt: 11, Class: "transient", Message: "connection refused"}
	err = store.Put(ctx, deadletter.Letter{
		ID: id, Group: "payments", Key: "order-7", Source: "orders", Payload: payload,
		Reason: "attempts_exhausted", Failures: []deadletter.Failure{failed},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, _ := store.Get(ctx, id)
	fmt.Println(l.State, l.Reason, l.Failures[0].Message)

	// What an operator orders, once the bank is back.
	drive, err := store.Order(ctx, deadletter.Query{Group: "payments"}, deadletter.Drive{Rate: 5, By: "ann"})
	fmt.Println(drive.Total, "ordered", err)

	// What the consumers do then.
	taken, _, err := store.Take(ctx, "payments", 10, time.Minute)
	for _, l := range taken {
		fmt.Println(l.State, l.Key)
		err = store.Settle(ctx, l, deadletter.Verdict{State: deadletter.Done})
	}
	fmt.Println(err)
	_, _, _ = store.Take(ctx, "payments", 10, time.Minute) // nothing is left
	all, _ := store.Drives(ctx, "payments")
	fmt.Println(all[0].State, all[0].Done)
	// Output:
	// waiting attempts_exhausted connection refused
	// 1 ordered <nil>
	// taken order-7
	// <nil>
	// finished 1
}

// Payloads are encrypted before the store gets them. The first key seals, all open.
func ExampleSealed() {
	ctx := context.Background()
	store, _ := deadletter.NewMemory(deadletter.Options{})
	secret := make([]byte, 32) // from a file or a key service, never zeros
	sealer, err := deadletter.NewSealer(idempotency.SealKey{Name: "2026", Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed := deadletter.Sealed(store, sealer)
	id := deadletter.LetterID("payments", "order-7", []byte("12 to ann"))
	err = sealed.Put(ctx, deadletter.Letter{ID: id, Group: "payments", Key: "order-7", Payload: []byte("12 to ann")})
	l, _ := sealed.Get(ctx, id)
	fmt.Println(err, string(l.Payload))
	raw, _ := store.Get(ctx, id)
	fmt.Println(len(raw.Payload) > len(l.Payload), raw.Key)
	// Output:
	// <nil> 12 to ann
	// true order-7
}
