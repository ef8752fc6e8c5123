package gabion_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

func tokens(amount float64) policy.Policy {
	return policy.Policy{RateLimit: policy.RateLimit{
		MaxWait: policy.Off,
		Quotas:  []policy.Quota{{Unit: "tokens", Amount: amount, Span: time.Hour}},
	}}
}

func ExampleWithCost() {
	model := gabion.New("model", tokens(1000))
	work := func(context.Context) error { return nil }
	fmt.Println(model.Run(context.Background(), work, gabion.WithCost("tokens", 900)))
	fmt.Println(errors.Is(model.Run(context.Background(), work, gabion.WithCost("tokens", 900)), policy.RateLimited))
	// Output:
	// <nil>
	// true
}

func ExampleSpent() {
	model := gabion.New("model", tokens(1000))
	model.Run(context.Background(), func(ctx context.Context) error {
		gabion.Spent(ctx, "tokens", 250) // what the answer's usage says
		return nil
	}, gabion.WithCost("tokens", 900))
	fmt.Printf("%.0f left\n", model.Stats().Main.Quotas[0].Left)
	// Output: 750 left
}

func ExampleTellLeft() {
	model := gabion.New("model", tokens(1000))
	model.Run(context.Background(), func(ctx context.Context) error {
		gabion.TellLeft(ctx, policy.Remaining{Unit: "tokens", Left: 300}) // what the answer's headers say
		return nil
	}, gabion.WithCost("tokens", 100))
	fmt.Printf("%.0f left\n", model.Stats().Main.Quotas[0].Left)
	// Output: 300 left
}
