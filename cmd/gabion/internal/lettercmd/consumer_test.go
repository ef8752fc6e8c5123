package lettercmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A bank is work with effects, which are counted by key.
type bank struct {
	mu      sync.Mutex
	down    error
	effects map[string]int
}

func (b *bank) pay(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down != nil {
		return b.down
	}
	b.effects[consumer.MessageFrom(ctx).ID]++
	return nil
}

func (b *bank) is(down error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// billing is a consumer that has given up n messages because the bank was down.
func billing(t *testing.T, n int, g idempotency.Guarantee, down error) (*bank, deadletter.Store) {
	t.Helper()
	letters, err := deadletter.NewMemory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(gabion.New("billing", policy.Policy{Breaker: policy.Breaker{MinCalls: 1 << 20, Consecutive: policy.Off}}), idempotency.NewMemoryStore(0, 0), consumer.Options{
		Letters: letters, Logger: slog.New(slog.DiscardHandler), GiveUpAfter: -1,
		Guarantee: map[idempotency.Guarantee]consumer.Guarantee{idempotency.GuaranteeHold: consumer.Hold}[g],
		Inbox:     inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g, Observer: idempotency.LogTo(slog.New(slog.DiscardHandler))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{effects: map[string]int{}, down: down}
	for i := range n {
		m := consumer.Message{Message: inbox.Message{ID: fmt.Sprint("order-", i), Payload: []byte("10 EUR")}, Source: "orders"}
		if d := c.Handle(t.Context(), m, b.pay); d.Verb != inbox.DeadLetter {
			t.Fatalf("%v because %s (%v)", d.Verb, d.Cause, d.Err)
		}
	}
	go c.Redrive(t.Context(), letters, b.pay, consumer.Redrive{})
	return b, letters
}

var errClosed = errors.New("the bank is closed")

// A consumer that runs takes the letters that the command orders.
func TestLettersAreRunByConsumers(t *testing.T) {
	for _, c := range []struct {
		fact    string
		mended  bool
		code    int
		says    string
		effects int
	}{
		{"once the cause is mended, each has its effect once", true, 0, "finished: 40 of 40 letters done, 0 failed", 40},
		{"while it is not, the redrive stops by itself", false, 1, "of the last 10 letters 0 were done, fewer than half", 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, letters := billing(t, 40, idempotency.GuaranteeReexecute, inbox.Reject(errClosed))
				if c.mended {
					b.is(nil)
				}
				began := time.Now()
				code, out, errs := on(t.Context(), letters, "redrive", "--group", "billing", "--rate", "4/s", "--follow")
				if code != c.code || !strings.Contains(out, c.says) {
					t.Errorf("exit code %d\n%s%s", code, out, errs)
				}
				if took := time.Since(began); c.mended && (took < 9*time.Second || took > 15*time.Second) {
					t.Errorf("40 letters at 4/s took %v", took)
				}
				for key, n := range b.effects {
					if n != 1 {
						t.Errorf("%s had its effect %d times", key, n)
					}
				}
				if len(b.effects) != c.effects {
					t.Errorf("%d effects", len(b.effects))
				}
				if _, out, _ = on(t.Context(), letters, "ls", "--limit", "1000"); strings.Count(out, "the bank is closed") != 40-c.effects {
					t.Error(out)
				}
			})
		})
	}
}

func TestAnUnknownOutcomeRunsOnceItIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, letters := billing(t, 1, idempotency.GuaranteeHold, errClosed)
		b.is(nil)
		id := string(deadletter.LetterID("billing", "order-0", []byte("10 EUR")))
		for _, step := range []struct {
			args string
			code int
			says string
		}{
			{"redrive --group billing", 1, "gabion deadletter resolve " + id},
			{"resolve " + id + " --as nothing --note ledger", 0, "may run"},
			{"redrive " + id[:6] + " --follow", 0, "finished: 1 of 1 letter done"},
			{"ls", 0, "no such letters"},
		} {
			if code, out, errs := on(t.Context(), letters, strings.Fields(step.args)...); code != step.code || !strings.Contains(out+errs, step.says) {
				t.Errorf("%s: exit code %d\n%s%s", step.args, code, out, errs)
			}
		}
		if b.effects["order-0"] != 1 {
			t.Errorf("%v", b.effects)
		}
	})
}
