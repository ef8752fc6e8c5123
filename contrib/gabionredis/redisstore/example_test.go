package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/idempotency"
)

// A charge that is requested twice is made once, whichever process gets the second
// request.
func Example() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(context.Background(), client, redisstore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tenant := func(r *http.Request) string { return r.Header.Get("Tenant") } // from the authentication
	charges := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "charged")
	})
	h, err := idempotency.New(tenant, store, charges, idempotency.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	http.Handle("POST /charges", h)
}

// What the server's settings leave to be wished for is best seen at the start.
func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(context.Background(), client, redisstore.Options{Prefix: "shop:idempotency:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if caps := store.Caps(); !caps.Durable {
		fmt.Println("a crash may forget records:", caps.Warnings)
	}
}
