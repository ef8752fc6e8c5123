package consumer_test

import (
	"context"
	"strconv"
	"testing"
	"time"

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

// BenchmarkParts is what Handle can't do without, each by itself: the names of the message (the
// hash of its key and the keyed hash of its payload), the two changes of the store, and
// nothing but asking the dependency.
func BenchmarkParts(b *testing.B) {
	payload := []byte("10 €")
	b.Run("names", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			inbox.RecordID("billing", "order-12345")
			idempotency.Fingerprint(nil, payload)
		}
	})
	b.Run("store", func(b *testing.B) {
		ids := make([]idempotency.ID, 1<<16)
		for i := range ids {
			ids[i] = inbox.RecordID("billing", "order-"+strconv.Itoa(i))
		}
		s, n := idempotency.NewMemoryStore(0, 0), 0
		b.ReportAllocs()
		for b.Loop() {
			if n == len(ids) {
				b.StopTimer()
				s, n = idempotency.NewMemoryStore(0, 0), 0
				b.StartTimer()
			}
			a, err := s.Begin(context.Background(), idempotency.Claim{ID: ids[n], Owner: [16]byte{1}, Guarantee: idempotency.GuaranteeReexecute, Lease: 30 * time.Second, Retention: time.Hour})
			if err == nil {
				err = s.Apply(context.Background(), idempotency.Ref{ID: ids[n], Token: a.Record.Token}, idempotency.Change{State: idempotency.StateDone})
			}
			if n++; err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("attempt", func(b *testing.B) {
		d := gabion.New("billing", policy.Policy{})
		b.ReportAllocs()
		for b.Loop() {
			a, err := gabion.Begin(context.Background(), d)
			if err != nil {
				b.Fatal(err)
			}
			_ = a.Settle(nil)
			a.Close(nil)
		}
	})
}
