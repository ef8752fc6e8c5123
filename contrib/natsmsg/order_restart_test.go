package natsmsg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

// orderRig has a durable with a short AckWait, whose messages are all of one key. A request brings
// that many at most; zero means any number.
func orderRig(t *testing.T, n, batch int) *rig {
	r := newRig(t)
	r.cfg.AckWait = 500 * time.Millisecond
	r.policy.Retry.Attempts = 20
	r.policy.Breaker = policy.Breaker{}
	r.options.Order = func(*nats.Msg) string { return "all" }
	r.cfg.MaxRequestBatch = batch
	r.make()
	r.publishMany(n)
	return r
}

// wantOrder fails unless these many messages were done in the order of the stream.
func (r *rig) wantOrder(j *journal, n int) {
	r.Helper()
	r.settled()
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint("order-", i)
	}
	if got := j.all(); !slices.Equal(got, want) {
		r.Errorf("done in the order %s", strings.Join(got, " "))
	}
}

func (r *rig) journalling(j *journal) func(context.Context) error {
	return func(ctx context.Context) error { j.add(consumer.MessageFrom(ctx).ID); return nil }
}

// take takes messages as a process does that is killed after that, or whose connection breaks.
func (r *rig) take(n int) []jetstream.Msg {
	r.Helper()
	c, err := r.js.Consumer(r.Context(), stream, durable)
	if err != nil {
		r.Fatal(err)
	}
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(10*time.Second)) // the broker tells its consumers of a message a moment later
	if err != nil {
		r.Fatal(err)
	}
	var all []jetstream.Msg
	for m := range batch.Messages() {
		all = append(all, m)
	}
	if len(all) != n {
		r.Fatalf("%d messages, want %d", len(all), n)
	}
	return all
}

// What was given back comes in any order, and what failed at the end comes last.
func TestOrderIsKeptWhenAProcessStopsAndAnotherBegins(t *testing.T) {
	r := orderRig(t, 30, 0)
	r.options.Grace = -1
	begun := make(chan struct{})
	r.consume(func(ctx context.Context) error { close(begun); <-ctx.Done(); return errAway })
	<-begun
	r.eventually("all are here", func() bool { return r.info().NumAckPending == 30 })
	_ = r.stop()
	var j journal
	r.consume(r.journalling(&j))
	r.wantOrder(&j, 30)
}

// The first was worked on for long, so the broker delivers it again after the others.
func TestOrderIsKeptWhenAProcessIsKilledThatKeptAMessageForLong(t *testing.T) {
	r := orderRig(t, 5, 0)
	all := r.take(5)
	<-time.After(r.cfg.AckWait / 2)
	if err := all[0].InProgress(); err != nil {
		t.Fatal(err)
	}
	var j journal
	r.consume(r.journalling(&j))
	r.wantOrder(&j, 5)
}

// A connection broke with a message on its way: the one after it came, and it comes again when the
// broker has waited for it.
func TestOrderIsKeptWhenADeliveryIsLost(t *testing.T) {
	r := orderRig(t, 1, 1)
	var j journal
	r.consume(r.journalling(&j))
	r.settled()
	b, _ := r.d.Breaker("")
	b.ForceOpen(time.Hour)
	r.publish("orders.new", "", message.Key, "kept-here") // brought by the request that is out
	r.eventually("the request is used up", func() bool { return r.info().NumWaiting == 0 })
	for i := range 3 {
		r.publish("orders.new", "", message.Key, fmt.Sprint("order-", i+1))
	}
	r.take(1)
	b.Reset()
	r.settled()
	if got := strings.Join(j.all(), " "); got != "order-0 kept-here order-1 order-2 order-3" {
		t.Errorf("done in the order %s", got)
	}
}
