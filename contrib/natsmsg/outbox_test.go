package natsmsg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/messages/outbox"
	"github.com/gabion-go/gabion/policy"
)

func TestPublisherOfAnOutbox(t *testing.T) {
	r := newRig(t)
	keyed := func(id, topic string, payload []byte) outbox.Message {
		return outbox.Message{ID: id, Topic: topic, Payload: payload, Headers: message.Headers{{Name: message.Key, Value: id}}}
	}
	batch := []outbox.Message{
		keyed("k1", "orders.new", []byte("one")), keyed("k2", "orders.new", make([]byte, 2<<20)), keyed("k3", "void.one", nil),
		keyed("k4", "orders.new", []byte("four")), keyed("k1", "orders.new", []byte("one")), // as after a crash
	}
	errs := Publisher(r.js).Publish(t.Context(), batch)
	for i, want := range []policy.Class{policy.ClassSuccess, policy.ClassClient, policy.ClassClient, policy.ClassSuccess, policy.ClassSuccess} {
		got := policy.ClassSuccess
		if errs[i] != nil {
			got = classify.Error(errs[i]).Class
		}
		if got != want {
			t.Errorf("%s: %v, %v, want %v", batch[i].ID, got, errs[i], want)
		}
	}
	if !errors.Is(errs[2], outbox.ErrNoTopic) || errors.Is(errs[1], outbox.ErrNoTopic) {
		t.Errorf("%v, %v", errs[1], errs[2])
	}
	s, err := r.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), 1)
	if err != nil || m.Header.Get(message.Key) != "k1" || m.Header.Get(jetstream.MsgIDHeader) != "k1/orders.new" || string(m.Data) != "one" {
		t.Errorf("%+v, %v", m, err)
	}
	if info, err := s.Info(t.Context()); err != nil || info.State.Msgs != 2 {
		t.Errorf("%+v, %v, want two messages", info, err)
	}
}

// A publisher may lack the right to ask, and then waits for the answer.
func TestTheServerIsAskedOnceForATopicWithoutAStream(t *testing.T) {
	r := newRig(t)
	spy, err := nats.Connect(r.js.Conn().ConnectedUrl())
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	asked, err := spy.SubscribeSync("$JS.API.STREAM.NAMES")
	if err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	for i, err := range Publisher(r.js).Publish(t.Context(), slices.Repeat([]outbox.Message{{ID: "k", Topic: "void.one"}, {ID: "l", Topic: "void.two"}}, 50)) {
		if !errors.Is(err, outbox.ErrNoTopic) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	r.eventually("it was asked for both", func() bool { n, _, _ := asked.Pending(); return n >= 2 })
	if n, _, err := asked.Pending(); n != 2 {
		t.Errorf("the server was asked %d times for two topics, %v", n, err)
	}
}

// The publisher gives up when its attempt ends: the answer may never come.
func TestPublisherOfAnOutboxEndsInTime(t *testing.T) {
	r := newRig(t)
	r.node.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, err := range Publisher(r.js).Publish(ctx, []outbox.Message{{ID: "k", Topic: "orders.new"}}) {
		if err == nil {
			t.Error("confirmed without a stream")
		}
	}
}

// A broker that took messages and never answered, as a stream without a leader does, must not
// keep the publisher from others after that.
func TestUnansweredMessagesDoNotStopThePublisher(t *testing.T) {
	r := newRig(t)
	silent, err := r.js.Conn().Subscribe("void", func(*nats.Msg) {}) // so that there is a responder
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Unsubscribe()
	p := Publisher(r.js)
	lost := slices.Repeat([]outbox.Message{{ID: "k", Topic: "void"}}, 500)
	for range 9 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		begun := time.Now()
		errs := p.Publish(ctx, lost)
		cancel()
		if took := time.Since(begun); took > 5*time.Second {
			t.Fatalf("it took %v beyond the end of its context", took)
		}
		if errs[499] == nil {
			t.Fatal("confirmed without an answer")
		}
	}
	if errs := p.Publish(t.Context(), []outbox.Message{{ID: "k", Topic: "orders.new"}}); errs[0] != nil {
		t.Error(errs[0])
	}
}

// What Enqueue takes with its defaults, a broker takes with its defaults.
func TestTheLargestMessageOfAnOutboxIsPublished(t *testing.T) {
	r := newRig(t)
	box, err := outbox.New(nil, outbox.SQLite, "outbox", outbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, headers := range []message.Headers{nil, {{Name: "Trace", Value: strings.Repeat("x", 60_000)}}} {
		m := outbox.Message{ID: strings.Repeat("k", 255), Topic: "orders." + strings.Repeat("t", 900), Headers: headers}
		taken := func(n int) bool {
			m.Payload = make([]byte, n)
			return box.Enqueue(t.Context(), anyway{}, m) == nil
		}
		m.Payload = make([]byte, sort.Search(2<<20, func(n int) bool { return !taken(n) })-1)
		m.Headers = m.Headers.With(message.Key, m.ID) // as the relay does
		if errs := Publisher(r.js).Publish(t.Context(), []outbox.Message{m}); errs[0] != nil {
			t.Errorf("%d bytes of payload: %v", len(m.Payload), errs[0])
		}
	}
}

// anyway is a transaction that takes all.
type anyway struct{}

func (anyway) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return driver.RowsAffected(1), nil
}

// No retry helps where a header has a name that NATS has not.
func TestAHeaderThatNATSCantHaveIsRefusedForEver(t *testing.T) {
	r := newRig(t)
	d := gabion.New("broker", policy.Policy{}, gabion.WithLogger(quietLog))
	for _, name := range []string{"Customer Name", "Größe", "a:b", "a\r\nNats-Rollup"} {
		m := outbox.Message{ID: "k", Topic: "orders.new", Headers: message.Headers{{Name: message.Key, Value: "k"}, {Name: name, Value: "x"}}}
		of := map[string]error{"the outbox": Publisher(r.js).Publish(t.Context(), []outbox.Message{m})[0]}
		_, of["Publish"] = Publish(t.Context(), d, r.js, m.Topic, nil, m.Headers)
		for who, err := range of {
			if !errors.Is(err, nats.ErrBadHeaderMsg) || classify.Error(err).Class != policy.ClassClient {
				t.Errorf("%s of a header %q: %v", who, name, err)
			}
		}
	}
	m := outbox.Message{ID: "k", Topic: "orders.new", Headers: message.Headers{{Name: message.Key, Value: "k"}, {Name: "x-1_!#$%&'*+.^`|~", Value: "x"}}}
	if errs := Publisher(r.js).Publish(t.Context(), []outbox.Message{m}); errs[0] != nil {
		t.Error(errs[0])
	}
}
