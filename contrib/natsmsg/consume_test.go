package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

var errAway = classify.Transient(errors.New("the bank is away"))

func TestEachMessageIsDoneOnceAndAcknowledged(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint("single ack ", single), func(t *testing.T) {
			r := newRig(t)
			r.options.SingleAck = single
			r.publishMany(100)
			var j journal
			r.consume(func(ctx context.Context) error {
				j.add(string(consumer.MessageFrom(ctx).Payload))
				return nil
			})
			r.settled()
			got := j.all()
			slices.Sort(got)
			if len(got) != 100 || len(slices.Compact(got)) != 100 {
				t.Errorf("%d runs of 100 messages", j.len())
			}
			if i := r.info(); i.Delivered.Consumer != 100 {
				t.Errorf("%d deliveries of 100 messages", i.Delivered.Consumer)
			}
			if err := r.stop(); !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestWhatTheWorkSeesOfAMessage(t *testing.T) {
	r := newRig(t)
	r.options.Order = func(m *nats.Msg) string { return m.Header.Get("Customer") }
	r.publish("orders.new", "10 €", message.Key, "order-1", "Nats-Msg-Id", "x", "Tag", "a", "Tag", "b", "Customer", "c7")
	seen := make(chan *consumer.Message, 1)
	r.consume(func(ctx context.Context) error { seen <- consumer.MessageFrom(ctx); return nil })
	m := <-seen
	got := fmt.Sprint(m.ID, m.Source, m.Position, m.Order, m.Delivery, m.Visibility, m.Headers)
	want := "order-1ORDERS/orders.new1c71 20s [{Customer c7} {Idempotency-Key order-1} {Nats-Msg-Id x} {Tag a} {Tag b}]"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s, want %s", got, want)
	}
	r.settled()
}

// An outage burns no deliveries: what could not be worked on was not fetched, or was kept.
func TestWhileTheBreakerRefusesNothingIsFetched(t *testing.T) {
	r := newRig(t)
	r.policy.Breaker = policy.Breaker{}
	r.make()
	b, _ := r.d.Breaker("")
	b.ForceOpen(time.Hour)
	r.publishMany(30)
	var runs atomic.Int32
	r.consume(func(context.Context) error { runs.Add(1); return nil })
	<-time.After(300 * time.Millisecond)
	if n, i := runs.Load(), r.info(); n != 0 || i.Delivered.Consumer != 0 || i.NumWaiting != 0 {
		t.Errorf("%d runs, %d deliveries, %d requests while the breaker refused", n, i.Delivered.Consumer, i.NumWaiting)
	}
	b.Reset()
	r.settled()
	if n := runs.Load(); n != 30 {
		t.Errorf("%d runs of 30 messages", n)
	}
	if i := r.info(); i.Delivered.Consumer != 30 {
		t.Errorf("%d deliveries of 30 messages", i.Delivered.Consumer)
	}
}

// What came while the breaker opened is kept until it closes, with heartbeats to the broker.
func TestWhatWasFetchedWhenTheBreakerOpenedIsKept(t *testing.T) {
	r := newRig(t)
	r.policy.Breaker = policy.Breaker{}
	r.cfg.AckWait = 500 * time.Millisecond
	r.make()
	var runs atomic.Int32
	r.consume(func(context.Context) error { runs.Add(1); return nil })
	r.eventually("a request waits at the broker", func() bool { return r.info().NumWaiting == 1 })
	b, _ := r.d.Breaker("")
	b.ForceOpen(time.Hour)
	r.publishMany(5)
	<-time.After(1200 * time.Millisecond) // more than two times the ack wait
	if n := runs.Load(); n != 0 {
		t.Errorf("%d runs while the breaker refused", n)
	}
	b.Reset()
	r.settled()
	if n, i := runs.Load(), r.info(); n != 5 || i.Delivered.Consumer != 5 {
		t.Errorf("%d runs and %d deliveries of 5 messages", n, i.Delivered.Consumer)
	}
}

func TestWhatFailsComesAgainAndIsGivenUpAfterThePolicysAttempts(t *testing.T) {
	r := newRig(t)
	r.publish("orders.new", "poison", message.Key, "order-1")
	r.publish("orders.new", "late", message.Key, "order-2")
	var poison, late atomic.Int32
	r.consume(func(ctx context.Context) error {
		if string(consumer.MessageFrom(ctx).Payload) == "poison" {
			poison.Add(1)
			return errAway
		}
		if late.Add(1) == 1 {
			return errAway
		}
		return nil
	})
	r.settled()
	if poison.Load() != 3 || late.Load() != 2 {
		t.Errorf("%d and %d runs, want 3 and 2", poison.Load(), late.Load())
	}
	l := r.wantLetters("attempts_exhausted")[0]
	full, err := r.letters.Get(t.Context(), l.ID)
	if err != nil || len(full.Failures) != 3 || full.Key != "order-1" || full.Source != "ORDERS/orders.new" || full.Position != "1" || string(full.Payload) != "poison" {
		t.Errorf("the letter is %+v, %v", full, err)
	}
}

// Every message ends in exactly one of done and letters.
func TestUnusualMessages(t *testing.T) {
	r := newRig(t)
	r.inbox.MaxPayload = 1000
	ago, ahead := message.Headers{}.WithDeadline(time.Now().Add(-time.Hour)).Get(message.Deadline), message.Headers{}.WithDeadline(time.Now().Add(time.Hour)).Get(message.Deadline)
	for _, m := range []struct{ payload, header string }{
		{"fine", message.Key + "=a"},
		{strings.Repeat("x", 1001), message.Key + "=b"},
		{"\x00\xff\xfe binary", message.Key + "=c"},
		{"without headers", ""},
		{"other payload", message.Key + "=a"},
		{"late", message.Key + "=d;" + message.Deadline + "=" + ago},
		{"in time", message.Key + "=e;" + message.Deadline + "=" + ahead},
		{"of a newer program", message.Key + "=f;" + message.Version + "=99"},
		{"unreadable", message.Key + "=g;" + message.Deadline + "=soon"},
		{"by the broker's id", "Nats-Msg-Id=h"},
		{"in other letters", "idempotency-key=i"},
		{"", message.Key + "=j"},
	} {
		var header []string
		for one := range strings.SplitSeq(m.header, ";") {
			if name, value, ok := strings.Cut(one, "="); ok {
				header = append(header, name, value)
			}
		}
		r.publish("orders.new", m.payload, header...)
	}
	r.policy.Bulkhead.Limit = 1
	var j journal
	r.consume(func(ctx context.Context) error { j.add(consumer.MessageFrom(ctx).ID); return nil })
	r.settled()
	if got := strings.Join(j.all(), ""); got != "acehij" {
		t.Errorf("done: %s", got)
	}
	r.wantLetters("too_large", "no_id", "mismatch", "expired", "unknown_version", "header_unreadable")
}

func TestMessagesWithoutANameMayBeNamedByTheirPlace(t *testing.T) {
	r := newRig(t)
	r.options.ID = Sequence
	r.publish("orders.new", "a")
	var j journal
	r.consume(func(ctx context.Context) error { j.add(consumer.MessageFrom(ctx).ID); return nil })
	r.settled()
	if got := j.all(); len(got) != 1 || got[0] != "ORDERS/1" {
		t.Errorf("%q", got)
	}
}

func TestSlowWorkIsDeliveredOnce(t *testing.T) {
	for ackWait := 300 * time.Millisecond; ; ackWait *= 4 { // a busy machine may be late
		r := newRig(t)
		r.cfg.AckWait = ackWait
		r.publish("orders.new", "a", message.Key, "a")
		var runs atomic.Int32
		r.consume(func(ctx context.Context) error {
			runs.Add(1)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * ackWait):
				return nil
			}
		})
		r.settled()
		n, deliveries := runs.Load(), r.info().Delivered.Consumer
		if n == 1 && deliveries == 1 {
			return
		}
		if ackWait > 5*time.Second {
			t.Fatalf("%d runs, %d deliveries", n, deliveries)
		}
		_ = r.stop()
	}
}

