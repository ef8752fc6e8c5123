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
	"github.com/gabion-go/gabion/messages/inbox"
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

// A key whose messages wait stops no other as long as there is room, and never has more here than there is room for.
func TestAKeyThatStandsStillStopsNoOtherWhileThereIsRoom(t *testing.T) {
	const slots, ahead, others = 8, 20, 30
	for _, c := range []struct {
		fact    string
		stuck   int // messages of the key
		givenUp int // of them, before others go on
	}{
		{"fewer messages wait than are kept", ahead, 0},
		{"more wait, and others go on once some are given up", 2 * ahead, 2*ahead - slots - ahead + 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := newRig(t)
			r.options.Order, r.options.Ahead = bySubject, ahead
			for i := range c.stuck + others {
				key := "stuck"
				if i >= c.stuck {
					key = "other"
				}
				r.publish("orders."+key, "", message.Key, fmt.Sprint(i))
			}
			var done atomic.Int32
			gate := make(chan error)
			r.consume(func(ctx context.Context) error {
				if consumer.MessageFrom(ctx).Order == "stuck" {
					select {
					case err := <-gate:
						return err
					case <-ctx.Done():
						return errAway
					}
				}
				done.Add(1)
				return nil
			})
			if c.givenUp > 0 {
				r.eventually("all are here that there is room for", func() bool { return r.info().NumAckPending == slots+ahead })
				if n := done.Load(); n > 0 {
					t.Errorf("%d others are done", n)
				}
			}
			for range c.givenUp {
				gate <- inbox.Reject(errAway)
			}
			r.eventually("the others are done", func() bool { return done.Load() == others })
			if n := r.info().NumAckPending; n > slots+ahead {
				t.Errorf("%d messages are here, and there is room for %d", n, slots+ahead)
			}
			close(gate)
			r.settled()
		})
	}
}
