package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// Ten messages are too few for a breaker to open, so nothing keeps their runs from being used up.
func TestAnOutageMakesNoLettersOfASmallQueue(t *testing.T) {
	for _, c := range []struct {
		fact    string
		attempt int
		back    time.Duration
		letters int
	}{
		{"with three attempts", 3, 10 * time.Minute, 0},
		{"with eleven", 11, 10 * time.Minute, 0},
		{"what lasts for longer makes letters", 3, 20 * time.Minute, 10},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := policy.Preset("message-queue")
				p.Retry.Attempts = c.attempt
				letters := newShelf()
				k, err := consumer.New(gabion.New("billing", p, gabion.WithSeed(1)), idempotency.NewMemoryStore(0, 0), consumer.Options{Letters: letters, Inbox: inbox.Options{RunnerConfig: reexecute}})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				var runs atomic.Int64
				s := &source{c: k, refused: map[string]int{}, work: func(context.Context) error {
					runs.Add(1)
					if time.Since(begun) < c.back {
						return errors.New("the bank is away")
					}
					return nil
				}}
				for n := range 10 {
					s.wait = append(s.wait, waiter{begun, order(n)})
				}
				s.run(begun.Add(time.Hour))
				if len(s.done) != 10-c.letters || s.dead != c.letters {
					t.Errorf("%d done, %d letters", len(s.done), s.dead)
				}
				if n := runs.Load(); n > 10*int64(c.attempt+45) {
					t.Errorf("%d runs", n)
				}
				for _, l := range letters.letters {
					if l.Reason != "attempts_exhausted" || l.Attempts != c.attempt {
						t.Errorf("%s after %d runs", l.Reason, l.Attempts)
					}
				}
				if last := 10*time.Minute + 60*time.Second; c.letters == 0 && s.done[9].Sub(begun) > last {
					t.Errorf("the last is done after %v", s.done[9].Sub(begun))
				}
			})
		})
	}
}

// Waiting helps nothing where the message itself is to blame.
func TestPoisonIsGivenUpByItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(4), consumer.Options{GiveUpAfter: time.Hour})
		k.work = func(context.Context) error { panic("a bug") }
		m := order(1)
		k.want(k.deliver(m), inbox.Retry, inbox.CauseFailed)
		k.want(k.deliver(again(m)), inbox.Retry, inbox.CauseFailed)
		k.want(k.deliver(again(again(m))), inbox.DeadLetter, inbox.CauseAttemptsExhausted)
	})
}

func TestTheGuaranteeMustBeSaid(t *testing.T) {
	make := func(o consumer.Options) error {
		_, err := consumer.New(gabion.New("billing", policy.Policy{}), idempotency.NewMemoryStore(0, 0), o)
		return err
	}
	err := make(consumer.Options{})
	if err == nil {
		t.Fatal("a consumer without a guarantee")
	}
	for _, choice := range []string{"Tx", "Reexecute", "Hold"} {
		if !strings.Contains(err.Error(), choice) {
			t.Errorf("%q does not name %s", err, choice)
		}
	}
	quietly := inbox.Options{RunnerConfig: idempotency.RunnerConfig{Observer: quiet{}}}
	for _, o := range []consumer.Options{{Guarantee: consumer.Hold, Inbox: quietly}, {Guarantee: consumer.Reexecute, Inbox: quietly}, {Inbox: inbox.Options{RunnerConfig: reexecute}}} {
		if err := make(o); err != nil {
			t.Error(err)
		}
	}
	for _, o := range []consumer.Options{{Guarantee: 9}, {Guarantee: consumer.Hold, Inbox: inbox.Options{RunnerConfig: reexecute}}} {
		if make(o) == nil {
			t.Errorf("%+v passed", o)
		}
	}
}
