package gabionmsg

import (
	"context"
	"errors"
	"sync"
	"time"

	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/messages/consumer"
)

// ErrClosed is the error of Subscribe after Close.
var ErrClosed = errors.New("gabionmsg: the subscriber is closed")

// longestPause is the longest time until the policy is asked again whether it admits a message: an
// operator may have moved the breaker by hand.
const longestPause = time.Second

// Subscriber returns a subscriber that takes a message of another only when the consumer
// would admit it: while the breaker refuses, and while all slots of the bulkhead are taken,
// nothing is taken. A message has its slot until Ack or Nack, also while it is held.
//
// Watermill's subscribers wait until a message is taken, so this holds back the broker;
// what a broker sends ahead (a prefetch) waits in the process. Messages are passed on as
// they are, except that one without a context gets that of the subscription.
// Close closes the other subscriber too.
func Subscriber(sub wm.Subscriber, c *consumer.Consumer) wm.Subscriber {
	return &subscriber{Subscriber: sub, c: c, closing: make(chan struct{}), freed: make(chan struct{})}
}

type subscriber struct {
	wm.Subscriber
	c       *consumer.Consumer
	closing chan struct{}
	passing sync.WaitGroup // the subscriptions

	mu      sync.Mutex    // guards all below
	closed  bool          // and closing is
	working int           // messages that wait for Ack or Nack
	freed   chan struct{} // closed when there are fewer
}

// Subscribe implements message.Subscriber.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *wm.Message, error) {
	if !s.enter() {
		return nil, ErrClosed
	}
	in, err := s.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		s.passing.Done()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &passage{s: s, ctx: ctx, in: in, out: make(chan *wm.Message)}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	go func() {
		defer s.passing.Done()
		defer close(p.out)
		p.run()
		cancel()
		<-stop
	}()
	return p.out, nil
}

// enter reports whether there may be another subscription, and counts it.
func (s *subscriber) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.passing.Add(1)
	}
	return !s.closed
}

// SubscribeInitialize implements message.SubscribeInitializer where the other subscriber does.
func (s *subscriber) SubscribeInitialize(topic string) error {
	if i, ok := s.Subscriber.(wm.SubscribeInitializer); ok {
		return i.SubscribeInitialize(topic)
	}
	return nil
}

// Close implements message.Subscriber. It returns when no message will be passed on.
func (s *subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	err := s.Subscriber.Close()
	s.passing.Wait()
	return err
}

// admit returns when a message would be admitted, or false when the context has ended.
func (s *subscriber) admit(ctx context.Context) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		working, freed := s.working, s.freed
		s.mu.Unlock()
		n, again := s.c.Room(working)
		if n > 0 {
			return true
		}
		timer := time.NewTimer(min(again, longestPause))
		select {
		case <-ctx.Done():
		case <-freed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return false
}

// begin counts a message until it is answered.
func (s *subscriber) begin(ctx context.Context, msg *wm.Message) {
	s.mu.Lock()
	s.working++
	s.mu.Unlock()
	alive := msg.Context() // others will set another
	go func() {
		select {
		case <-msg.Acked():
		case <-msg.Nacked():
		case <-alive.Done(): // no one reads its answer
		case <-ctx.Done():
		}
		s.mu.Lock()
		s.working--
		close(s.freed)
		s.freed = make(chan struct{})
		s.mu.Unlock()
	}()
}

// A passage is one subscription.
type passage struct {
	s   *subscriber
	ctx context.Context // ends with the subscription
	in  <-chan *wm.Message
	out chan *wm.Message
}

// run passes messages on until the other subscriber has no more.
func (p *passage) run() {
	for p.s.admit(p.ctx) {
		var msg *wm.Message
		var open bool
		select {
		case msg, open = <-p.in:
		case <-p.ctx.Done():
		}
		if !open {
			break
		}
		if msg.Context() == context.Background() {
			msg.SetContext(p.ctx)
		}
		p.pass(msg)
	}
	p.drain()
}

// pass passes a message on when it would still be admitted: it may have been waited for.
func (p *passage) pass(msg *wm.Message) {
	if !p.s.admit(p.ctx) {
		msg.Nack()
		return
	}
	p.s.begin(p.ctx, msg)
	select {
	case p.out <- msg:
	case <-msg.Context().Done(): // the other subscriber waits for its answer no more
		msg.Nack()
	case <-p.ctx.Done():
		msg.Nack()
	}
}

// drain gives back what comes after the end of the subscription, until the other subscriber
// has closed its channel.
func (p *passage) drain() {
	for msg := range p.in {
		msg.Nack()
	}
}
