package natsmsg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/message"
)

func bySubject(m *nats.Msg) string { return strings.TrimPrefix(m.Subject, "orders.") }

func TestMessagesOfAKeyKeepTheirOrderAndAFailingKeyStopsNoOther(t *testing.T) {
	r := newRig(t)
	r.options.Order = bySubject
	r.policy.Retry.Attempts = 20
	for i := range 60 {
		key := string(rune('a' + i%3))
		r.publish("orders."+key, fmt.Sprint(i), message.Key, fmt.Sprint(i))
	}
	var others, fails, running atomic.Int32
	var j journal
	r.consume(func(ctx context.Context) error {
		m := consumer.MessageFrom(ctx)
		if m.Order == "a" {
			if running.Add(1) > 1 {
				t.Error("two of one key are worked on at the same time")
			}
			defer running.Add(-1)
			if others.Load() < 40 { // until all of the others are done
				fails.Add(1)
				return errAway
			}
		} else {
			others.Add(1)
		}
		j.add(m.Order + " " + m.Position)
		return nil
	})
	r.settled()
	at := map[string][]int{}
	for _, line := range j.all() {
		var key string
		var seq int
		fmt.Sscan(line, &key, &seq)
		at[key] = append(at[key], seq)
	}
	for key, seqs := range at {
		if len(seqs) != 20 || !slices.IsSorted(seqs) {
			t.Errorf("%s: %v", key, seqs)
		}
	}
	if i := r.info(); i.Delivered.Consumer != 60 {
		t.Errorf("%d deliveries of 60 messages after %d failures", i.Delivered.Consumer, fails.Load())
	}
}

func TestALetterLetsTheNextOfItsKeyPass(t *testing.T) {
	r := newRig(t)
	r.options.Order = bySubject
	r.publishMany(3)
	var j journal
	r.consume(func(ctx context.Context) error {
		m := consumer.MessageFrom(ctx)
		if j.add(m.ID); m.ID == "order-0" {
			return errAway
		}
		return nil
	})
	r.settled()
	if got := strings.Join(j.all(), " "); got != "order-0 order-0 order-0 order-1 order-2" {
		t.Errorf("%s", got)
	}
	r.wantLetters("attempts_exhausted")
}

// What a process had that was killed comes before what is new.
func TestOrderIsKeptOverARestart(t *testing.T) {
	r := newRig(t)
	r.cfg.AckWait = leastVisibility * 5
	r.make()
	r.publishMany(5)
	c, err := r.js.Consumer(t.Context(), stream, durable)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := c.FetchNoWait(3) // of a process that is killed now
	if err != nil {
		t.Fatal(err)
	}
	for range batch.Messages() {
	}
	r.options.Order = bySubject
	var j journal
	r.consume(func(ctx context.Context) error { j.add(consumer.MessageFrom(ctx).ID); return nil })
	r.settled()
	if got := strings.Join(j.all(), " "); got != "order-0 order-1 order-2 order-3 order-4" {
		t.Errorf("%s", got)
	}
}
