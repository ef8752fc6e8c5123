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
	s := &subscription{o: Options{Logger: quietLog}, visibility: time.Nanosecond, inbox: "_INBOX.x.", hand: map[uint64]*item{}, takes: time.Second}
	m := func() *nats.Msg { return &nats.Msg{Reply: "$JS.ACK.ORDERS.billing.1.7.9.1763856000000000000.3"} }
	s.hand[7] = &item{seq: 7, raw: m(), came: time.Now()}
	var both sync.WaitGroup
	both.Go(func() {
		for range 100 {
			s.receive(m())
		}
	})
	for range 100 {
		s.mu.Lock()
		beats, _ := s.keep(time.Now())
		s.mu.Unlock()
		for _, reply := range beats {
			_ = len(reply)
		}
	}
	both.Wait()
}
