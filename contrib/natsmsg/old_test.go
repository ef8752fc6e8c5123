package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// installed makes the rig's broker the nats-server that is installed: on Debian 12 one that
// ignores the reason of a termination, and the termination with it.
func installed(t *testing.T) *rig {
	t.Helper()
	r := &rig{TB: t, policy: unhurried, url: testservers.StartNATS(t).DSN}
	r.begin()
	return r
}

func TestADeadLetterIsOverForTheInstalledServer(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint("single ack ", single), func(t *testing.T) {
			r := installed(t)
			r.cfg.AckWait, r.options.SingleAck = 500*time.Millisecond, single
			t.Log("nats-server", r.js.Conn().ConnectedServerVersion())
			r.publish("orders.new", "poison", message.Key, "order-1")
			var runs atomic.Int32
			r.consume(func(context.Context) error {
				runs.Add(1)
				return inbox.Reject(errors.New("no such account"))
			})
			r.eventually("the broker has nothing left", func() bool {
				i := r.info()
				return i.Delivered.Consumer > 0 && i.NumPending == 0 && i.NumAckPending == 0
			})
			if n, i := runs.Load(), r.info(); n != 1 || i.Delivered.Consumer != 1 {
				t.Errorf("%d runs and %d deliveries of a message that was given up", n, i.Delivered.Consumer)
			}
			r.wantLetters("permanent")
		})
	}
}

func TestWhatIsToldOfADeadLetter(t *testing.T) {
	for version, want := range map[string]string{
		"2.9.10": "+TERM", "2.10.3": "+TERM", "2.10.4": "+TERM permanent", "2.10.4-RC.1": "+TERM permanent", "2.11.0": "+TERM permanent",
		"3.0.0": "+TERM permanent", "": "+TERM", "x": "+TERM", "2": "+TERM", "2.10": "+TERM",
	} {
		if got := string(termination(version, inbox.CausePermanent)); got != want {
			t.Errorf("nats-server %q: %q, want %q", version, got, want)
		}
	}
}

// In a cluster the server that has the message may be older than the one that is connected.
func TestATerminationThatNobodyConfirmedIsToldWithoutItsReason(t *testing.T) {
	r := newRig(t)
	told, err := r.js.Conn().SubscribeSync("answers")
	if err != nil {
		t.Fatal(err)
	}
	r.make()
	s := newSubscription(r.js.Conn(), r.c, r.options)
	s.keepsFor(time.Minute)
	s.pull.close()
	it := &item{seq: 7, raw: &nats.Msg{Reply: "answers"}}
	s.answer(it, termination("2.11.0", inbox.CausePermanent))
	it.asked = it.asked.Add(-flushTime - 1)
	s.look(t.Context())
	for _, want := range []string{"+TERM permanent", "+TERM"} {
		if m, err := told.NextMsg(patience); err != nil || string(m.Data) != want {
			t.Errorf("%v, %v, want %q", m, err, want)
		}
	}
}

func TestServersThatAreTooOldAreRefused(t *testing.T) {
	for version, fit := range map[string]bool{"2.8.4": false, "2.9.0": true, "2.9.10": true, "2.10.4": true, "2.15.2-beta.1": true, "": true, "dev": true} {
		if err := checkServer(version); (err == nil) != fit {
			t.Errorf("nats-server %q: %v", version, err)
		}
	}
}

// The process ended between storing the letter and telling the broker.
func TestADeliveryWhoseLetterWaitsDoesNotRun(t *testing.T) {
	r := newRig(t)
	r.make()
	r.publish("orders.new", "poison", message.Key, "order-1")
	durable, err := r.js.Consumer(t.Context(), stream, durable)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := durable.Fetch(1, jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	m := <-batch.Messages()
	got := r.c.Handle(t.Context(), consumer.Message{Message: inbox.Message{ID: "order-1", Payload: m.Data()}, Source: stream}, func(context.Context) error {
		return inbox.Reject(errors.New("no such account"))
	})
	if got.Verb != inbox.DeadLetter {
		t.Fatalf("%v", got)
	}
	if err := m.Nak(); err != nil { // in place of TERM
		t.Fatal(err)
	}
	var runs atomic.Int32
	r.consume(func(context.Context) error { runs.Add(1); return nil })
	r.settled()
	if n := runs.Load(); n != 0 {
		t.Errorf("%d runs of a message whose letter waits", n)
	}
	full, err := r.letters.Get(t.Context(), r.wantLetters("permanent")[0].ID)
	if err != nil || full.State != deadletter.Waiting || len(full.Failures) != 1 {
		t.Errorf("the letter is %+v, %v", full, err)
	}
}
