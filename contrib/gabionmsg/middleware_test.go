package gabionmsg_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/delay"
	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

var errBank = errors.New("the bank is closed")

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// patient is a policy of three runs, one and two seconds apart, without a breaker.
func patient() policy.Policy {
	return policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 3, Backoff: backoff.Exp(time.Second, time.Minute), Budget: policy.Budget{Off: true}}}
}

// drawer keeps letters by their ID.
type drawer struct {
	mu      sync.Mutex // guards all below
	err     error
	letters map[deadletter.ID]deadletter.Letter
}

func (w *drawer) Fail(context.Context, deadletter.ID, deadletter.Failure) error { return nil }
func (w *drawer) Forget(context.Context, deadletter.ID) error                   { return nil }
func (w *drawer) Put(_ context.Context, l deadletter.Letter) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.letters == nil {
		w.letters = map[deadletter.ID]deadletter.Letter{}
	}
	w.letters[l.ID] = l
	return nil
}

func (w *drawer) reasons() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.letters {
		all = append(all, l.Reason)
	}
	return all
}

// outlet is a publisher that keeps what is published.
type outlet struct {
	mu   sync.Mutex // guards all below
	err  error
	sent map[string][]*wm.Message
}

func (o *outlet) Publish(topic string, msgs ...*wm.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	if o.sent == nil {
		o.sent = map[string][]*wm.Message{}
	}
	o.sent[topic] = append(o.sent[topic], msgs...)
	return nil
}

func (o *outlet) Close() error { return nil }

func newConsumer(t testing.TB, p policy.Policy, o consumer.Options) *consumer.Consumer {
	t.Helper()
	if o.Inbox.RunnerConfig.Observer == nil {
		o.Inbox.RunnerConfig = idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}
	}
	if o.GiveUpAfter == 0 {
		o.GiveUpAfter = -1
	}
	c, err := consumer.New(gabion.New("billing", p, gabion.WithSeed(1)), idempotency.NewMemoryStore(0, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A desk is a handler with its middleware.
type desk struct {
	*testing.T
	letters *drawer
	runs    int
	handler wm.HandlerFunc
	take    wm.HandlerFunc
}

func newDesk(t *testing.T, p policy.Policy, o gabionmsg.Options) *desk {
	t.Helper()
	k := &desk{T: t, letters: &drawer{}, handler: func(*wm.Message) ([]*wm.Message, error) { return nil, nil }}
	var co consumer.Options
	if o.Poison == nil {
		co.Letters = k.letters
	}
	mw, err := gabionmsg.Middleware(newConsumer(t, p, co), o)
	if err != nil {
		t.Fatal(err)
	}
	k.take = mw(func(msg *wm.Message) ([]*wm.Message, error) {
		k.runs++
		return k.handler(msg)
	})
	return k
}

// deliver returns how long the delivery took.
func (k *desk) deliver(msg *wm.Message) (time.Duration, error) {
	k.Helper()
	begun := time.Now()
	out, err := k.take(msg)
	if len(out) > 0 {
		k.Errorf("the router was given %d messages to publish", len(out))
	}
	return time.Since(begun), err
}

func (k *desk) fails() {
	k.handler = func(*wm.Message) ([]*wm.Message, error) { return nil, errBank }
}

func order(id string) *wm.Message {
	m := wm.NewMessage("uuid of "+id, []byte("10 €"))
	m.Metadata.Set(message.Key, id)
	return m
}

func TestAMessageIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, gabionmsg.Options{})
		other := order("1")
		other.UUID = "another delivery's"
		for _, m := range []*wm.Message{order("1"), order("1"), other} {
			if _, err := k.deliver(m); err != nil {
				t.Error(err)
			}
		}
		if k.runs != 1 {
			t.Errorf("the work ran %d times", k.runs)
		}
	})
}

func TestTheUUIDNamesAMessageWithoutAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, gabionmsg.Options{})
		for _, id := range []string{"a", "a", "b"} {
			_, _ = k.deliver(wm.NewMessage(id, nil))
		}
		if k.runs != 2 {
			t.Errorf("%d runs of two messages", k.runs)
		}
	})
}

