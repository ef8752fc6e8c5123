package rabbit

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/e2e/messages/bad"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
)

// The broker takes seconds to start, so these tests share one. The last of them kills it. What Watermill wants of
// everything that publishes and subscribes is in its own tests.
func TestRabbitMQ(t *testing.T) {
	broker := testservers.StartRabbitMQ(t)
	before := runtime.NumGoroutine()
	t.Run("broker", func(t *testing.T) {
		for _, c := range []struct {
			name string
			test func(*testing.T, *testservers.Server)
		}{
			{"what is published arrives as it was", arrives},
			{"a message that is not wanted now comes again and says how often", comesAgain},
			{"a delayed message comes when its time is there", comesLater},
			{"a message that no queue takes is an error", unroutable},
			{"bad messages are dead letters and stop nothing", badMessages},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel() // most of their time they wait until a new queue is on disk
				c.test(t, broker)
			})
		}
	})
	t.Run("a killed broker loses nothing that it confirmed", func(t *testing.T) { killed(t, broker) })
	for limit := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(limit) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines more than before:\n%s", runtime.NumGoroutine()-before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func publisher(t *testing.T, url string) *Publisher {
	p := NewPublisher(url)
	t.Cleanup(func() { p.Close() })
	return p
}

func subscribe(t *testing.T, url, topic string, prefetch int) <-chan *message.Message {
	t.Helper()
	s := NewSubscriber(url, prefetch)
	t.Cleanup(func() { s.Close() })
	messages, err := s.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func publish(t *testing.T, p *Publisher, topic string, payloads ...string) {
	t.Helper()
	var messages []*message.Message
	for _, payload := range payloads {
		messages = append(messages, message.NewMessage("id-"+payload, []byte(payload)))
	}
	if err := p.Publish(topic, messages...); err != nil {
		t.Fatal(err)
	}
}

// next returns the next message, which is there within the time that a busy machine needs.
func next(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, more := <-messages:
		if !more {
			t.Fatal("the subscription is over")
		}
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("no message comes")
	}
	return nil
}

func arrives(t *testing.T, broker *testservers.Server) {
	p, messages := publisher(t, broker.DSN), subscribe(t, broker.DSN, "arrives", 1)
	sent := message.NewMessage("id", []byte("\x00\xff any bytes"))
	sent.Metadata = message.Metadata{"Idempotency-Key": "k", "Bytes": "\x00\xff", "Empty": "", "x-delivery-count": "7"}
	if err := p.Publish("arrives", sent); err != nil {
		t.Fatal(err)
	}
	got := next(t, messages)
	want := message.Metadata{"Idempotency-Key": "k", "Bytes": "\x00\xff", "Empty": ""}
	if got.UUID != "id" || string(got.Payload) != string(sent.Payload) || !maps.Equal(got.Metadata, want) {
		t.Errorf("got %q %q %v", got.UUID, got.Payload, got.Metadata)
	}
	got.Ack()
	<-got.Context().Done()
	publish(t, p, "arrives", "") // nothing of the first comes again
	if got := next(t, messages); got.UUID != "id-" || len(got.Payload) != 0 || got.Metadata[Deliveries] != "" {
		t.Errorf("an empty message arrives as %q %q %v", got.UUID, got.Payload, got.Metadata)
	} else {
		got.Ack()
	}
}

func comesAgain(t *testing.T, broker *testservers.Server) {
	messages := subscribe(t, broker.DSN, "again", 1)
	publish(t, publisher(t, broker.DSN), "again", "m")
	for _, want := range []string{"", "1", "2"} {
		m := next(t, messages)
		if got := m.Metadata[Deliveries]; got != want {
			t.Errorf("delivered %q times before, want %q", got, want)
		}
		if want == "2" {
			m.Ack()
		} else {
			m.Nack()
		}
	}
}

func comesLater(t *testing.T, broker *testservers.Server) {
	p := publisher(t, broker.DSN)
	delays := []time.Duration{400 * time.Millisecond, 30 * time.Millisecond, 0}
	if err := p.Declare("later", delays...); err != nil {
		t.Fatal(err)
	}
	messages := subscribe(t, broker.DSN, "later", 1)
	start := time.Now()
	for _, delay := range delays {
		m := message.NewMessage(delay.String(), nil)
		m.Metadata.Set("Idempotency-Key", "k")
		if err := p.PublishAfter("later", delay, m); err != nil {
			t.Fatal(err)
		}
	}
	for range delays {
		m := next(t, messages)
		if m.Metadata.Get("Idempotency-Key") != "k" {
			t.Errorf("%s lost its key: %v", m.UUID, m.Metadata)
		}
		if delay, _ := time.ParseDuration(m.UUID); time.Since(start) < delay {
			t.Errorf("%v came after %v", delay, time.Since(start))
		}
		m.Ack()
	}
}

func unroutable(t *testing.T, broker *testservers.Server) {
	p := publisher(t, broker.DSN)
	publish(t, p, "gone", "a")
	session, err := dial(broker.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer session.close()
	if _, err := session.QueueDelete("gone", false, false, false); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish("gone", message.NewMessage("b", nil)); !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("error %v, want %v", err, ErrUnconfirmed)
	}
	publish(t, p, "gone", "c")
	if m := next(t, subscribe(t, broker.DSN, "gone", 1)); m.UUID != "id-c" {
		t.Errorf("got %q", m.UUID)
	} else {
		m.Ack()
	}
}

func badMessages(t *testing.T, broker *testservers.Server) {
	letters, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	desk := bad.Open(t, consumer.Options{Letters: letters}, bad.All(t.Context(), letters))
	desk.Route(t, NewSubscriber(broker.DSN, 4), "bad")
	p := publisher(t, broker.DSN)
	desk.Publish(t, bad.Messages(), func(m bad.Message) error { return p.Publish("bad", m.Watermill()) })
	desk.Want(t, bad.Messages())
}

// Messages are published, delayed and open while the broker is killed. Everything that was
// confirmed and not acknowledged comes.
func killed(t *testing.T, broker *testservers.Server) {
	p := publisher(t, broker.DSN)
	if err := p.Declare("killed", time.Second); err != nil {
		t.Fatal(err)
	}
	messages := subscribe(t, broker.DSN, "killed", 2)
	missing := map[string]bool{"open": true, "delayed": true}
	publish(t, p, "killed", "open")
	open := next(t, messages)
	if err := p.PublishAfter("killed", time.Second, message.NewMessage("", []byte("delayed"))); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		payload := fmt.Sprint(i)
		publish(t, p, "killed", payload)
		missing[payload] = true
	}
	broker.Kill()
	<-open.Context().Done()
	open.Ack() // too late
	if err := p.Publish("killed", message.NewMessage("", []byte("unheard"))); err == nil {
		t.Error("a killed broker confirmed")
	}
	broker.Restart()
	publish(t, p, "killed", "after")
	missing["after"] = true
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("missing: %v", missing)
		}
	})
	for len(missing) > 0 {
		m := next(t, messages)
		delete(missing, string(m.Payload))
		m.Ack()
	}
}
