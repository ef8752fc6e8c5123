package gabionmsg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// A line is a Pub/Sub for one subscription: each message waits until it is taken, and comes
// again at once after Nack.
type line struct {
	ctx     context.Context
	out     chan *wm.Message
	closing chan struct{}
	once    sync.Once
	open    sync.WaitGroup
}

func newLine() *line { return &line{out: make(chan *wm.Message), closing: make(chan struct{})} }

func (l *line) Subscribe(ctx context.Context, _ string) (<-chan *wm.Message, error) {
	l.ctx = ctx
	l.open.Go(func() {
		select {
		case <-ctx.Done():
			go func() { _ = l.Close() }()
		case <-l.closing:
		}
	})
	return l.out, nil
}

func (l *line) Close() error {
	l.once.Do(func() {
		close(l.closing)
		l.open.Wait()
		close(l.out)
	})
	return nil
}

func (l *line) publish(msgs ...*wm.Message) {
	for _, m := range msgs {
		l.open.Go(func() {
			for l.send(m.Copy()) {
			}
		})
	}
}

// send reports whether the message has to come again.
func (l *line) send(m *wm.Message) bool {
	select {
	case l.out <- m:
	case <-l.closing:
		return false
	}
	select {
	case <-m.Acked():
		return false
	case <-m.Nacked():
		return true
	case <-l.closing:
		return false
	}
}

// A tap is a line with a subscription through a consumer.
type tap struct {
	*testing.T
	c   *consumer.Consumer
	pub *line
	sub wm.Subscriber
	out <-chan *wm.Message
}

func newTap(t *testing.T, p policy.Policy, messages int) *tap {
	t.Helper()
	k := &tap{T: t, c: newConsumer(t, p, consumer.Options{}), pub: newLine()}
	k.sub = gabionmsg.Subscriber(k.pub, k.c)
	var err error
	if k.out, err = k.sub.Subscribe(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	for n := range messages {
		k.pub.publish(order(fmt.Sprint(n)))
	}
	return k
}

// next returns the message that is there now, or nil.
func (k *tap) next() *wm.Message {
	synctest.Wait()
	select {
	case msg := <-k.out:
		return msg
	default:
		return nil
	}
}

func (k *tap) close() {
	k.Helper()
	if err := k.sub.Close(); err != nil {
		k.Error(err)
	}
	if _, open := <-k.out; open {
		k.Error("a message was passed on after Close")
	}
}

func TestNoMoreMessagesAreTakenThanThereAreSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTap(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}}, 3)
		defer k.close()
		one, two := k.next(), k.next()
		if one == nil || two == nil || k.next() != nil {
			t.Fatal("not two of three messages were taken")
		}
		if one.Metadata.Get(message.Key) == "" {
			t.Error("the metadata are gone")
		}
		one.Ack()
		three := k.next()
		if three == nil || k.next() != nil {
			t.Fatal("Ack made no room for one")
		}
		two.Nack()
		again := k.next()
		if again == nil || again.UUID != two.UUID {
			t.Error("Nack made no room, or its message did not come again")
		}
	})
}

func TestNothingIsTakenWhileTheBreakerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTap(t, policy.Policy{}, 0)
		defer k.close()
		b, found := k.c.Dependency().Breaker("")
		if !found {
			t.Fatal("there is no breaker")
		}
		synctest.Wait() // it waits for a message
		b.ForceOpen(time.Minute)
		k.pub.publish(order("1"), order("2"))
		time.Sleep(30 * time.Second)
		if k.next() != nil { // also what was waited for when it opened
			t.Error("a message was passed on")
		}
		time.Sleep(31 * time.Second)
		if k.next() == nil {
			t.Error("no message was taken when the breaker tried again")
		}
	})
}

// A goroutine that was left would keep the bubble from its end, which is an error.
func TestASubscriptionLeavesNothingBehind(t *testing.T) {
	for name, end := range map[string]func(k *tap, cancel func()){
		"closed":               func(k *tap, _ func()) { k.close() },
		"closed twice":         func(k *tap, _ func()) { k.close(); k.close() },
		"its context ended":    func(k *tap, cancel func()) { cancel(); synctest.Wait() },
		"the other one closed": func(k *tap, _ func()) { _ = k.pub.Close(); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &tap{T: t, c: newConsumer(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}}, consumer.Options{}), pub: newLine()}
				k.sub = gabionmsg.Subscriber(k.pub, k.c)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var err error
				if k.out, err = k.sub.Subscribe(ctx, "orders"); err != nil {
					t.Fatal(err)
				}
				k.pub.publish(order("1"), order("2"), order("3"))
				m := k.next() // its answer never comes
				if m == nil {
					t.Fatal("nothing was taken")
				}
				synctest.Wait() // and the next one is not taken by anybody
				end(k, cancel)
				passed := 0
				for m := range k.out {
					m.Ack()
					passed++
				}
				if passed > 1 { // the one that was on its way
					t.Errorf("the subscription went on for %d messages", passed)
				}
				synctest.Wait()
				_ = k.sub.Close()
				if _, err := k.sub.Subscribe(t.Context(), "orders"); !errors.Is(err, gabionmsg.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

// Some subscribers give a message that comes again no context. Who holds it has to learn of the end.
func TestAMessageWithoutAContextGetsTheSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTap(t, policy.Policy{}, 1)
		msg := k.next()
		if msg == nil || msg.Context().Err() != nil {
			t.Fatal("there is no message, or its context has ended")
		}
		k.close()
		synctest.Wait()
		if msg.Context().Err() == nil {
			t.Error("its context goes on after Close")
		}
	})
}

func TestARouterHandlesThroughGoChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pub := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		letters := &drawer{}
		c := newConsumer(t, patient(), consumer.Options{Letters: letters})
		mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		runs := map[string]int{}
		router.AddConsumerHandler("billing", "orders", gabionmsg.Subscriber(pub, c), func(msg *wm.Message) error {
			key := consumer.MessageFrom(msg.Context()).ID
			if runs[key]++; key == "2" || key == "1" && runs[key] < 3 {
				return errBank
			}
			return nil
		}).AddMiddleware(mw)
		go func() { _ = router.Run(t.Context()) }()
		<-router.Running()
		for _, id := range []string{"1", "2", "3", "3"} {
			if err := pub.Publish("orders", order(id)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
		}
		if err := router.Close(); err != nil {
			t.Error(err)
		}
		_ = pub.Close()
		if got := fmt.Sprint(runs); got != "map[1:3 2:3 3:1]" {
			t.Errorf("runs: %s", got)
		}
		if got := fmt.Sprint(letters.reasons()); got != "[attempts_exhausted]" {
			t.Errorf("dead letters: %s", got)
		}
	})
}

// A handler that produces messages to a topic, without a publisher that publishes before it is done,
// could lose messages: it does not run.
func TestARouterMustNotPublishAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pub := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
		receipts, err := pub.Subscribe(t.Context(), "receipts")
		if err != nil {
			t.Fatal(err)
		}
		run := func(o gabionmsg.Options, d time.Duration) (runs int) {
			mw, err := gabionmsg.Middleware(newConsumer(t, patient(), consumer.Options{Letters: &drawer{}}), o)
			if err != nil {
				t.Fatal(err)
			}
			router, err := wm.NewRouter(wm.RouterConfig{}, watermill.NopLogger{})
			if err != nil {
				t.Fatal(err)
			}
			sub := gochannel.NewGoChannel(gochannel.Config{}, watermill.NopLogger{})
			router.AddHandler("billing", "orders", sub, "receipts", &outlet{}, func(msg *wm.Message) ([]*wm.Message, error) {
				runs++
				return []*wm.Message{wm.NewMessage("r", nil)}, nil
			}).AddMiddleware(mw)
			go func() { _ = router.Run(t.Context()) }()
			<-router.Running()
			_ = sub.Publish("orders", order("1"))
			time.Sleep(d)
			_ = router.Close()
			_ = sub.Close()
			return runs
		}
		if n := run(gabionmsg.Options{}, 15*time.Second); n != 0 {
			t.Errorf("the work ran %d times", n)
		}
		go func() { (<-receipts).Ack() }()
		if n := run(gabionmsg.Options{Publisher: pub}, time.Second); n != 1 {
			t.Errorf("with a publisher the work ran %d times", n)
		}
		_ = pub.Close()
	})
}

func TestPublishingIsACallUnderThePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &outlet{err: errors.New("connection refused")}
		d := gabion.New("broker", policy.Policy{Retry: policy.Retry{Attempts: 3}}, gabion.WithSeed(1))
		pub := gabionmsg.Publisher(out, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		msg := wm.NewMessageWithContext(ctx, "u", nil)
		var failed *gabion.Error
		if err := pub.Publish("orders", msg); !errors.As(err, &failed) {
			t.Errorf("the error is %v", err)
		}
		out.err = nil
		if err := pub.Publish("orders", msg, order("own"), &wm.Message{}); err != nil {
			t.Error(err)
		}
		if err := pub.Publish("orders"); err != nil {
			t.Error(err)
		}
		sent := out.sent["orders"]
		if len(sent) != 3 {
			t.Fatalf("%d messages", len(sent))
		}
		if h := sent[0].Metadata; h.Get(message.Key) != "u" || h.Get(message.Deadline) == "" {
			t.Errorf("headers: %v", h)
		}
		if sent[1].Metadata.Get(message.Key) != "own" || sent[2].UUID == "" || sent[2].Metadata.Get(message.Key) != sent[2].UUID {
			t.Errorf("headers: %v, %v", sent[1].Metadata, sent[2].Metadata)
		}
	})
}