func TestAFailureIsHeldAsLongAsThePolicySays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{})
		k.fails()
		for n, want := range []time.Duration{time.Second, 2 * time.Second, 0} {
			took, err := k.deliver(order("1").Copy())
			if took != want || (err == nil) != (n == 2) {
				t.Errorf("run %d took %v: %v", n+1, took, err)
			}
			if n < 2 && (!errors.Is(err, gabionmsg.ErrAgain) || !errors.Is(err, errBank)) {
				t.Error(err)
			}
		}
		if got := k.letters.reasons(); len(got) != 1 || got[0] != "attempts_exhausted" {
			t.Errorf("letters: %v", got)
		}
	})
}

// A wait that is longer than a message can be held goes on when it comes again.
func TestTheRestOfAWaitIsHeldWhenTheMessageComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patient()
		p.Retry.Backoff = backoff.Exp(25*time.Second, time.Minute)
		k := newDesk(t, p, gabionmsg.Options{})
		k.fails()
		for n, c := range []struct {
			took time.Duration
			runs int
		}{{10, 1}, {10, 1}, {5 + 10, 2}} { // the last holds what is left, runs, and holds again
			took, err := k.deliver(order("1"))
			if err == nil || took != c.took*time.Second || k.runs != c.runs {
				t.Errorf("delivery %d took %v, and there were %d runs: %v", n+1, took, k.runs, err)
			}
		}
	})
}

func TestWhatThePubSubWaitsByItselfIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{NackDelay: 1500 * time.Millisecond})
		k.fails()
		for n, want := range []time.Duration{0, 500 * time.Millisecond} {
			if took, _ := k.deliver(order("1")); took != want {
				t.Errorf("run %d was held for %v, not %v", n+1, took, want)
			}
			time.Sleep(1500 * time.Millisecond)
		}
	})
}

func TestHoldingEndsWithTheMessagesContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{})
		k.fails()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		m := order("1")
		m.SetContext(ctx)
		if took, err := k.deliver(m); took != 300*time.Millisecond || err == nil {
			t.Errorf("held for %v: %v", took, err)
		}
		if took, err := k.deliver(m); took != 0 || !errors.Is(err, context.DeadlineExceeded) || k.runs != 1 {
			t.Errorf("after its end: %v, %v, %d runs", took, err, k.runs)
		}
	})
}

func TestACopyIsSentForLaterAndTheMessageAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &outlet{}
		k := newDesk(t, patient(), gabionmsg.Options{Later: gabionmsg.Republish(out, "orders.waiting")})
		k.fails()
		m := order("1")
		m.Metadata.Set("gabion-attempt", "0")
		if took, err := k.deliver(m); took != 0 || err != nil {
			t.Fatalf("%v, %v", took, err)
		}
		c := out.sent["orders.waiting"][0]
		if c.Metadata.Get(message.Key) != "1" || c.UUID != m.UUID || c.Metadata.Get(message.Attempt) != "1" || string(c.Payload) != "10 €" || len(c.Metadata) != 5 {
			t.Errorf("the copy: %v", c.Metadata)
		}
		if took, _ := k.deliver(c); took != time.Second || k.runs != 2 {
			t.Errorf("the copy's work ran after %v, %d times in all", took, k.runs)
		}
		if len(out.sent["orders.waiting"]) != 2 {
			t.Error("the copy was not sent again")
		}
	})
}

func TestWhatCannotBeSentForLaterIsHeld(t *testing.T) {
	for name, o := range map[string]gabionmsg.Options{
		"the publisher fails": {Later: gabionmsg.Republish(&outlet{err: errBank}, "x")},
		"an ordered message":  {Later: gabionmsg.Republish(&outlet{}, "x"), Amend: func(_ *wm.Message, m *consumer.Message) { m.Order = "customer 7" }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t, patient(), o)
				k.fails()
				if took, err := k.deliver(order("1")); took != time.Second || !errors.Is(err, gabionmsg.ErrAgain) {
					t.Errorf("held for %v: %v", took, err)
				}
			})
		})
	}
}

