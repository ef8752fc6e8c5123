package redisfleet_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/contrib/gabionredis/redisfleet"
	"github.com/gabion-go/gabion/fleet"
)

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisfleet.New(client, redisfleet.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var _ fleet.Store = store // for fleet.Join
}

func ExampleStore_Do() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisfleet.New(client, redisfleet.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := store.Do(context.Background(), fleet.Batch{List: "shop/pods/"})
	fmt.Println(len(r.Items), "members", err)
}
