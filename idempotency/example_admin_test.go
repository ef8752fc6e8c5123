package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// An operator looks for outcomes that nobody knows, finds out, and says so.
func ExampleResolveAs() {
	ctx := context.Background()
	store := idempotency.NewMemoryStore(0, 0)
	id := idempotency.IDOf("shop", "order-17")
	lost, err := store.Begin(ctx, idempotency.Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = idempotency.ResolveAs(ctx, store, id, idempotency.Change{Event: idempotency.ResolveNothing})
	fmt.Println("while it runs:", errors.Is(err, idempotency.ErrRunning))
	store.Apply(ctx, idempotency.Ref{ID: id, Token: lost.Record.Token}, idempotency.Change{Event: idempotency.Abandon})

	for e, err := range idempotency.All(ctx, store) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if e.Record.State == idempotency.Unknown && e.ID == id {
			fmt.Println("order-17 is", e.Record.State)
		}
	}
	// The provider says that it was charged.
	err = idempotency.ResolveAs(ctx, store, id, idempotency.Change{
		Event: idempotency.ResolveDone, Result: idempotency.Result{Status: 201, Body: []byte("charged")},
	})
	a, _ := store.Begin(ctx, idempotency.Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour})
	fmt.Printf("%v, then %v: %s\n", err, a.Decision, a.Record.Result.Body)

	fmt.Println("forgotten:", idempotency.ForgetID(ctx, store, id))
	fmt.Println(idempotency.ForgetID(ctx, store, id))
	// Output:
	// while it runs: true
	// order-17 is unknown
	// <nil>, then replay: charged
	// forgotten: <nil>
	// idempotency: there is no record
}
