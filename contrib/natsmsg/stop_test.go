package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/testnats"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

func TestStoppingGivesBackWhatWasNotBegun(t *testing.T) {
	r := newRig(t)
	r.policy.Bulkhead.Limit = 2
	r.options.Order = func(*nats.Msg) string { return "all" } // so that messages wait in this process
	r.cfg.AckWait = patience
	r.publishMany(10)
	begun, release := make(chan struct{}, 10), make(chan struct{})
	subscriptions := r.js.Conn().NumSubscriptions()
	r.consume(func(context.Context) error { begun <- struct{}{}; <-release; return nil })
	<-begun
	r.eventually("all are here", func() bool { return r.info().NumAckPending == 10 })
	r.end()
	c, err := r.js.Consumer(t.Context(), stream, durable)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.Fetch(9, jetstream.FetchMaxWait(patience/2))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range batch.Messages() {
		n++
		_ = m.Ack()
	}
	if n != 9 {
		t.Errorf("%d of 9 were given back", n)
	}
	close(release)
	if err := r.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	r.settled()
	r.eventually("no goroutine and no subscription is left", func() bool {
		return len(testnats.Stacks("natsmsg.(*subscription)")) == 0 && r.js.Conn().NumSubscriptions() <= subscriptions+1 // of requests
	})
}

