package relays

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// A bank books what is published, each message once: a line for each effect.
type bank struct {
	mortal.Bank
	in     *inbox.Inbox
	reader jetstream.Consumer

	mu      sync.Mutex
	reasons map[inbox.Cause]int
}

func newBank(t *testing.T, js jetstream.JetStream) *bank {
	t.Helper()
	db, store, err := mortal.OpenBank(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	k := &bank{Bank: mortal.Bank{TB: t, DB: db}, reasons: map[inbox.Cause]int{}}
	if k.in, err = inbox.New("bank", store, inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}}); err != nil {
		t.Fatal(err)
	}
	k.reader, err = js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: "bank", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// work books messages until the test's end.
func (k *bank) work() {
	ctx, cancel := context.WithCancel(k.Context())
	all, err := k.reader.Messages(jetstream.PullMaxMessages(50))
	if err != nil {
		k.Fatal(err)
	}
	var working sync.WaitGroup
	working.Go(func() {
		for {
			m, err := all.Next(jetstream.NextContext(ctx))
			if err != nil {
				return
			}
			k.book(m)
		}
	})
	k.Cleanup(func() { cancel(); all.Stop(); working.Wait() })
}

func (k *bank) book(m jetstream.Msg) {
	id := m.Headers().Get(message.Key)
	if id+"/"+m.Subject() != m.Headers().Get(jetstream.MsgIDHeader) {
		k.Errorf("a message has the key %q and the id %q", id, m.Headers().Get(jetstream.MsgIDHeader))
	}
	d := k.in.Handle(context.WithoutCancel(k.Context()), inbox.Message{ID: id, Payload: m.Data()}, func(ctx context.Context) error {
		_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO bookings VALUES (?, ?)", id, m.Headers().Get("Aggregate"))
		return err
	})
	k.mu.Lock()
	k.reasons[d.Cause]++
	k.mu.Unlock()
	if d.Verb == inbox.Ack {
		_ = m.Ack() // or it comes again
	} else {
		_ = m.NakWithDelay(max(d.After, time.Millisecond))
	}
}

// wantOnce waits until that many messages were booked, and checks that each was booked once.
func (k *bank) wantOnce(s *shop, messages int) {
	k.Helper()
	s.eventually(func() bool { booked, _ := k.Booked(); return booked >= messages }, func() string { return "lost messages" })
	info, err := k.reader.Info(k.Context())
	s.eventually(func() bool {
		info, err = k.reader.Info(k.Context())
		return err == nil && info.NumPending == 0 && info.NumAckPending == 0
	}, func() string { return "the broker still has messages" })
	k.WantOnce(messages)
}
