package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A kept context is what work left behind, with what it showed while it ran.
type kept struct {
	ctx     context.Context
	id      string
	token   int64
	derived string
	source  string
	onward  string
}

func keep(ctx context.Context) kept {
	m := consumer.MessageFrom(ctx)
	return kept{ctx, m.ID, idempotency.Token(ctx), idempotency.StepKey(ctx, "ship"), m.Source, fmt.Sprint(consumer.Onward(ctx, "ship"))}
}

// shows reports what the context does not show as it did, or that it lives.
func (k *kept) shows() error {
	now := keep(k.ctx)
	if now.ctx = k.ctx; now != *k {
		return fmt.Errorf("%q: %+v, was %+v", k.id, now, *k)
	}
	if k.ctx.Err() == nil {
		return fmt.Errorf("%q: its context lives", k.id)
	}
	return nil
}

// What work keeps of its context is not another message's later, however much memory is
// used again: not from other goroutines while messages are handled, and not after it failed.
func TestWhatTheWorkKeepsIsNoOtherMessages(t *testing.T) {
	const goroutines, each = 8, 300
	c, err := consumer.New(gabion.New("billing", policy.Policy{Breaker: policy.Breaker{Off: true}}), idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(g), 1))
			var left []kept
			for n := range each {
				id := strconv.Itoa(g*each + n)
				m := consumer.Message{Source: "orders/" + id, Message: inbox.Message{ID: id, Payload: []byte(id), Delivery: 1}}
				ends := draw.IntN(3)
				d := c.Handle(context.Background(), m, func(ctx context.Context) error {
					left = append(left, keep(ctx))
					if ends == 1 {
						return errWork
					}
					if draw.IntN(4) == 0 {
						<-time.After(0)
						_ = ctx.Done()
					}
					if ends == 2 && draw.IntN(8) == 0 {
						panic("at the worst moment")
					}
					return nil
				})
				if (d.Verb == inbox.Ack) != (d.Err == nil) {
					t.Errorf("%s: %+v", id, d)
				}
				for range 3 {
					if err := left[draw.IntN(len(left))].shows(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// A message costs five allocations: the contexts of the inbox, of the attempt, of the run and
// of the work, and the record that the store keeps.
func TestAMessageCostsFewAllocations(t *testing.T) {
	if testrace.Enabled {
		t.Skip("the race detector allocates too")
	}
	const runs, most = 2000, 5
	c, err := consumer.New(gabion.New("billing", policy.Policy{}), idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, runs+1)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	n, work := 0, func(context.Context) error { return nil }
	got := testing.AllocsPerRun(runs, func() {
		if d := c.Handle(context.Background(), consumer.Message{Message: inbox.Message{ID: ids[n], Delivery: 1}}, work); d.Verb != inbox.Ack {
			t.Fatalf("%+v", d)
		}
		n++
	})
	if got > most {
		t.Errorf("a message costs %v allocations, %d are allowed", got, most)
	}
}
