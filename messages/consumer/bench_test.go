package consumer_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// BenchmarkHandle is one message whose work does nothing, with a store in memory.
//
//	go test -run - -bench Handle ./consumer
func BenchmarkHandle(b *testing.B) {
	c, err := consumer.New(gabion.New("billing", policy.Policy{}), idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
	if err != nil {
		b.Fatal(err)
	}
	ids := make([]string, 1<<16)
	for i := range ids {
		ids[i] = "order-" + strconv.Itoa(i)
	}
	payload := []byte("10 €")
	work := func(context.Context) error { return nil }
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i == len(ids) {
			b.StopTimer()
			c, _ = consumer.New(gabion.New("billing", policy.Policy{}), idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
			i = 0
			b.StartTimer()
		}
		m := consumer.Message{Source: "orders", Message: inbox.Message{ID: ids[i], Payload: payload, Delivery: 1}}
		if d := c.Handle(context.Background(), m, work); d.Verb != inbox.Ack {
			b.Fatalf("%+v", d)
		}
	}
}