// While the breaker refuses, messages stay where they are.
func TestWhatThePolicyRefusesIsHeldAndNotSentAround(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &outlet{}
		c := newConsumer(t, policy.Policy{}, consumer.Options{Letters: &drawer{}})
		mw, err := gabionmsg.Middleware(c, gabionmsg.Options{Later: gabionmsg.Republish(out, "orders.waiting")})
		if err != nil {
			t.Fatal(err)
		}
		b, found := c.Dependency().Breaker("")
		if !found {
			t.Fatal("there is no breaker")
		}
		b.ForceOpen(time.Minute)
		begun := time.Now()
		_, err = mw(func(*wm.Message) ([]*wm.Message, error) { t.Error("the work ran"); return nil, nil })(order("1"))
		if took := time.Since(begun); !errors.Is(err, gabionmsg.ErrAgain) || took < time.Second || len(out.sent) > 0 {
			t.Errorf("%v after %v, and sent were %v", err, took, out.sent)
		}
	})
}

// Deliveries after a failure are retries, which the budget pays for.
func TestAMessageThatComesAgainIsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{})
		var retries []bool
		k.handler = func(msg *wm.Message) ([]*wm.Message, error) {
			retries = append(retries, consumer.MessageFrom(msg.Context()).Again)
			return nil, errBank
		}
		for range 2 {
			_, _ = k.deliver(order("1"))
		}
		if len(retries) != 2 || retries[0] || !retries[1] {
			t.Errorf("deliveries that came before: %v", retries)
		}
	})
}

func TestWhatTheHandlerProducesIsOutBeforeItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &outlet{err: errBank}
		k := newDesk(t, patient(), gabionmsg.Options{Publisher: out, PublishTopic: "receipts"})
		k.handler = func(msg *wm.Message) ([]*wm.Message, error) {
			return []*wm.Message{wm.NewMessage(watermill.NewUUID(), nil), {UUID: "own", Metadata: wm.Metadata{message.Key: "own"}}}, nil
		}
		m := order("1")
		m.Metadata.Set(message.Deadline, strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
		if _, err := k.deliver(m); !errors.Is(err, errBank) {
			t.Fatalf("publishing failed, and the message's end was %v", err)
		}
		out.err = nil
		for range 3 { // and two duplicates
			if _, err := k.deliver(m); err != nil {
				t.Fatal(err)
			}
		}
		sent := out.sent["receipts"]
		if len(sent) != 2 || k.runs != 2 {
			t.Fatalf("%d messages are out, %d runs", len(sent), k.runs)
		}
		if key := sent[0].Metadata.Get(message.Key); len(key) != 64 || sent[0].Metadata.Get(message.Deadline) == "" || sent[1].Metadata.Get(message.Key) != "own" {
			t.Errorf("the headers: %v, %v", sent[0].Metadata, sent[1].Metadata)
		}
	})
}

// Handlers like to pass on the metadata of their message, or the message itself. What these say of
// the message that came is not said of those that go.
func TestWhatIsProducedWithTheMetadataOfItsMessageHasANameOfItsOwn(t *testing.T) {
	for _, named := range []bool{true, false} {
		t.Run(fmt.Sprint("with a key ", named), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &outlet{err: errBank}
				k := newDesk(t, patient(), gabionmsg.Options{Publisher: out, PublishTopic: "parts"})
				k.handler = func(msg *wm.Message) ([]*wm.Message, error) {
					one, two := wm.NewMessage(watermill.NewUUID(), []byte("one")), wm.NewMessage(watermill.NewUUID(), []byte("two"))
					one.Metadata, two.Metadata = msg.Metadata, msg.Metadata
					return []*wm.Message{one, two, msg}, nil
				}
				m := wm.NewMessage("uuid", []byte("10 €"))
				m.Metadata = wm.Metadata{"Trace": "t", message.Attempt: "2", gabionmsg.DueMetadata: "5", delay.DelayedForKey: "1h"}
				if named {
					m.Metadata.Set("idempotency-key", "order-1")
				}
				before := maps.Clone(m.Metadata)
				if _, err := k.deliver(m); !errors.Is(err, errBank) {
					t.Fatalf("publishing failed, and the message's end was %v", err)
				}
				if !maps.Equal(m.Metadata, before) {
					t.Errorf("the message that came has the metadata %v by now", m.Metadata)
				}
				out.err = nil
				if _, err := k.deliver(m); err != nil {
					t.Fatal(err)
				}
				keys := map[string]bool{}
				for _, msg := range out.sent["parts"] {
					key := msg.Metadata.Get(message.Key)
					if keys[key] = true; len(key) != 64 || len(msg.Metadata) != 2 || msg.Metadata["Trace"] != "t" {
						t.Errorf("published with %v", msg.Metadata)
					}
				}
				if len(keys) != 3 {
					t.Errorf("%d keys of 3 messages", len(keys))
				}
			})
		})
	}
}

