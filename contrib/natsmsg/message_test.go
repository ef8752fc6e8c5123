package natsmsg

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestPlacesAreReadAsTheClientDoes(t *testing.T) {
	for _, reply := range []string{
		"$JS.ACK.ORDERS.billing.1.7.9.1763856000000000000.3",
		"$JS.ACK.hub.ACCOUNT.ORDERS.billing.2.18446744073709551.4.1763856000000000000.0",
		"$JS.ACK._.ACCOUNT.ORDERS.billing.2.18.4.1763856000000000000.0.random",
		"$JS.ACK.ORDERS.billing.1.7.9.1763856000000000000",
		"$JS.ACK.a.ORDERS.billing.1.7.9.1763856000000000000.3",
		"_INBOX.x.y", "",
	} {
		m := &nats.Msg{Reply: reply, Sub: &nats.Subscription{}}
		want, err := m.Metadata()
		got, ok := placeOf(reply)
		if ok != (err == nil) {
			t.Errorf("%s: %v, and the client says %v", reply, ok, err)
		}
		if ok && (got.stream != want.Sequence.Stream || got.delivery != want.Sequence.Consumer || got.delivered != int(want.NumDelivered)) {
			t.Errorf("%s: %+v, and the client says %+v", reply, got, want)
		}
	}
}

func TestASubjectWithoutNumbersIsNoPlace(t *testing.T) {
	if p, ok := placeOf("$JS.ACK.ORDERS.billing.x.7.9.1763856000000000000.3"); ok { // the client reads a -1
		t.Errorf("%+v", p)
	}
}

// A message is delivered again while a heartbeat for it goes to the broker. The race detector is what
// fails.
func TestADeliveryAgainMeetsAHeartbeat(t *testing.T) {
	h := hand{visibility: time.Nanosecond, all: map[uint64]*item{}}
	add := func() {
		m := &nats.Msg{Reply: "$JS.ACK.ORDERS.billing.1.7.9.1763856000000000000.3"}
		p, _ := placeOf(m.Reply)
		h.add(&item{raw: m, seq: p.stream, came: time.Now()}, p)
	}
	add()
	var both sync.WaitGroup
	both.Go(func() {
		for range 100 {
			add()
		}
	})
	for range 100 {
		beats, _ := h.keep(time.Now())
		for _, reply := range beats {
			_ = len(reply)
		}
	}
	both.Wait()
}
