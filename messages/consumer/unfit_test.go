package consumer_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// A day is how long the inbox of these tests remembers.
const day = 24 * time.Hour

func TestALetterThatIsOlderThanTheInboxRemembers(t *testing.T) {
	for _, c := range []struct {
		fact     string
		waits    time.Duration
		resolved deadletter.Resolution
		state    deadletter.State
		reason   string
		runs     int
	}{
		{"younger, and done by another delivery: it is done", day / 2, deadletter.Unresolved, deadletter.Done, "", 0},
		{"older: it waits for a resolution", 25 * time.Hour, deadletter.Unresolved, deadletter.Waiting, deadletter.Unknown, 0},
		{"older, and resolved as nothing: it runs", 25 * time.Hour, deadletter.ResolvedAsFailed, deadletter.Done, "", 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}, Retention: day}}})
				k.die(1)
				k.work = func(context.Context) error { return nil }
				k.want(k.deliver(order(1)), inbox.Ack, inbox.CauseDone) // its sender sent it again
				time.Sleep(c.waits)
				if c.resolved != deadletter.Unresolved {
					for id, l := range k.letters.letters {
						l.Reason, l.Resolved = deadletter.Unknown, c.resolved
						k.letters.letters[id] = l
					}
				}
				k.runs = 0
				k.redrive(time.Minute)
				k.wantVerdicts(deadletter.Verdict{State: c.state, Reason: c.reason})
				if k.runs != c.runs {
					t.Errorf("it ran %d times, want %d", k.runs, c.runs)
				}
			})
		})
	}
}

func TestALetterWithoutItsPayloadDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.letters.ordered = []deadletter.Lease{{Token: 1, Letter: deadletter.Letter{Group: "billing", Key: "order-1", Reason: deadletter.PayloadMissing}}}
		k.redrive(time.Minute)
		k.wantVerdicts(deadletter.Verdict{State: deadletter.Waiting, Reason: deadletter.PayloadMissing})
		if k.runs != 0 || !strings.Contains(k.letters.verdicts[0].Failure.Message, "drop") {
			t.Errorf("%d runs, %+v", k.runs, k.letters.verdicts[0].Failure)
		}
	})
}

// Each message ends as one letter, however large it is.
func TestLargeMessagesThatAreGivenUp(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		fact            string
		bound           int64
		payload, header int
		reason          string
		kept            int
	}{
		{"longer than the inbox takes: the letter has all of it", 0, 16*mib + 1, 0, "too_large", 16*mib + 1},
		{"as long as the inbox takes, with headers: the letter has all of it", 0, 16 * mib, 1000, "permanent", 16 * mib},
		{"longer than the letters take: the letter says so", 1000, 2000, 10, deadletter.PayloadMissing, 0},
		{"with headers longer than the letters take: the letter says so", 1000, 10, 2000, deadletter.PayloadMissing, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			letters, err := deadletter.NewMemory(deadletter.Options{MaxPayload: c.bound})
			if err != nil {
				t.Fatal(err)
			}
			k, err := consumer.New(gabion.New("billing", unguarded), idempotency.NewMemoryStore(0, 0), consumer.Options{
				Inbox: inbox.Options{RunnerConfig: reexecute}, Letters: letters, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			m := order(1)
			m.Payload = bytes.Repeat([]byte("x"), c.payload)
			m.Headers = message.Headers{{Name: "Trace", Value: strings.Repeat("y", c.header)}}
			d := k.Handle(t.Context(), m, func(context.Context) error { return inbox.Reject(errWork) })
			if d.Verb != inbox.DeadLetter {
				t.Fatalf("%v: %v", d.Verb, d.Err)
			}
			page, err := letters.List(t.Context(), deadletter.Query{}, "", 0)
			if err != nil || len(page.Letters) != 1 {
				t.Fatal(page, err)
			}
			l, err := letters.Get(t.Context(), page.Letters[0].ID)
			if err != nil || l.Reason != c.reason || len(l.Payload) != c.kept {
				t.Errorf("%s with %d bytes, %v", l.Reason, len(l.Payload), err)
			}
			said := fmt.Sprint(l.Failures)
			if missing := fmt.Sprintf("%d bytes", c.payload); c.kept == 0 && (!strings.Contains(said, missing) || len(l.Failures) != 2) {
				t.Errorf("it does not say what is missing: %s", said)
			}
		})
	}
}
