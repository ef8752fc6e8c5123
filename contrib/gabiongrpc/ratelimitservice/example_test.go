package ratelimitservice_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc/ratelimitservice"
	"github.com/gabion-go/gabion/policy"
)

func ExampleLimiter_Ask() {
	var conn grpc.ClientConnInterface // to the service, such as from grpc.NewClient
	limits := &ratelimitservice.Limiter{Conn: conn, Domain: "shop"}
	partner := ratelimitservice.Descriptor{{Key: "destination", Value: "partner"}}

	d := gabion.New("partner", policy.Policy{})
	answer, err := gabion.Do(context.Background(), d, func(ctx context.Context) (string, error) {
		if err := limits.Ask(ctx, 1, partner); err != nil {
			return "", err
		}
		return "sent", nil
	})
	fmt.Println(answer, err)
	// Output: sent <nil>
}

func ExampleOverLimit() {
	err := fmt.Errorf("partner: %w", &ratelimitservice.OverLimit{Domain: "shop", RetryAfter: 2 * time.Second})
	if over, ok := errors.AsType[*ratelimitservice.OverLimit](err); ok {
		fmt.Println(over.RetryAfter)
	}
	// Output: 2s
}
