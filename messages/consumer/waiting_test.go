package consumer_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
)

// uncounted is a store of letters whose Count fails.
type uncounted struct{ deadletter.Store }

func (uncounted) Count(context.Context, deadletter.Query) ([]deadletter.Tally, error) {
	return nil, errWork
}

func TestADeliveryWhoseLetterWaits(t *testing.T) {
	for _, c := range []struct {
		fact   string
		change func(deadletter.Store, deadletter.ID) error
		broken bool
		next   func(consumer.Message) consumer.Message
		runs   int // of the second delivery
	}{
		{"comes again: it does not run", nil, false, again, 0},
		{"comes again while a redrive is to take the letter: it does not run", func(m deadletter.Store, _ deadletter.ID) error {
			_, err := m.Order(t.Context(), deadletter.Query{}, deadletter.Drive{Group: "billing", Rate: 1})
			return err
		}, false, again, 0},
		{"was sent anew: it runs", nil, false, func(m consumer.Message) consumer.Message { return m }, 1},
		{"comes again after the letter was dropped: it runs", func(m deadletter.Store, id deadletter.ID) error {
			return m.Drop(t.Context(), id, "me", "a test")
		}, false, again, 1},
		{"comes again, and the letters can't be counted: it runs", nil, true, again, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			memory, err := deadletter.NewMemory(deadletter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := consumer.Options{Inbox: inbox.Options{RunnerConfig: reexecute}, Letters: memory, Logger: slog.New(slog.DiscardHandler)}
			if c.broken {
				o.Letters = uncounted{memory}
			}
			k, err := consumer.New(gabion.New("billing", unguarded), idempotency.NewMemoryStore(0, 0), o)
			if err != nil {
				t.Fatal(err)
			}
			d := k.Handle(t.Context(), order(1), func(context.Context) error { return inbox.Reject(errWork) })
			page, err := memory.List(t.Context(), deadletter.Query{}, "", 0)
			if err != nil || d.Verb != inbox.DeadLetter || len(page.Letters) != 1 {
				t.Fatalf("%v, %v, %v", d, page, err)
			}
			if c.change != nil {
				if err := c.change(memory, page.Letters[0].ID); err != nil {
					t.Fatal(err)
				}
			}
			runs := 0
			d = k.Handle(t.Context(), c.next(order(1)), func(context.Context) error { runs++; return inbox.Reject(errWork) })
			if runs != c.runs || d.Verb != inbox.DeadLetter || d.Cause != inbox.CausePermanent {
				t.Errorf("%d runs, want %d: %v", runs, c.runs, d)
			}
		})
	}
}

// stuck is a store of letters whose Count gives no answer while it is off.
type stuck struct {
	deadletter.Store
	off   bool
	asked int
}

func (s *stuck) Count(ctx context.Context, q deadletter.Query) ([]deadletter.Tally, error) {
	if s.asked++; s.off {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Count(ctx, q)
}

func TestRepeatedMessagesDoNotWaitForLettersThatGiveNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := deadletter.NewMemory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		letters := &stuck{Store: memory, off: true}
		k, err := consumer.New(gabion.New("billing", unguarded), idempotency.NewMemoryStore(0, 0), consumer.Options{
			Letters: letters, Logger: slog.New(slog.DiscardHandler), LetterTimeout: time.Second, Inbox: inbox.Options{RunnerConfig: reexecute},
		})
		if err != nil {
			t.Fatal(err)
		}
		deliver := func(n int) {
			if d := k.Handle(t.Context(), again(order(n)), func(context.Context) error { return nil }); d.Cause != inbox.CauseDone {
				t.Fatalf("message %d: %v", n, d)
			}
		}
		begun := time.Now()
		for n := range 100 {
			deliver(n)
		}
		if took := time.Since(begun); took != time.Second || letters.asked != 1 {
			t.Errorf("100 messages took %v, and the letters were asked %d times", took, letters.asked)
		}
		time.Sleep(time.Minute)
		letters.off = false
		for n := range 10 {
			deliver(100 + n)
		}
		if letters.asked != 11 {
			t.Errorf("the letters answer, and were asked %d times for ten messages", letters.asked-1)
		}
	})
}