func TestDeadLettersArePublishedWhereNobodyKeepsThem(t *testing.T) {
	r := newRig(t)
	r.bare, r.options.DeadSubject = true, "letters"
	r.publish("orders.new", "poison", message.Key, "order-1", "Nats-Expected-Stream", stream, "Tag", "x")
	r.consume(func(context.Context) error { return inbox.Reject(errors.New("no such\naccount")) })
	r.settled()
	s, err := r.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), "letters")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(string(m.Data), m.Header.Get(DeadReason), m.Header.Get(DeadError), m.Header.Get(DeadAttempts), m.Header.Get(DeadPosition), m.Header.Get(message.Key), m.Header.Get("Tag"))
	if got != "poisonpermanentno such account11order-1x" {
		t.Errorf("%s", got)
	}
}

func TestWhatConsumeRefuses(t *testing.T) {
	r := newRig(t)
	r.make()
	_, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ELSEWHERE", Subjects: []string{"dead"}})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := consumer.New(r.d, r.store(), consumer.Options{Inbox: r.inbox})
	if err != nil {
		t.Fatal(err)
	}
	work := func(context.Context) error { return nil }
	for _, c := range []struct {
		name string
		c    *consumer.Consumer
		o    Options
		on   string
		want string
	}{
		{"a durable that is not there", r.c, Options{}, "absent", "not found"},
		{"no store of dead letters", bare, Options{}, durable, "nothing keeps them"},
		{"no stream stores dead letters", bare, Options{DeadSubject: "nowhere"}, durable, "no stream stores it"},
		{"the consumer reads its own dead letters", bare, Options{DeadSubject: "orders.dead"}, durable, "reads it itself"},
		{"no consumer", nil, Options{}, durable, "is nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := r.js.Conn().NumSubscriptions()
			err := Consume(t.Context(), r.js, stream, c.on, c.c, work, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want: %s", err, c.want)
			}
			if n := r.js.Conn().NumSubscriptions() - before; n > 0 {
				t.Errorf("%d subscriptions are left", n)
			}
		})
	}
}

