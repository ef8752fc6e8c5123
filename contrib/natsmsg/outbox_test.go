package natsmsg

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/message"
	"github.com/gabion-go/gabion/outbox"
	"github.com/gabion-go/gabion/policy"
)

func TestPublisherOfAnOutbox(t *testing.T) {
	r := newRig(t)
	keyed := func(id, topic string, payload []byte) outbox.Message {
		return outbox.Message{ID: id, Topic: topic, Payload: payload, Headers: message.Headers{{Name: message.Key, Value: id}}}
	}
	batch := []outbox.Message{
		keyed("k1", "orders.new", []byte("one")), keyed("k2", "orders.new", make([]byte, 2<<20)), keyed("k3", "nobody.listens", nil),
		keyed("k4", "orders.new", []byte("four")), keyed("k1", "orders.new", []byte("one")), // as after a crash
	}
	errs := Publisher(r.js).Publish(t.Context(), batch)
	for i, want := range []policy.Class{policy.ClassSuccess, policy.ClassClient, policy.ClassNetwork, policy.ClassSuccess, policy.ClassSuccess} {
		got := policy.ClassSuccess
		if errs[i] != nil {
			got = classify.Error(errs[i]).Class
		}
		if got != want {
			t.Errorf("%s: %v, %v, want %v", batch[i].ID, got, errs[i], want)
		}
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

// The publisher gives up when its attempt ends: the answer may never come.
func TestPublisherOfAnOutboxEndsInTime(t *testing.T) {
	r := newRig(t)
	r.node.Shutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, err := range Publisher(r.js).Publish(ctx, []outbox.Message{{ID: "k", Topic: "orders.new"}}) {
		if err == nil {
			t.Error("confirmed by nobody")
		}
	}
}
