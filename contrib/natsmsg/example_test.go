package natsmsg_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/natsmsg"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// An order is published twice, since its sender did not see the answer. The bank is away at
// first. The customer is charged once.
func Example() {
	js, stop, err := broker()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		fmt.Println(err)
		return
	}

	p, _ := policy.Preset("message-queue")
	p.Retry.Backoff.Base = 10 * time.Millisecond
	letters, _ := deadletter.NewMemory(deadletter.Options{}) // a store that lasts, in earnest
	c, err := consumer.New(gabion.New("billing", p, gabion.WithLogger(slog.New(slog.DiscardHandler))), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Letters: letters,
		Inbox:   inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := js.CreateOrUpdateConsumer(ctx, "ORDERS", natsmsg.Config(c, "billing")); err != nil {
		fmt.Println(err)
		return
	}

	orders := gabion.New("orders", policy.Policy{}, gabion.WithLogger(slog.New(slog.DiscardHandler)))
	for range 2 {
		h := message.Headers{{Name: message.Key, Value: "order-1042"}}
		ack, err := natsmsg.Publish(ctx, orders, js, "orders.new", []byte("10 €"), h)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("published, duplicate:", ack.Duplicate)
	}

	runs := 0
	charge := func(ctx context.Context) error {
		if runs++; runs == 1 {
			return classify.Transient(errors.New("the bank is away"))
		}
		m := consumer.MessageFrom(ctx)
		fmt.Printf("charged %s for %s, run %d\n", m.Payload, m.ID, runs)
		cancel()
		return nil
	}
	err = natsmsg.Consume(ctx, js, "ORDERS", "billing", c, charge, natsmsg.Options{})
	fmt.Println(err)
	// Output:
	// published, duplicate: false
	// published, duplicate: true
	// charged 10 € for order-1042, run 2
	// context canceled
}

// broker starts a NATS server in this process.
func broker() (js jetstream.JetStream, stop func(), err error) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, nil, err
	}
	node, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Host: "127.0.0.1", Port: -1, NoSigs: true})
	if err != nil {
		return nil, nil, err
	}
	node.Start()
	down := func() {
		node.Shutdown()
		node.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
	if !node.ReadyForConnections(30 * time.Second) {
		down()
		return nil, nil, io.ErrNoProgress
	}
	nc, err := nats.Connect(node.ClientURL())
	if err != nil {
		down()
		return nil, nil, err
	}
	js, err = jetstream.New(nc)
	return js, func() { nc.Close(); down() }, err
}

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}
