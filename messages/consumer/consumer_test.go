package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
	"github.com/gabion-go/gabion/policy"
)

var errWork = errors.New("the bank is closed")

// A shelf keeps letters, the simple way, and redrives them when ordered.
type shelf struct {
	mu       sync.Mutex // guards all below
	err      error
	failures map[deadletter.ID][]deadletter.Failure
	letters  map[deadletter.ID]deadletter.Letter
	ordered  []deadletter.Lease
	verdicts []deadletter.Verdict
	extended int
}

func newShelf() *shelf {
	return &shelf{failures: map[deadletter.ID][]deadletter.Failure{}, letters: map[deadletter.ID]deadletter.Letter{}}
}

func (s *shelf) with(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		f()
	}
	return s.err
}

func (s *shelf) Fail(_ context.Context, id deadletter.ID, f deadletter.Failure) error {
	return s.with(func() { s.failures[id] = append(s.failures[id], f) })
}

func (s *shelf) Forget(_ context.Context, id deadletter.ID) error {
	return s.with(func() { delete(s.failures, id) })
}

func (s *shelf) Put(_ context.Context, l deadletter.Letter) error {
	return s.with(func() {
		l.Failures = append(s.failures[l.ID], l.Failures...)
		s.letters[l.ID] = l
	})
}

func (s *shelf) Take(_ context.Context, _ string, n int, _ time.Duration) (taken []deadletter.Lease, again time.Duration, err error) {
	err = s.with(func() {
		n = min(n, len(s.ordered))
		taken, s.ordered = s.ordered[:n:n], s.ordered[n:]
	})
	return taken, 0, err
}

func (s *shelf) Extend(context.Context, deadletter.Lease, time.Duration) error {
	return s.with(func() { s.extended++ })
}

func (s *shelf) Settle(_ context.Context, l deadletter.Lease, v deadletter.Verdict) error {
	return s.with(func() {
		s.verdicts = append(s.verdicts, v)
		if v.State == deadletter.Waiting && v.Failure == nil {
			s.ordered = append(s.ordered, l)
		}
	})
}

// only returns the one letter.
func (s *shelf) only(t *testing.T) deadletter.Letter {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.letters) != 1 {
		t.Fatalf("%d letters", len(s.letters))
	}
	for _, l := range s.letters {
		return l
	}
	panic("unreachable")
}

// A desk is a consumer with its store, letters and events.
type desk struct {
	*testing.T
	*consumer.Consumer
	d       *gabion.Dependency
	letters *shelf
	told    []string
	runs    int
	work    func(context.Context) error
}

var reexecute = idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}}

type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

func newDesk(t *testing.T, p policy.Policy, o consumer.Options) *desk {
	t.Helper()
	k := &desk{T: t, letters: newShelf(), work: func(context.Context) error { return nil }}
	var mu sync.Mutex
	k.d = gabion.New("billing", p, gabion.WithSeed(1), gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
		if e.Kind == policy.KindMessageDisposed {
			mu.Lock()
			defer mu.Unlock()
			k.told = append(k.told, e.Code)
		}
	})))
	if o.Inbox.RunnerConfig.Observer == nil {
		o.Inbox.RunnerConfig = reexecute
	}
	if o.Letters = k.letters; o.Inbox.Guarantee == 0 {
		o.Guarantee = consumer.Hold
	}
	if o.GiveUpAfter == 0 { // runs decide
		o.GiveUpAfter = -1
	}
	c, err := consumer.New(k.d, idempotency.NewMemoryStore(0, 0), o)
	if err != nil {
		t.Fatal(err)
	}
	k.Consumer = c
	return k
}

func (k *desk) deliver(m consumer.Message) inbox.Disposition {
	return k.Handle(k.Context(), m, func(ctx context.Context) error {
		k.runs++
		return k.work(ctx)
	})
}

func (k *desk) want(d inbox.Disposition, v inbox.Verb, why inbox.Cause) {
	k.Helper()
	if d.Verb != v || d.Cause != why {
		k.Errorf("%v because %s (%v), want %v because %s", d.Verb, d.Cause, d.Err, v, why)
	}
	if code := v.String() + "/" + string(why); len(k.told) == 0 || k.told[len(k.told)-1] != code {
		k.Errorf("observers were told %v, not %s", k.told, code)
	}
}

