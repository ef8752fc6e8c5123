package rabbit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// A Publisher publishes messages to queues. It connects when it first has something to
// publish, and again after it lost the connection. It is safe for concurrent use.
type Publisher struct {
	url string

	mu      sync.Mutex
	session *session        // nil until it is needed
	known   map[string]bool // queues that are declared
	closed  bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher to the broker at an amqp:// URL. Close has to be called.
func NewPublisher(url string) *Publisher { return &Publisher{url: url} }

// maxBatch is how many messages fit into one call of Publish: the broker may send each back
// before anybody looks.
const maxBatch, maxReturned = 1000, 64 * 1000 // by as many callers at the same time

// Publish returns nil when the broker has confirmed all messages, of which there are 1,000 at
// most. After an error some may be in the queue. It waits for the context of each message.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	return p.publish(topic, 0, messages)
}

// PublishAfter is [Publisher.Publish] for messages that are delivered once the delay is over, which is
// rounded up to 50ms, 100ms, 200ms and so on, and is a day at most. Zero means no delay.
func (p *Publisher) PublishAfter(topic string, delay time.Duration, messages ...*message.Message) error {
	return p.publish(topic, delay, messages)
}

// Declare makes the queues of a topic and of its delays, for those who do not want to wait
// when they first publish: a second and a half, until new queues are on disk.
func (p *Publisher) Declare(topic string, delays ...time.Duration) error {
	session, err := dial(p.url)
	if err != nil {
		return err
	}
	defer session.close()
	return session.declare(topic, delays...)
}

// Close ends the connection. What Publish waits for fails.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop()
	return nil
}

// drop forgets the connection. The lock is held.
func (p *Publisher) drop() {
	p.session.close()
	p.session, p.known = nil, nil
}

func (p *Publisher) publish(topic string, delay time.Duration, messages []*message.Message) error {
	if len(messages) > maxBatch {
		return fmt.Errorf("rabbit: %d messages at once are more than %d", len(messages), maxBatch)
	}
	session, confirmations, err := p.send(topic, delay, messages)
	for i, c := range confirmations {
		if acked, waited := c.WaitContext(messages[i].Context()); err == nil && waited != nil {
			err = fmt.Errorf("%w: %w", ErrUnconfirmed, waited)
		} else if err == nil && !acked {
			err = ErrUnconfirmed
		}
	}
	if err == nil && len(session.returned) > 0 { // from any Publish: it comes before the confirmation
		session.close()
		err = fmt.Errorf("%w: a queue is gone", ErrUnconfirmed)
	}
	return err
}

// send writes the messages, and returns what to wait for: of those that were written too when
// a later one failed.
func (p *Publisher) send(topic string, delay time.Duration, messages []*message.Message) (s *session, sent []*amqp.DeferredConfirmation, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue, err := p.ready(topic, delay)
	if err != nil {
		p.drop()
		return nil, nil, err
	}
	for _, m := range messages {
		c, err := p.session.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, true, false, publishing(m))
		if err != nil {
			return p.session, sent, err
		}
		sent = append(sent, c)
	}
	return p.session, sent, nil
}

// ready connects if it has to, and returns the name of the queue, which is there. The lock is held.
func (p *Publisher) ready(topic string, delay time.Duration) (queue string, err error) {
	if p.closed {
		return "", ErrClosed
	}
	if p.session != nil && p.session.IsClosed() {
		p.drop()
	}
	if p.session == nil {
		if p.session, err = dial(p.url); err != nil {
			return "", err
		}
		if err = p.session.Confirm(false); err != nil {
			return "", err
		}
		p.session.returned = p.session.NotifyReturn(make(chan amqp.Return, maxReturned))
		p.known = make(map[string]bool)
	}
	var delays []time.Duration
	if queue = topic; delay > 0 {
		queue, delays = waiting(topic, delay), []time.Duration{delay}
	}
	if !p.known[queue] {
		if err = p.session.declare(topic, delays...); err != nil {
			return "", err
		}
		p.known[topic], p.known[queue] = true, true
	}
	return queue, nil
}

// publishing leaves out the metadata that the broker wrote.
func publishing(m *message.Message) amqp.Publishing {
	headers := make(amqp.Table, len(m.Metadata))
	for name, value := range m.Metadata {
		if !strings.HasPrefix(name, "x-") {
			headers[name] = value
		}
	}
	return amqp.Publishing{Headers: headers, MessageId: m.UUID, DeliveryMode: amqp.Persistent, Body: m.Payload}
}
