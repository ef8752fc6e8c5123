package natsfleet_test

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/natsfleet"
	"github.com/gabion-go/gabion/fleet"
)

func ExampleOpen() {
	ctx := context.Background()
	nc, err := nats.Connect(nats.DefaultURL, nats.ReconnectBufSize(-1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := natsfleet.Open(ctx, js, natsfleet.Options{Bucket: "shop-fleet", Replicas: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := store.Do(ctx, fleet.Batch{List: "shop/pods/"}) // fleet.Join has more to ask
	fmt.Println(len(r.Items), "members", err)
}