func TestADeletedConsumerIsAClearError(t *testing.T) {
	r := newRig(t)
	r.consume(func(context.Context) error { return nil })
	r.eventually("a request waits", func() bool { return r.info().NumWaiting == 1 })
	if err := r.js.DeleteConsumer(t.Context(), stream, durable); err != nil {
		t.Fatal(err)
	}
	err := <-r.done
	r.done <- err
	if !errors.Is(err, jetstream.ErrConsumerDeleted) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("%v", err)
	}
}

func TestABrokerThatRestartsIsConsumedFurther(t *testing.T) {
	r := newRig(t)
	var runs atomic.Int32
	r.consume(func(context.Context) error { runs.Add(1); return nil })
	r.publishMany(10)
	r.settled()
	_, port, _ := strings.Cut(strings.TrimPrefix(r.node.ClientURL(), "nats://"), ":")
	fmt.Sscan(port, &r.port)
	testnats.Stop(r.node)
	r.startServer()
	r.eventually("connected again, and the stream is there", func() bool {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second) // a request to a broker that starts may have no answer
		defer cancel()
		_, err := r.js.Stream(ctx, stream)
		return err == nil
	})
	for i := range 10 {
		r.publish("orders.new", "again", message.Key, fmt.Sprint("again-", i))
	}
	r.eventually("all are run", func() bool { return runs.Load() >= 20 }) // the broker's count of what is pending comes late
	r.settled()
	if n := runs.Load(); n != 20 {
		t.Errorf("%d runs of 20 messages", n)
	}
}

// A letter is taken up again by the same process, without the broker.
func TestRedriveTakesLettersUpAgain(t *testing.T) {
	r := newRig(t)
	r.publish("orders.new", "10 €", message.Key, "order-1")
	var mended atomic.Bool
	var j journal
	work := func(ctx context.Context) error {
		if !mended.Load() {
			return inbox.Reject(errors.New("no such account"))
		}
		j.add(consumer.MessageFrom(ctx).ID)
		return nil
	}
	r.consume(work)
	r.settled()
	l := r.wantLetters("permanent")[0]
	mended.Store(true)
	if _, err := r.letters.Order(t.Context(), deadletter.Query{Group: durable}, deadletter.Drive{Rate: 100, By: "me"}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- r.c.Redrive(ctx, r.letters, work, consumer.Redrive{Idle: 10 * time.Millisecond})
	}()
	r.eventually("the letter is done", func() bool {
		got, err := r.letters.Get(t.Context(), l.ID)
		return err == nil && got.State == deadletter.Done
	})
	end()
	<-ended
	if got := j.all(); len(got) != 1 || got[0] != "order-1" {
		t.Errorf("%q", got)
	}
}
