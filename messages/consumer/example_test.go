package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// A message is given up, since the card was declined. It is a dead letter until an operator orders that
// it runs again.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := idempotency.NewMemoryStore(0, 0) // one that lasts, in earnest, and so for the letters
	letters, _ := deadletter.NewMemory(deadletter.Options{})

	p, _ := policy.Preset("message-queue")
	c, err := consumer.New(gabion.New("billing", p), store, consumer.Options{
		Letters: letters,
		Inbox:   inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}},
	})
	if err != nil {
		log.Fatal(err)
	}
	declined, done := true, make(chan struct{})
	charge := func(ctx context.Context) error {
		if declined {
			return classify.Permanent(errors.New("the card was declined"))
		}
		fmt.Println("charged for", consumer.MessageFrom(ctx).ID)
		close(done)
		return nil
	}
	d := c.Handle(ctx, consumer.Message{Message: inbox.Message{ID: "order-1042"}}, charge) // an adapter does this
	fmt.Println(d.Verb, d.Cause)

	declined = false
	go c.Redrive(ctx, letters, charge, consumer.Redrive{})                                                       // in each process: it runs letters that are ordered
	if _, err := letters.Order(ctx, deadletter.Query{Group: "billing"}, deadletter.Drive{Rate: 5}); err != nil { // as gabion deadletter redrive does
		log.Fatal(err)
	}
	<-done
	// Output:
	// dead_letter permanent
	// charged for order-1042
}

// A broker delivers a message three times. The bank is away at first.
func ExampleConsumer_Handle() {
	p, _ := policy.Preset("message-queue")
	c, err := consumer.New(gabion.New("billing", p), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}},
	})
	if err != nil {
		panic(err)
	}
	bankIsAway := true
	work := func(ctx context.Context) error {
		if bankIsAway {
			return classify.Transient(errors.New("the bank is away"))
		}
		fmt.Println("charged for", consumer.MessageFrom(ctx).ID)
		return nil
	}
	m := consumer.Message{Source: "orders", Message: inbox.Message{ID: "order-1042", Payload: []byte("10 €")}}
	for m.Delivery = 1; m.Delivery <= 3; m.Delivery++ {
		d := c.Handle(context.Background(), m, work)
		fmt.Println(d.Verb, d.Cause, d.After > 0)
		bankIsAway = false
	}
	// Output:
	// retry failed true
	// charged for order-1042
	// ack done false
	// ack duplicate false
}

// What the work of a message sends carries the message's deadline, and a key that is the
// same each time the work runs.
func ExampleOnward() {
	c, err := consumer.New(gabion.New("shipping", policy.Policy{}), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}},
	})
	if err != nil {
		panic(err)
	}
	m := consumer.Message{Message: inbox.Message{ID: "order-1042"}}
	m.Headers = m.Headers.WithDeadline(time.Now().Add(time.Minute))
	c.Handle(context.Background(), m, func(ctx context.Context) error {
		h := consumer.Onward(ctx, "parcel")
		_, err := h.Deadline()
		fmt.Println(len(h.Get(message.Key)) > 0, err)
		return nil
	})
	// Output: true <nil>
}

// An adapter fetches what there is room for, and pauses while the breaker refuses.
func ExampleConsumer_Room() {
	billing := gabion.New("billing", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 10}}, gabion.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	c, err := consumer.New(billing, idempotency.NewMemoryStore(0, 0), consumer.Options{
		Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}},
	})
	if err != nil {
		panic(err)
	}
	n, _ := c.Room(3)
	fmt.Println(n, "while 3 are worked on")
	b, _ := billing.Breaker("")
	b.ForceOpen(time.Minute)
	n, again := c.Room(3)
	fmt.Println(n, "while the breaker refuses; again in", again.Round(time.Minute))
	// Output:
	// 7 while 3 are worked on
	// 0 while the breaker refuses; again in 1m0s
}
