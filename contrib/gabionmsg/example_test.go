package gabionmsg_test

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// An order arrives twice and is charged once.
func ExampleMiddleware() {
	letters, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		panic(err)
	}
	p, _ := policy.Preset("message-queue")
	c, err := consumer.New(gabion.New("billing", p), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Letters: letters,
		Inbox:   inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}},
	})
	if err != nil {
		panic(err)
	}
	mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
	if err != nil {
		panic(err)
	}
	router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		panic(err)
	}
	broker := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router.AddConsumerHandler("billing", "orders", gabionmsg.Subscriber(broker, c), func(msg *wm.Message) error {
		fmt.Println("charged for", consumer.MessageFrom(msg.Context()).ID)
		return nil
	}).AddMiddleware(mw)
	go func() { _ = router.Run(context.Background()) }()
	<-router.Running()

	for range 2 {
		order := wm.NewMessage(watermill.NewUUID(), []byte("10 €"))
		order.Metadata.Set(message.Key, "order-1042")
		if err := broker.Publish("orders", order); err != nil {
			panic(err)
		}
	}
	_ = router.Close()
	// Output: charged for order-1042
}
