// Package rabbit is a publisher and a subscriber of Watermill's for RabbitMQ, for tests:
// Watermill's own, watermill-amqp, can't be had from where the tests get their modules.
//
// Every topic is a durable queue. A message is published when the broker has confirmed that
// it is on disk, and consumed when it is acknowledged: until then it is delivered again,
// after a Nack, a lost connection or a killed broker. Queues are of the kind that RabbitMQ
// calls quorum, which count deliveries and pass messages on without losing any. A queue that
// was not there before costs a second and a half: see [Publisher.Declare].
//
// A delayed message waits in another queue, one for each delay, whose messages the broker
// moves to the topic's when they have been there that long.
package rabbit

import (
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Deliveries is the metadata of a message that says how often it was delivered before, as a
// decimal number. The broker counts; a first delivery has none.
const Deliveries = "x-delivery-count"

const (
	dialLimit    = 5 * time.Second
	heartbeat    = 5 * time.Second
	redial       = 100 * time.Millisecond  // after a lost connection, until there is another
	namesWritten = 1500 * time.Millisecond // half a second, twice, and some more
	shortDelay   = 50 * time.Millisecond   // of the first queue for delayed messages
	longDelay    = 24 * time.Hour          // no message waits longer
)

// ErrUnconfirmed says that the broker did not confirm a message: it may have it or not.
var ErrUnconfirmed = errors.New("rabbit: the broker did not confirm the message")

// ErrClosed says that the publisher or subscriber was closed.
var ErrClosed = errors.New("rabbit: closed")

// A session is a connection and its only channel.
type session struct {
	conn *amqp.Connection
	*amqp.Channel
	returned chan amqp.Return // of publishers only: what no queue takes
}

func dial(url string) (*session, error) {
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: heartbeat, Dial: amqp.DefaultDial(dialLimit)})
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &session{conn: conn, Channel: channel}, nil
}

// close ends the connection. What was delivered and not acknowledged is in the queue again.
func (s *session) close() {
	if s != nil {
		s.conn.Close()
	}
}

// declare makes the queue of a topic, and those in which messages wait for as long as the
// delays say, or sees that they are there. It returns when a kill of the broker does not
// matter to them: RabbitMQ writes the names of quorum queues to disk when none came for half
// a second, at every second look, and one that was killed before makes such a queue anew,
// without what was in it and confirmed.
func (s *session) declare(topic string, delays ...time.Duration) error {
	created, err := s.declareQueue(topic, amqp.Table{"x-queue-type": "quorum"})
	for _, delay := range delays {
		if err != nil {
			return err
		}
		delay = step(delay)
		var another bool
		another, err = s.declareQueue(waiting(topic, delay), amqp.Table{
			"x-queue-type":              "quorum",
			"x-message-ttl":             delay.Milliseconds(),
			"x-dead-letter-exchange":    "",
			"x-dead-letter-routing-key": topic,
			"x-dead-letter-strategy":    "at-least-once",  // it loses nothing
			"x-overflow":                "reject-publish", // which that strategy asks for
		})
		created = created || another
	}
	if err == nil && created {
		<-time.After(namesWritten)
	}
	return err
}

// waiting is the name of the queue for a delay.
func waiting(topic string, delay time.Duration) string {
	return fmt.Sprintf("%s.after.%v", topic, step(delay))
}

// declareQueue says whether there was no such queue before.
func (s *session) declareQueue(name string, args amqp.Table) (created bool, err error) {
	asking, err := s.conn.Channel() // which an answer of no closes
	if err != nil {
		return false, err
	}
	_, missing := asking.QueueDeclarePassive(name, true, false, false, false, args)
	asking.Close()
	_, err = s.QueueDeclare(name, true, false, false, false, args)
	return missing != nil, err
}

// step rounds a delay up to one of some twenty, each twice the one before, so that there are
// never more queues than that.
func step(delay time.Duration) time.Duration {
	for rounded := shortDelay; rounded < longDelay; rounded *= 2 {
		if delay <= rounded {
			return rounded
		}
	}
	return longDelay
}