func TestWorkThatOutlastsTheGraceSeesItsContextEnd(t *testing.T) {
	r := newRig(t)
	r.options.Grace = 50 * time.Millisecond
	r.publishMany(1)
	begun, cause := make(chan struct{}), make(chan error, 1)
	r.consume(func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	<-begun
	_ = r.stop()
	if err := <-cause; !errors.Is(err, ErrStopping) {
		t.Errorf("ended because %v", err)
	}
	r.c, r.options.Grace = nil, 0
	r.consume(func(context.Context) error { return nil })
	r.settled() // it came again, long before the ack wait
}

func TestWorkThatPanicsOrEndsItsGoroutineTakesNothingWithIt(t *testing.T) {
	r := newRig(t)
	r.publishMany(4)
	var j journal
	r.consume(func(ctx context.Context) error {
		m := consumer.MessageFrom(ctx)
		j.add(m.ID)
		switch {
		case m.ID == "order-1" && m.Delivery == 1:
			panic("no")
		case m.ID == "order-2" && m.Delivery == 1:
			runtime.Goexit()
		}
		return nil
	})
	r.eventually("all four were begun", func() bool { return j.len() >= 4 })
	r.eventually("two at least are done", func() bool { return r.info().NumAckPending <= 2 })
}

// Quick messages are worked on by few goroutines. When these get stuck, the others go on.
func TestStuckWorkStopsNoOtherWhileThereAreSlots(t *testing.T) {
	r := newRig(t)
	r.policy.Bulkhead.Limit = 40
	var others atomic.Int32
	release := make(chan struct{})
	defer close(release)
	r.consume(func(ctx context.Context) error {
		if string(consumer.MessageFrom(ctx).Payload) == "stuck" {
			<-release
		}
		others.Add(1)
		return nil
	})
	r.publishMany(200)
	r.settled()
	for i := range 3 * few {
		r.publish("orders.new", "stuck", message.Key, fmt.Sprint("stuck-", i))
	}
	r.publish("orders.new", "fine", message.Key, "fine")
	r.eventually("the last is done", func() bool { return others.Load() == 201 })
}

func TestOfSlowWorkNothingIsFetchedAhead(t *testing.T) {
	r := newRig(t)
	r.policy.Bulkhead.Limit = 4
	r.publishMany(16)
	var most atomic.Int64
	r.consume(func(context.Context) error {
		<-time.After(2 * quick)
		most.Store(max(most.Load(), int64(r.info().NumAckPending)))
		return nil
	})
	r.settled()
	if n := most.Load(); n > 6 { // the broker may count one that is done for a moment longer
		t.Errorf("%d messages were here, for 4 slots", n)
	}
}

// A message was acknowledged, and the broker did not get that.
func TestAnEndThatTheBrokerDidNotHearIsToldAgain(t *testing.T) {
	now := time.Now()
	e := ends{visibility: 30 * time.Second, unheard: map[uint64]*item{}}
	for seq, since := range map[uint64]time.Duration{1: time.Second, 2: 3 * time.Second, 3: 31 * time.Second} {
		e.unheard[seq] = &item{seq: seq, said: ack, ended: now.Add(-since), asked: now.Add(-since)}
	}
	again, gone := e.silent(now)
	if len(again) != 1 || again[0].seq != 2 || again[0].asked != now {
		t.Errorf("%d messages are told again, want the second", len(again))
	}
	if len(gone) != 1 || gone[0] != 3 || e.count() != 2 {
		t.Errorf("%v are not waited for any more, want 3, which the broker delivers again by now", gone)
	}
}

func TestTheStopWaitsForConfirmations(t *testing.T) {
	r := newRig(t)
	e := ends{nc: r.js.Conn(), replies: "replies.", unheard: map[uint64]*item{1: {}, 2: {}}, heard: make(chan struct{}, 1)}
	confirm := func(seq string) {
		if _, was := e.confirmed(&nats.Msg{Subject: "replies." + seq}); !was {
			t.Errorf("the end of message %s was not open", seq)
		}
	}
	confirm("1")
	go func() {
		<-time.After(30 * time.Millisecond)
		confirm("2")
	}()
	begun := time.Now()
	e.wait()
	if took := time.Since(begun); e.count() > 0 || took >= flushTime {
		t.Errorf("after %v %d are not confirmed", took, e.count())
	}
}

// Work that ends after the context of Consume is acknowledged, too.
func TestWhatEndsAfterTheStopIsAcknowledged(t *testing.T) {
	r := newRig(t)
	r.publishMany(8)
	release := make(chan struct{})
	var begun atomic.Int32
	r.consume(func(context.Context) error { begun.Add(1); <-release; return nil })
	r.eventually("all run", func() bool { return begun.Load() == 8 })
	r.end()
	<-time.After(20 * time.Millisecond)
	close(release)
	_ = r.stop()
	if i := r.info(); i.NumAckPending != 0 {
		t.Errorf("%d messages are unacknowledged after the end", i.NumAckPending)
	}
}

func TestTheLimitsOfTheConsumerAreKept(t *testing.T) {
	r := newRig(t)
	r.cfg.MaxRequestBatch, r.cfg.MaxRequestExpires = 3, 300*time.Millisecond
	var runs atomic.Int32
	r.consume(func(context.Context) error { runs.Add(1); return nil })
	<-time.After(400 * time.Millisecond) // the first request has expired
	r.publishMany(20)
	r.settled()
	if n := runs.Load(); n != 20 {
		t.Errorf("%d runs of 20 messages", n)
	}
}

func TestADeadLetterThatCantBePublishedLeavesItsMessageAtTheBroker(t *testing.T) {
	r := newRig(t)
	r.bare, r.options.DeadSubject = true, "letters"
	var runs atomic.Int32
	r.make()
	r.publishMany(1)
	r.consume(func(context.Context) error {
		if runs.Add(1) == 1 { // no stream stores letters any more
			cfg := jetstream.StreamConfig{Name: stream, Subjects: []string{"orders.>"}, Duplicates: 100 * time.Millisecond}
			if _, err := r.js.UpdateStream(context.Background(), cfg); err != nil {
				t.Error(err)
			}
		}
		return inbox.Reject(errors.New("no such account"))
	})
	r.eventually("it ran", func() bool { return runs.Load() == 1 })
	_ = r.stop()
	if i := r.info(); i.NumAckPending != 1 {
		t.Errorf("%d messages are unacknowledged, want the one", i.NumAckPending)
	}
}

// A negative Grace ends work at once. Dead letters are published all the same.
func TestWithoutGraceDeadLettersArePublished(t *testing.T) {
	r := newRig(t)
	r.bare, r.options.DeadSubject, r.options.Grace = true, "letters", -time.Hour
	r.publishMany(1)
	r.consume(func(context.Context) error { return inbox.Reject(errors.New("no such account")) })
	r.settled()
	s, err := r.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetLastMsgForSubject(t.Context(), "letters"); err != nil {
		t.Error(err)
	}
}

// Other programs write headers that this client reads and does not send.
func TestADeadLetterWithAnUnusualHeaderIsPublished(t *testing.T) {
	r := newRig(t)
	r.bare, r.options.DeadSubject = true, "letters"
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.node.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	headers := "NATS/1.0\r\nCustomer Name: x\r\nTag: y\r\nIdempotency-Key: order-1\r\n\r\n"
	fmt.Fprintf(conn, "CONNECT {\"headers\":true,\"verbose\":false}\r\nHPUB orders.new %d %d\r\n%s5 euro\r\n", len(headers), len(headers)+6, headers)
	seen := make(chan string, 100)
	r.consume(func(ctx context.Context) error {
		seen <- consumer.MessageFrom(ctx).Headers.Get("Customer Name")
		return inbox.Reject(errors.New("no such account"))
	})
	if got := <-seen; got != "x" {
		t.Errorf("the work saw %q", got)
	}
	r.settled()
	s, err := r.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), "letters")
	if err != nil || string(m.Data) != "5 euro" || m.Header.Get("Tag") != "y" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestTheStopSaysWhatItLeavesRunning(t *testing.T) {
	r := newRig(t)
	r.options.Grace, r.grace = 50*time.Millisecond, 50*time.Millisecond
	r.publishMany(1)
	begun, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	r.consume(func(context.Context) error { close(begun); <-over; return nil })
	<-begun
	err := r.stop()
	var left *consumer.LeftError
	if !errors.As(err, &left) || !errors.Is(err, context.Canceled) || len(left.Runs) != 1 || left.Runs[0].ID != "order-0" {
		t.Errorf("it ended with %v", err)
	}
}
