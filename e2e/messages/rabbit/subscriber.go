package rabbit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// closeLimit is for handlers that are at work when the subscriber closes. What they have not
// acknowledged then is delivered again.
const closeLimit = 10 * time.Second

// A Subscriber consumes queues. It connects once for each subscription, and again after it
// lost the connection. It is safe for concurrent use.
type Subscriber struct {
	url      string
	prefetch int

	mu     sync.Mutex
	done   chan struct{} // closed by Close
	closed bool
	wg     sync.WaitGroup
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber returns a subscriber to the broker at an amqp:// URL. Up to prefetch messages
// of each subscription are delivered and not yet acknowledged; with one, which is the least,
// they come in order. Close has to be called.
func NewSubscriber(url string, prefetch int) *Subscriber {
	return &Subscriber{url: url, prefetch: max(prefetch, 1), done: make(chan struct{})}
}

// SubscribeInitialize makes the topic's queue.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	session, err := dial(s.url)
	if err != nil {
		return err
	}
	defer session.close()
	return session.declare(topic)
}

// Subscribe delivers the topic's messages until ctx ends or the subscriber is closed. A
// message's context ends too when the connection is lost, over which alone it can be
// acknowledged: another consumer may have it then.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := s.SubscribeInitialize(topic); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	out := make(chan *message.Message)
	s.wg.Go(func() {
		defer close(out)
		s.run(ctx, topic, out)
	})
	return out, nil
}

// Close delivers nothing more and waits for what is delivered, for ten seconds at most.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// run consumes over one connection after the other.
func (s *Subscriber) run(ctx context.Context, topic string, out chan<- *message.Message) {
	for {
		if session, err := dial(s.url); err == nil {
			s.consume(ctx, session, topic, out)
			session.close()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.done:
			return
		case <-time.After(redial):
		}
	}
}

// consume returns when the connection is lost, or when the subscription ends and everything
// that was delivered is settled.
func (s *Subscriber) consume(ctx context.Context, session *session, topic string, out chan<- *message.Message) {
	if session.declare(topic) != nil || session.Qos(s.prefetch, 0, false) != nil {
		return
	}
	deliveries, err := session.Consume(topic, "consumer", false, false, false, false, nil)
	if err != nil {
		return
	}
	connected, lost := context.WithCancel(context.Background())
	defer lost()
	var open sync.WaitGroup
	defer s.settled(&open, lost)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.done:
			return
		case d, more := <-deliveries:
			if !more {
				lost()
				return
			}
			open.Go(func() { s.deliver(ctx, connected, d, out) })
		}
	}
}

// settled waits for the messages that are delivered, as long as it makes sense.
func (s *Subscriber) settled(open *sync.WaitGroup, lost func()) {
	limit := time.AfterFunc(closeLimit, lost)
	defer limit.Stop()
	open.Wait()
}

// deliver hands one message out and does at the broker what is answered.
func (s *Subscriber) deliver(ctx, connected context.Context, d amqp.Delivery, out chan<- *message.Message) {
	wanted, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(connected, cancel)()
	m := received(d)
	m.SetContext(wanted)
	select {
	case out <- m:
	case <-ctx.Done():
		return
	case <-connected.Done():
		return
	case <-s.done:
		return
	}
	select {
	case <-m.Acked():
		d.Ack(false)
	case <-m.Nacked():
		d.Nack(false, true)
	case <-connected.Done():
	}
}

func received(d amqp.Delivery) *message.Message {
	m := message.NewMessage(d.MessageId, d.Body)
	for name, value := range d.Headers {
		switch value := value.(type) {
		case string:
			m.Metadata[name] = value
		case []byte:
			m.Metadata[name] = string(value)
		case int64, int32, int16, bool:
			m.Metadata[name] = fmt.Sprint(value)
		}
	}
	return m
}
