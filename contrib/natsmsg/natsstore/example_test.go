package natsstore_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/natsstore"
	"github.com/gabion-go/gabion/idempotency"
)

// A program that embeds the NATS server keeps its idempotency keys there: a
// request that arrives twice is handled once.
func Example() {
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	options := &server.Options{JetStream: true, StoreDir: dir, SyncAlways: true, Host: "127.0.0.1", Port: -1, NoSigs: true}
	node, err := server.NewServer(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	node.Start()
	defer node.WaitForShutdown()
	defer node.Shutdown()
	node.ReadyForConnections(10 * time.Second)

	nc, err := nats.Connect(node.ClientURL(), nats.ReconnectBufSize(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, _ := jetstream.New(nc)
	store, err := natsstore.Open(context.Background(), js, natsstore.Options{Bucket: "keys", SyncAlways: options.SyncAlways})
	if err != nil {
		fmt.Println(err)
		return
	}
	charges := 0
	handler, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	}), idempotency.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges", nil)
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	fmt.Println(store.Caps().Durable, len(store.Caps().Warnings))
	// Output:
	// 201 charge 1 replayed: false
	// 201 charge 1 replayed: true
	// true 0
}
