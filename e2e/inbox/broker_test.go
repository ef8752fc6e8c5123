package inbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/messages/inbox"
)

const (
	stream  = "ORDERS"
	orders  = "orders"
	letters = "letters" // the dead ones
	reader  = "bank"
)

// dedup is the shortest window in which JetStream drops a message that is published
// twice. The tests are about what comes after it.
const dedup = 100 * time.Millisecond

// patience is how long a test waits for what a machine that works would bring.
const patience = 30 * time.Second

// A broker is a JetStream server in this process, with a client.
type broker struct {
	*testing.T
	url string
	js  jetstream.JetStream
}

func startBroker(t *testing.T, ackWait time.Duration) *broker {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the broker does not start")
	}
	b := &broker{T: t, url: s.ClientURL()}
	nc, js, err := connect(b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b.js = js
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{orders, letters}, Duplicates: dedup})
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: reader, FilterSubject: orders, AckWait: ackWait, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func connect(url string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect(url, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	return nc, js, err
}

// publish sends a message under an id, as the relay of an outbox does.
func publish(ctx context.Context, js jetstream.JetStream, subject, id string, payload []byte, header ...string) error {
	m := &nats.Msg{Subject: subject, Data: payload, Header: nats.Header{}}
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
	return err
}

func (b *broker) publish(id, payload string) {
	b.Helper()
	if err := publish(b.Context(), b.js, orders, id, []byte(payload)); err != nil {
		b.Fatal(err)
	}
}

// next returns the next delivery, or nil if none comes.
func (b *broker) next(within time.Duration) jetstream.Msg {
	b.Helper()
	c, err := b.js.Consumer(b.Context(), stream, reader)
	if err != nil {
		b.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(within))
	if err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
		b.Fatal(err)
	}
	return m
}

// count returns how many messages a subject has.
func (b *broker) count(subject string) int {
	b.Helper()
	s, err := b.js.Stream(b.Context(), stream)
	if err != nil {
		b.Fatal(err)
	}
	info, err := s.Info(b.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		b.Fatal(err)
	}
	return int(info.State.Subjects[subject])
}

func deliveries(m jetstream.Msg) int {
	meta, err := m.Metadata()
	if err != nil {
		return 0
	}
	return int(meta.NumDelivered)
}

// message is what an inbox needs to know of a JetStream message.
func message(m jetstream.Msg) inbox.Message {
	return inbox.Message{
		ID: m.Headers().Get(jetstream.MsgIDHeader), Payload: m.Data(), Delivery: deliveries(m),
		Extend: func(context.Context) error { return m.InProgress() },
	}
}

// settle tells JetStream what an inbox decided. A dead letter is stored before the
// message is given up.
func settle(ctx context.Context, js jetstream.JetStream, m jetstream.Msg, d inbox.Disposition) error {
	switch d.Verb {
	case inbox.Ack:
		return m.DoubleAck(ctx)
	case inbox.DeadLetter:
		id := "dead/" + m.Headers().Get(jetstream.MsgIDHeader)
		if err := publish(ctx, js, letters, id, m.Data(), "Reason", string(d.Cause)); err != nil {
			return m.NakWithDelay(time.Second)
		}
		return m.TermWithReason(string(d.Cause))
	}
	return m.NakWithDelay(max(d.After, time.Millisecond))
}

func (b *broker) settle(m jetstream.Msg, d inbox.Disposition) {
	b.Helper()
	if err := settle(b.Context(), b.js, m, d); err != nil {
		b.Fatal(err)
	}
}

// A slowness is how long the broker waits for a word, and how long slow work takes.
type slowness struct{ ackWait, work time.Duration }

// slownesses are tried one after the other until a test passes: a busy machine may be too late to
// extend a message.
func slownesses(yield func(slowness) bool) {
	for ackWait := 900 * time.Millisecond; ackWait < 20*time.Second && yield(slowness{ackWait, ackWait * 5 / 2}); ackWait *= 4 {
	}
}

// A copy is a goroutine that works on the message.
func TestSlowMessageIsNotDeliveredIntoParallelCopies(t *testing.T) {
	for _, c := range []struct {
		name string
		keep bool
	}{
		{"kept visible: one copy", true},
		{"not kept: the test sees several", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			most, all := 0, 0
			for s := range slownesses {
				if most, all = startBroker(t, s.ackWait).copies(s, c.keep); c.keep && most == 1 && all == 1 || !c.keep && most > 1 {
					return
				}
			}
			t.Errorf("%d copies at the same time, %d together", most, all)
		})
	}
}

// copies publishes a message that takes its time, and returns how many work on it, at
// the same time at most and together.
func (b *broker) copies(s slowness, keep bool) (most, all int) {
	b.publish("slow", "x")
	var mu sync.Mutex
	var now int
	work := func(m jetstream.Msg) {
		if keep {
			_, stop := inbox.KeepVisible(b.Context(), inbox.Visibility{Timeout: s.ackWait}, func(context.Context) error { return m.InProgress() })
			defer stop()
		}
		mu.Lock()
		now, all = now+1, all+1
		most = max(most, now)
		mu.Unlock()
		time.Sleep(s.work)
		mu.Lock()
		now--
		mu.Unlock()
	}
	var consumers sync.WaitGroup
	for end := time.Now().Add(s.work + s.ackWait); time.Now().Before(end); {
		if m := b.next(100 * time.Millisecond); m != nil {
			consumers.Go(func() { work(m); m.Ack() })
		}
	}
	consumers.Wait()
	return most, all
}

func amount(m jetstream.Msg) (int, error) {
	n, err := strconv.Atoi(string(m.Data()))
	if err != nil {
		return 0, inbox.Reject(fmt.Errorf("amount: %w", err))
	}
	return n, nil
}