func (k *desk) fails(context.Context) error { return classify.Transient(errWork) }

func order(n int) consumer.Message {
	return consumer.Message{Source: "orders", Position: fmt.Sprint(n), Message: inbox.Message{ID: fmt.Sprint("order-", n), Payload: []byte("10 €"), Delivery: 1}}
}

func again(m consumer.Message) consumer.Message { m.Delivery++; return m }

// unguarded is a policy without a breaker.
var unguarded = policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 3, Backoff: backoff.Exp(time.Second, time.Minute), Budget: policy.Budget{Off: true}}}

func TestWorkIsDoneOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		k.want(k.deliver(order(1)), inbox.Ack, inbox.CauseDone)
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDuplicate)
		if k.runs != 1 {
			t.Errorf("the work ran %d times", k.runs)
		}
		if n := len(k.letters.letters) + len(k.letters.failures); n != 0 {
			t.Errorf("%d things were written down", n)
		}
	})
}

func TestAMessageThatFailsIsALetterWithAllItsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.work = k.fails
		m := order(1)
		m.Headers = message.Headers{{Name: "Tenant", Value: "a"}}
		for n, wait := range []time.Duration{time.Second, 2 * time.Second} {
			d := k.deliver(m)
			k.want(d, inbox.Retry, inbox.CauseFailed)
			if d.After != wait || d.Attempt != n+1 {
				t.Errorf("run %d: again after %v, as attempt %d", n+1, d.After, d.Attempt)
			}
			time.Sleep(d.After)
			m = again(m)
		}
		k.want(k.deliver(m), inbox.DeadLetter, inbox.CauseAttemptsExhausted)
		l := k.letters.only(t)
		if l.Group != "billing" || l.Key != "order-1" || l.Source != "orders" || l.Position != "1" || string(l.Payload) != "10 €" || l.Headers.Get("tenant") != "a" || l.Reason != "attempts_exhausted" || l.Attempts != 3 {
			t.Errorf("the letter: %+v", l)
		}
		if len(l.Failures) != 3 || l.Failures[0].Attempt != 1 || l.Failures[2].Attempt != 3 || !strings.Contains(l.Failures[1].Message, "closed") || l.Failures[1].Class != "server" && l.Failures[1].Class != "network" {
			t.Errorf("its failures: %+v", l.Failures)
		}
	})
}

func TestWhatWasWrittenDownIsForgottenOnceTheWorkIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		k.work = k.fails
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseFailed)
		if len(k.letters.failures) != 1 {
			t.Errorf("%d messages have failures", len(k.letters.failures))
		}
		k.work = func(context.Context) error { return nil }
		k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDone)
		if len(k.letters.failures) != 0 {
			t.Errorf("%d messages have failures", len(k.letters.failures))
		}
	})
}

func TestWhatIsNotPutAwayStaysAtTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{deadletter.ErrFull, deadletter.ErrTooLarge, errors.New("disk I/O error")} {
			k := newDesk(t, unguarded, consumer.Options{})
			k.work = func(context.Context) error { return inbox.Reject(errWork) }
			k.letters.err = err
			d := k.deliver(order(1))
			k.want(d, inbox.Retry, inbox.CauseNotPutAway)
			if d.After <= 0 || !errors.Is(d.Err, err) || !errors.Is(d.Err, errWork) {
				t.Errorf("after %v: %v", d.After, d.Err)
			}
			k.letters.err = nil
			k.want(k.deliver(again(order(1))), inbox.DeadLetter, inbox.CausePermanent)
			k.letters.only(t)
		}
	})
}

// With hold, work that may have had its effect is not run again because its letter could not
// be put away.
func TestWhatIsNotPutAwayIsNotRunAgainUnderHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeHold, Observer: quiet{}}}})
		k.work = k.fails
		k.letters.err = deadletter.ErrFull
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseNotPutAway)
		k.want(k.deliver(again(order(1))), inbox.Retry, inbox.CauseNotPutAway)
		k.letters.err = nil
		k.want(k.deliver(again(order(1))), inbox.DeadLetter, inbox.CauseUnknown)
		k.letters.only(t)
		if k.runs != 1 {
			t.Errorf("%d runs", k.runs)
		}
	})
}

