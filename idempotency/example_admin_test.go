package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// An operator lists the unknown outcomes, finds out what happened, and settles them.
func ExampleAdmin() {
	ctx := context.Background()
	store := idempotency.NewMemoryStore(0, 0)
	admin := idempotency.Admin{Store: store}
	id := idempotency.IDOf("shop", "order-17")
	lost, err := store.Begin(ctx, idempotency.Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = admin.Resolve(ctx, id, idempotency.Change{State: idempotency.StateRetryable})
	fmt.Println("while it runs, refused:", errors.Is(err, idempotency.ErrRefused))
	store.Apply(ctx, idempotency.Ref{ID: id, Token: lost.Record.Token}, idempotency.Change{State: idempotency.StateUnknown})

	for e, err := range admin.All(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if e.Record.State == idempotency.StateUnknown && e.ID == id {
			fmt.Println("order-17 is", e.Record.State)
		}
	}
	// The provider says that it was charged.
	err = admin.Resolve(ctx, id, idempotency.Change{
		State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte("charged")},
	})
	a, _ := store.Begin(ctx, idempotency.Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour})
	fmt.Printf("%v, then %v: %s\n", err, a.Decision, a.Record.Result.Body)

	fmt.Println("forgotten:", admin.Forget(ctx, id))
	fmt.Println(admin.Forget(ctx, id))
	// Output:
	// while it runs, refused: true
	// order-17 is unknown
	// <nil>, then replay: charged
	// forgotten: <nil>
	// idempotency: refused: there is no record
}