// One middleware is one group: what a handler has done is done for the others. Groups share nothing,
// also where they share the store.
func TestHandlersOfOneGroupShareTheWorkAndThoseOfTwoDoNot(t *testing.T) {
	store := idempotency.NewMemoryStore(0, 0)
	of := func(group string) wm.HandlerMiddleware {
		c, err := consumer.New(gabion.New("billing", patient()), store, consumer.Options{
			Group: group, Letters: &drawer{}, Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return mw
	}
	runs := map[string]int{}
	handler := func(name string) wm.HandlerFunc {
		return func(*wm.Message) ([]*wm.Message, error) { runs[name]++; return nil, nil }
	}
	billing, mail := of("billing"), of("mail")
	for _, take := range []wm.HandlerFunc{billing(handler("bill")), billing(handler("bill again")), mail(handler("mail"))} {
		if _, err := take(order("1")); err != nil {
			t.Fatal(err)
		}
	}
	if runs["bill"] != 1 || runs["bill again"] != 0 || runs["mail"] != 1 {
		t.Errorf("%v", runs)
	}
}

func TestProducedMessagesWithoutAPublisherAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{})
		k.handler = func(*wm.Message) ([]*wm.Message, error) { return []*wm.Message{{}}, nil }
		if _, err := k.deliver(order("1")); err != nil || len(k.letters.reasons()) != 1 {
			t.Errorf("%v, letters: %v", err, k.letters.reasons())
		}
	})
}

func TestADeadLetterIsPublishedWithItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &outlet{err: errBank}
		k := newDesk(t, patient(), gabionmsg.Options{Poison: out, PoisonTopic: "orders.dead"})
		k.handler = func(*wm.Message) ([]*wm.Message, error) { return nil, inbox.Reject(errBank) }
		if took, err := k.deliver(order("1")); !errors.Is(err, gabionmsg.ErrAgain) || took < time.Second {
			t.Fatalf("it could not be published, and its end was %v after %v", err, took)
		}
		out.err = nil
		if _, err := k.deliver(order("1")); err != nil {
			t.Fatal(err)
		}
		sent := out.sent["orders.dead"]
		if len(sent) != 1 {
			t.Fatalf("%d dead letters", len(sent))
		}
		m := sent[0].Metadata
		if m.Get(gabionmsg.ReasonMetadata) != "permanent" || m.Get(message.Key) != "1" || m.Get(message.Attempt) == "" || m.Get(middleware.ReasonForPoisonedKey) != errBank.Error() {
			t.Errorf("the dead letter: %v", m)
		}
	})
}

// Ack by the handler comes too early, and Nack is a failure.
func TestAckAndNackOfTheHandlerTellTheBrokerNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{})
		m := order("1")
		k.handler = func(own *wm.Message) ([]*wm.Message, error) { own.Ack(); return nil, errBank }
		if _, err := k.deliver(m); err == nil || !m.Nack() {
			t.Error("a message was acknowledged whose work failed")
		}
		k.handler = func(own *wm.Message) ([]*wm.Message, error) { own.Nack(); return nil, nil }
		if _, err := k.deliver(order("2")); !errors.Is(err, gabionmsg.ErrNacked) {
			t.Errorf("the end of a message with Nack: %v", err)
		}
	})
}

func TestAHandlerThatPanicsOrExitsIsNoHotLoop(t *testing.T) {
	for name, f := range map[string]func(){"panics": func() { panic("boom") }, "exits": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t, patient(), gabionmsg.Options{})
				k.handler = func(*wm.Message) ([]*wm.Message, error) { f(); return nil, nil }
				m := order("1")
				begun := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					if _, err := k.deliver(m); err != nil {
						m.Nack()
					}
				}()
				<-done
				if took := time.Since(begun); took < time.Second {
					t.Errorf("it comes again after %v", took)
				}
				select {
				case <-m.Nacked():
				default:
					t.Error("the message has no answer")
				}
			})
		})
	}
}