func TestSlotsAreThoseOfTheBulkhead(t *testing.T) {
	for _, c := range []struct {
		fact string
		policy.Bulkhead
		want int
	}{
		{"its default", policy.Bulkhead{}, 100},
		{"its limit", policy.Bulkhead{Limit: 7}, 7},
		{"the limit that it has learned", policy.Bulkhead{Limit: policy.Learned, Max: 3}, 3},
		{"the adapter's own without one", policy.Bulkhead{Off: true}, 10},
	} {
		t.Run(c.fact, func(t *testing.T) {
			k := newDesk(t, policy.Policy{Bulkhead: c.Bulkhead}, consumer.Options{})
			if n := k.Slots(10); n != c.want {
				t.Errorf("%d slots, want %d", n, c.want)
			}
			if n, _ := k.Room(1); !c.Off && n != c.want-1 {
				t.Errorf("room for %d beside one, want %d", n, c.want-1)
			}
		})
	}
}

func TestABreakerThatRefusesPausesTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{Retry: policy.Retry{Attempts: 11}}, consumer.Options{})
		k.work = k.fails
		if n, _ := k.Room(0); n != 100 {
			t.Errorf("room for %d, with 100 slots", n)
		}
		if n, again := k.Room(100); n != 0 || again <= 0 {
			t.Errorf("room for %d when all slots are taken, again after %v", n, again)
		}
		for i := range 200 {
			k.deliver(order(i))
		}
		n, wait := k.Room(0)
		if n != 0 || wait <= 0 {
			t.Fatalf("room for %d, again after %v", n, wait)
		}
		runs := k.runs
		d := k.deliver(order(1000))
		k.want(d, inbox.Retry, inbox.CauseRefused)
		if k.runs != runs || d.Attempt != 0 || d.After < wait || gabion.ReasonOf(d.Err) != policy.BreakerOpen {
			t.Errorf("%d runs, attempt %d, after %v: %v", k.runs-runs, d.Attempt, d.After, d.Err)
		}
		begun := time.Now()
		if err := k.Await(t.Context(), 0); err != nil || time.Since(begun) < wait {
			t.Errorf("awaited %v: %v", time.Since(begun), err)
		}
		if n, _ := k.Room(0); n != 1 {
			t.Errorf("room for %d probes", n)
		}
		k.work = func(context.Context) error { return nil }
		for i := range 5 {
			k.want(k.deliver(order(2000+i)), inbox.Ack, inbox.CauseDone)
		}
		if n, _ := k.Room(0); n != 100 {
			t.Errorf("room for %d after the outage", n)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		b, _ := k.d.Breaker("")
		b.ForceOpen(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := k.Await(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() {
			time.Sleep(10 * time.Second)
			b.Reset()
		}()
		begun := time.Now()
		if err := k.Await(t.Context(), 0); err != nil || time.Since(begun) > 12*time.Second {
			t.Errorf("a breaker that was reset is seen after %v: %v", time.Since(begun), err)
		}
	})
}

// The bank's own breaker refuses: the message can do nothing for it, and is not used up.
func TestARefusalBelowIsNoRun(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeReexecute, idempotency.GuaranteeHold} {
		synctest.Test(t, func(t *testing.T) {
			bank := gabion.New("bank", policy.Policy{})
			b, _ := bank.Breaker("")
			b.ForceOpen(0)
			k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: g, Observer: quiet{}}}})
			k.work = func(ctx context.Context) error {
				err := bank.Run(ctx, func(context.Context) error { return nil })
				if gabion.EffectOf(err) == policy.NoEffect { // it has done nothing before
					idempotency.NoEffect(ctx)
				}
				return err
			}
			for range 50 {
				d := k.deliver(again(order(1)))
				k.want(d, inbox.Retry, inbox.CauseRefused)
				if d.After < time.Second {
					t.Errorf("again after %v", d.After)
				}
			}
			b.Reset()
			k.want(k.deliver(again(order(1))), inbox.Ack, inbox.CauseDone)
		})
	}
}

func TestRefusalsBelowPauseTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := gabion.New("bank", policy.Policy{})
		b, _ := bank.Breaker("")
		b.ForceOpen(0)
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		k.work = func(ctx context.Context) error { return bank.Run(ctx, k.fails) }
		for i := range 200 {
			k.deliver(order(i))
		}
		if n, _ := k.Room(0); n != 0 {
			t.Errorf("room for %d", n)
		}
	})
}

func TestAStoreThatIsDownPausesTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("billing", policy.Policy{})
		c, err := consumer.New(d, broken{idempotency.NewMemoryStore(0, 0)}, consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			c.Handle(t.Context(), order(i), func(context.Context) error { t.Error("the work ran"); return nil })
		}
		defer time.Sleep(time.Hour) // claims whose answer was lost are given back by then
		if n, _ := c.Room(0); n != 0 {
			t.Errorf("room for %d", n)
		}
	})
}

type broken struct{ idempotency.Store }

func (broken) Begin(context.Context, idempotency.Claim) (idempotency.Answer, error) {
	return idempotency.Answer{}, errors.New("connection refused")
}

func TestWorkEndsAtTheAttemptsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Timeout.Attempt = 2 * time.Second
		k := newDesk(t, p, consumer.Options{})
		var cause error
		k.work = func(ctx context.Context) error {
			at, ok := ctx.Deadline()
			if !ok || time.Until(at) != 2*time.Second {
				t.Errorf("the deadline is in %v", time.Until(at))
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}
		begun := time.Now()
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseFailed)
		if took := time.Since(begun); took != 2*time.Second || !errors.Is(cause, policy.AttemptTimeout) {
			t.Errorf("ended after %v by %v", took, cause)
		}
	})
}

func TestAMessageIsKeptWhileItWaitsAndWhileItIsWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Bulkhead.Limit = 1
		p.Bulkhead.QueueTimeout = time.Minute
		p.Timeout = policy.Timeout{Call: 2 * time.Minute, Attempt: time.Minute}
		k := newDesk(t, p, consumer.Options{Inbox: inbox.Options{RunnerConfig: reexecute, Visibility: 3 * time.Second}})
		var busy sync.WaitGroup
		busy.Go(func() {
			k.Handle(t.Context(), order(1), func(context.Context) error { time.Sleep(20 * time.Second); return nil })
		})
		time.Sleep(time.Second)
		extended := 0
		m := order(2)
		m.Extend = func(context.Context) error { extended++; return nil }
		d := k.Handle(t.Context(), m, func(context.Context) error { time.Sleep(10 * time.Second); return nil })
		if d.Verb != inbox.Ack || extended < 25 {
			t.Errorf("%+v, extended %d times in 29 s", d, extended)
		}
		busy.Wait()
	})
}

func TestWorkOfAMessageThatIsNotKeptEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Timeout = policy.Timeout{Call: 10 * time.Minute, Attempt: 5 * time.Minute}
		k := newDesk(t, p, consumer.Options{Inbox: inbox.Options{RunnerConfig: reexecute, Visibility: 3 * time.Second}})
		m := order(2)
		m.Extend = func(context.Context) error { return errors.New("the broker is gone") }
		var cause error
		k.work = func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}
		begun := time.Now()
		d := k.deliver(m)
		if took := time.Since(begun); d.Verb != inbox.Retry || took > 4*time.Second || !errors.Is(cause, inbox.ErrNotKept) {
			t.Errorf("%+v after %v: %v", d, took, cause)
		}
	})
}

func TestMessagesGoOnWithTheirDeadlineAndAKeyOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		end := time.Now().Add(time.Hour)
		m := order(1)
		m.Headers = m.Headers.WithDeadline(end)
		var sent []message.Headers
		k.work = func(ctx context.Context) error {
			if consumer.MessageFrom(ctx).ID != "order-1" {
				t.Error("From does not know the message")
			}
			sent = append(sent, consumer.Onward(ctx, "receipt"), consumer.Onward(ctx, "invoice"))
			return classify.Transient(errWork)
		}
		k.deliver(m)
		k.deliver(again(m))
		receipt, invoice, second := sent[0].Get(message.Key), sent[1].Get(message.Key), sent[2].Get(message.Key)
		if receipt == "" || receipt == invoice || receipt != second {
			t.Errorf("keys %q, %q, and %q in the second run", receipt, invoice, second)
		}
		if at, err := sent[0].Deadline(); err != nil || !at.Equal(end.Truncate(time.Millisecond)) {
			t.Errorf("deadline %v, %v", at, err)
		}
	})
}

func TestAReloadedPolicyDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deps, err := gabion.NewRegistry(map[string]policy.Policy{"billing": unguarded})
		if err != nil {
			t.Fatal(err)
		}
		d, err := deps.Get("billing")
		if err != nil {
			t.Fatal(err)
		}
		c, err := consumer.New(d, idempotency.NewMemoryStore(0, 0), consumer.Options{GiveUpAfter: -1, Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		fails := func(context.Context) error { return classify.Transient(errWork) }
		if got := c.Handle(t.Context(), order(1), fails); got.Verb != inbox.Retry {
			t.Fatalf("%+v", got)
		}
		p := unguarded
		p.Retry.Attempts = 2
		if err := deps.Reload(map[string]policy.Policy{"billing": p}); err != nil {
			t.Fatal(err)
		}
		if got := c.Handle(t.Context(), again(order(1)), fails); got.Verb != inbox.DeadLetter {
			t.Errorf("%+v", got)
		}
	})
}

func TestWorkThatPanicsOrLeavesGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Bulkhead.Limit = 1
		k := newDesk(t, p, consumer.Options{})
		k.work = func(context.Context) error { panic("a bug") }
		d := k.deliver(order(1))
		k.want(d, inbox.Retry, inbox.CauseFailed)
		var e *inbox.PanicError
		if !errors.As(d.Err, &e) {
			t.Error(d.Err)
		}
		k.work = func(context.Context) error { runtime.Goexit(); return nil }
		k.want(k.deliver(order(3)), inbox.Retry, inbox.CauseFailed)
		k.work = func(context.Context) error { return nil }
		k.want(k.deliver(order(2)), inbox.Ack, inbox.CauseDone)
	})
}

// The budget holds repeats back that fail, and no first deliveries.
func TestTheBudgetPaysForDeliveriesThatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Retry.Budget = policy.Budget{}
		k := newDesk(t, p, consumer.Options{})
		k.work = k.fails
		refused := 0
		for i := range 50 {
			if d := k.deliver(order(i)); d.Cause == inbox.CauseRefused {
				t.Fatalf("a first delivery: %+v", d)
			}
			if d := k.deliver(again(order(i))); d.Cause == inbox.CauseRefused {
				if refused++; gabion.ReasonOf(d.Err) != policy.BudgetExhausted || d.After < time.Second {
					t.Fatalf("%+v", d)
				}
			}
		}
		if refused < 40 {
			t.Errorf("%d of 50 repeats were held back", refused)
		}
	})
}

func TestMistakesAreTold(t *testing.T) {
	d, store := gabion.New("billing", policy.Policy{}), idempotency.NewMemoryStore(0, 0)
	for _, c := range []struct {
		name  string
		d     *gabion.Dependency
		store idempotency.Store
		o     consumer.Options
		want  string
	}{
		{"no dependency", nil, store, consumer.Options{}, "dependency is nil"},
		{"no store", d, nil, consumer.Options{}, "store"},
		{"a negative timeout", d, store, consumer.Options{LetterTimeout: -1}, "letter timeout"},
		{"a wrong inbox", d, store, consumer.Options{Inbox: inbox.Options{Visibility: -1}}, "visibility"},
	} {
		if _, err := consumer.New(c.d, c.store, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAMessageIsExtendedByItsOwnVisibility(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{Inbox: inbox.Options{Visibility: time.Hour}})
		extended := 0
		m := order(1)
		m.Visibility = 3 * time.Second
		m.Extend = func(context.Context) error { extended++; return nil }
		k.work = func(context.Context) error { time.Sleep(4500 * time.Millisecond); return nil }
		k.want(k.deliver(m), inbox.Ack, inbox.CauseDone)
		if extended != 4 {
			t.Errorf("extended %d times in 4.5 s of a visibility of 3 s", extended)
		}
		if !k.KeepsLetters() {
			t.Error("it has letters and says that it does not keep them")
		}
	})
}
