package gabionredis_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionredis"
	"github.com/gabion-go/gabion/policy"
)

func ExampleUse() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:1", // a closed port
		MaxRetries:            -1,            // gabion repeats
		ContextTimeoutEnabled: true,          // and its timeouts end commands
		DialerRetries:         1,
	})
	defer client.Close()
	cache := gabion.New("cache", policy.Policy{})
	if err := gabionredis.Use(client, cache); err != nil {
		fmt.Println(err)
	}
	err := client.Incr(context.Background(), "visits").Err()
	fmt.Println("may it have been counted?", gabion.EffectOf(err))
	// Output: may it have been counted? none
}

func ExampleUse_refused() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	defer client.Close()
	fmt.Println(gabionredis.Use(client, gabion.New("cache", policy.Policy{})))
	// Output: gabionredis: the client repeats commands up to 3 times by itself, also those that are not idempotent: set MaxRetries to -1
}

func ExampleIdempotent() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	// This program ignores how many keys were deleted, or how many fields were new.
	err := gabionredis.Use(client, gabion.New("cache", policy.Policy{}), gabionredis.Idempotent("DEL", "HSET"))
	fmt.Println(err)
	// Output: <nil>
}
