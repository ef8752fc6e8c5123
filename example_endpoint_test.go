package gabion_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// firstAndSecond is a policy with a primary and a backup.
var firstAndSecond = policy.Policy{Endpoints: policy.Endpoints{
	Mode: policy.EndpointsOrdered,
	List: []policy.Endpoint{{Name: "first"}, {Name: "second"}},
}}

// An attempt goes to an endpoint, and the next one elsewhere.
func ExampleEndpointOf() {
	prices := gabion.New("prices", firstAndSecond)
	price, err := gabion.Do(context.Background(), prices, func(ctx context.Context) (int, error) {
		at := gabion.EndpointOf(ctx).Name
		fmt.Println("asking", at)
		if at == "first" {
			return 0, classify.Transient(errors.New("connection reset"))
		}
		return 42, nil
	}, gabion.WithIdempotent())
	fmt.Println(price, err)
	// Output:
	// asking first
	// asking second
	// 42 <nil>
}

// A call with a key stays where it may have happened. It is repeated there.
func ExampleWithEndpoint() {
	payments := gabion.New("payments", firstAndSecond)
	works := false
	charge := func(ctx context.Context) error {
		fmt.Println("charging at", gabion.EndpointOf(ctx).Name, "with", gabion.Key(ctx))
		if !works {
			return classify.Transient(errors.New("connection reset"))
		}
		return nil
	}
	ctx := context.Background()
	err := payments.Run(ctx, charge, gabion.WithKey("order-1"), gabion.WithoutRetry())
	var why *gabion.Error
	if errors.As(err, &why) && why.Effect == policy.UnknownEffect {
		works = true // later
		err = payments.Run(ctx, charge, gabion.WithKey("order-1"), gabion.WithEndpoint(why.Endpoint))
	}
	fmt.Println(err)
	// Output:
	// charging at first with order-1
	// charging at first with order-1
	// <nil>
}

// A resolver brings other endpoints; one that fails changes nothing.
func ExampleResolveEndpoints() {
	prices := gabion.New("prices", firstAndSecond)
	ctx := context.Background()
	err := gabion.ResolveEndpoints(ctx, prices, func(context.Context) ([]policy.Endpoint, error) {
		return []policy.Endpoint{{Name: "second"}, {Name: "third"}}, nil
	})
	fmt.Println(prices.Policy().Endpoints.List, err)
	err = gabion.ResolveEndpoints(ctx, prices, func(context.Context) ([]policy.Endpoint, error) { return nil, nil })
	fmt.Println(prices.Policy().Endpoints.List, err != nil)
	// Output:
	// [second third] <nil>
	// [second third] true
}

// The addresses of a name are looked up again and again, until the context ends.
func ExampleFollowEndpoints() {
	ctx, stop := context.WithCancel(context.Background())
	prices := gabion.New("prices", policy.Policy{})
	asked := make(chan bool, 1)
	go gabion.FollowEndpoints(ctx, prices, 1e9, func(ctx context.Context) ([]policy.Endpoint, error) {
		defer func() { asked <- true }()
		return gabion.Addresses(nil, "http://127.0.0.1:8080")(ctx)
	})
	<-asked
	stop()
	fmt.Println("asked")
	// Output: asked
}

func ExampleAddresses() {
	list, err := gabion.Addresses(nil, "http://127.0.0.1:8080/v1")(context.Background())
	fmt.Println(list, err)
	// Output: [http://127.0.0.1:8080/v1] <nil>
}
