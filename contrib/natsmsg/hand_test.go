package natsmsg

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// With one order key a message is begun when the one before it is over, and both are forgotten.
func TestTheNextOfALineGoesOnWhenOneIsOver(t *testing.T) {
	h := hand{ordered: true, visibility: time.Minute, all: map[uint64]*item{}, lines: map[string]*line{}}
	room := func() bool { return true }
	for seq := range uint64(2) {
		h.add(&item{raw: &nats.Msg{}, seq: seq + 1, order: "a", came: time.Now()}, place{stream: seq + 1, delivery: seq + 1, delivered: 1})
	}
	for want := range uint64(2) {
		it := h.next(8, room)
		if it == nil || it.seq != want+1 {
			t.Fatalf("%+v is begun, want message %d", it, want+1)
		}
		if other := h.next(8, room); other != nil {
			t.Errorf("message %d overtakes", other.seq)
		}
		h.over(it)
	}
	if n := h.count(); n != 0 || len(h.lines) != 0 {
		t.Errorf("%d messages and %d lines are left", n, len(h.lines))
	}
}
