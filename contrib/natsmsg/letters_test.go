package natsmsg

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/messages/outbox"
)

// A dead letter is larger than its message. Where the server does not take it, it is published without the payload: the work, whose
// error is permanent, runs once.
func TestADeadLetterThatDoesNotFitIsPublishedWithoutItsPayload(t *testing.T) {
	const most = 1 << 20 // the server's max_payload
	for _, c := range []struct {
		fact   string
		size   int
		text   string
		reason string // of the letter; empty for the work's own
		kept   int
	}{
		{"it fits", 100, "no such customer", "", 100},
		{"its error is long", 100, strings.Repeat("é", most), "", 100},
		{"its message is nearly as large as the server takes", most - 200, "no such customer", deadletter.PayloadMissing, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := newRig(t)
			r.bare = true
			r.options.DeadSubject = "dead.orders"
			dead, err := r.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead.>"}})
			if err != nil {
				t.Fatal(err)
			}
			m := &nats.Msg{Subject: "orders.new", Header: nats.Header{message.Key: {"k"}}, Data: make([]byte, c.size)}
			if _, err := r.js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			var runs atomic.Int64
			r.consume(func(context.Context) error { runs.Add(1); return classify.Permanent(errors.New(c.text)) })
			var letter *jetstream.RawStreamMsg
			r.eventually("the letter is there", func() bool { letter, err = dead.GetMsg(t.Context(), 1); return err == nil })
			if got := letter.Header.Get(DeadReason); got == "" || c.reason != "" && got != c.reason || c.reason == "" && got == deadletter.PayloadMissing {
				t.Errorf("the reason is %q, want %q", got, c.reason)
			}
			if len(letter.Data) != c.kept || letter.Header.Get(message.Key) != "k" || !strings.HasPrefix(letter.Header.Get(DeadError), c.text[:16]) {
				t.Errorf("%d bytes, %v", len(letter.Data), letter.Header)
			}
			if runs.Load() != 1 {
				t.Errorf("the work ran %d times", runs.Load())
			}
		})
	}
}

// A connection that is closed for good says nothing against a message: another process may send it.
func TestAClosedConnectionParksNoMessageOfAnOutbox(t *testing.T) {
	r := newRig(t)
	nc, err := nats.Connect(r.url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	err = Publisher(js).Publish(t.Context(), []outbox.Message{{ID: "k", Topic: "orders.new", Headers: message.Headers{{Name: message.Key, Value: "k"}}}})[0]
	if !errors.Is(err, nats.ErrConnectionClosed) || !classify.Error(err).Class.Transient() {
		t.Errorf("%v is %v, want what passes", err, classify.Error(err).Class)
	}
}

// While no server listens for the ends of messages, as in an election, a server answers for it. That confirms nothing, so the end is sent again.
func TestAnEndThatNoServerListensForIsToldAgain(t *testing.T) {
	r := newRig(t)
	s := newSubscription(r.js.Conn(), nil, Options{})
	s.ends.replies = r.js.Conn().NewInbox() + "."
	s.pull.closed = true
	answers := make(chan *nats.Msg, 1)
	sub, err := r.js.Conn().Subscribe(s.ends.replies+"*", func(m *nats.Msg) { s.confirm(m); answers <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	it := &item{seq: 7, raw: &nats.Msg{Reply: "$JS.ACK.ORDERS.gone.1.7.7.1.0"}}
	s.ends.add(it, ack)
	s.ends.tell(it, ack)
	select {
	case m := <-answers:
		if m.Header.Get("Status") != noResponders {
			t.Fatalf("the server answered %v", m.Header)
		}
	case <-time.After(patience):
		t.Fatal("the server did not answer")
	}
	if s.ends.count() != 1 {
		t.Error("a server that has no such consumer was taken for one that has heard")
	}
}