// Messages without any name that say the same are as many dead letters.
func TestBadMessagesAreDeadLetters(t *testing.T) {
	with := func(name, value string) *wm.Message { m := order("1"); m.Metadata.Set(name, value); return m }
	for name, c := range map[string]struct {
		m    []*wm.Message
		want []string
	}{
		"no name":                   {[]*wm.Message{wm.NewMessage("", nil), wm.NewMessage("", nil)}, []string{"no_id", "no_id"}},
		"no metadata":               {[]*wm.Message{{UUID: "1"}}, nil},
		"bytes":                     {[]*wm.Message{{UUID: "\xff\x00", Payload: []byte{0, 255}}}, nil},
		"the id of another":         {[]*wm.Message{order("1"), {UUID: "1", Payload: []byte("20 €")}}, []string{"mismatch"}},
		"a deadline in the past":    {[]*wm.Message{with(message.Deadline, "1")}, []string{"expired"}},
		"a deadline in words":       {[]*wm.Message{with(message.Deadline, "soon")}, []string{"header_unreadable"}},
		"a version of tomorrow":     {[]*wm.Message{with(message.Version, "2")}, []string{"unknown_version"}},
		"too long":                  {[]*wm.Message{{UUID: "1", Payload: make([]byte, 16<<20+1)}}, []string{"too_large"}},
		"due in the year 9999":      {[]*wm.Message{with(gabionmsg.DueMetadata, "253402300799000")}, nil},
		"due at no time":            {[]*wm.Message{with(gabionmsg.DueMetadata, "later")}, nil},
		"due before there was time": {[]*wm.Message{with(gabionmsg.DueMetadata, "-9223372036854775808")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t, patient(), gabionmsg.Options{})
				for _, m := range c.m {
					if took, err := k.deliver(m); err != nil || took != 0 {
						t.Errorf("%v after %v", err, took)
					}
				}
				got := k.letters.reasons()
				if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
					t.Errorf("dead letters: %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestALetterThatIsNotTakenComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{})
		k.letters.err = errors.New("the disk is full")
		k.handler = func(*wm.Message) ([]*wm.Message, error) { return nil, inbox.Reject(errBank) }
		if took, err := k.deliver(order("1")); !errors.Is(err, gabionmsg.ErrAgain) || took == 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestAnAmendmentThatPanicsIsNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{Amend: func(*wm.Message, *consumer.Message) { panic("boom") }})
		m, begun := order("1"), time.Now()
		func() {
			defer func() { _ = recover() }()
			_, _ = k.deliver(m)
		}()
		if m.Ack() || time.Since(begun) < time.Second || k.runs != 0 {
			t.Errorf("it comes again after %v, and ran %d times", time.Since(begun), k.runs)
		}
	})
}

func TestAnAmendmentNamesTheMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(), gabionmsg.Options{Amend: func(msg *wm.Message, m *consumer.Message) { m.ID = string(msg.Payload) }})
		for _, uuid := range []string{"a", "b"} {
			_, _ = k.deliver(wm.NewMessage(uuid, []byte("order 7")))
		}
		if k.runs != 1 {
			t.Errorf("%d runs", k.runs)
		}
	})
}

func TestOptionsThatAreWrong(t *testing.T) {
	kept := newConsumer(t, policy.Policy{}, consumer.Options{Letters: &drawer{}})
	for name, o := range map[string]struct {
		c *consumer.Consumer
		o gabionmsg.Options
	}{
		"no consumer":              {nil, gabionmsg.Options{}},
		"no place for the dead":    {newConsumer(t, policy.Policy{}, consumer.Options{}), gabionmsg.Options{}},
		"two places for the dead":  {kept, gabionmsg.Options{Poison: &outlet{}, PoisonTopic: "x"}},
		"a poison without a topic": {newConsumer(t, policy.Policy{}, consumer.Options{}), gabionmsg.Options{Poison: &outlet{}}},
		"a topic without a poison": {kept, gabionmsg.Options{PoisonTopic: "x"}},
		"a negative hold":          {kept, gabionmsg.Options{MaxHold: -1}},
		"a negative delay":         {kept, gabionmsg.Options{NackDelay: -1}},
	} {
		if mw, err := gabionmsg.Middleware(o.c, o.o); err == nil || mw != nil {
			t.Errorf("%s passed", name)
		}
	}
}
