package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
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

// hang is work that never returns by itself: it ends with the test, so that nothing is left
// of it.
func hang(t *testing.T) func(context.Context) error {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(context.Context) error { <-over; return nil }
}

// patient is a policy of few slots and few attempts, in which nothing else holds messages up.
func patient(slots int) policy.Policy {
	p := unguarded
	p.Bulkhead = policy.Bulkhead{Limit: slots}
	p.Timeout = policy.Timeout{Call: 10 * time.Second, Attempt: 3 * time.Second}
	p.Retry.Attempts = 3
	return p
}

// A queue gives messages to one consumer as a broker does: again after the given wait.
type queue struct {
	*desk
	slots int
	mu    sync.Mutex // guards all below
	ends  map[string]inbox.Disposition
	took  map[string]time.Duration // until the end
}

func newQueue(k *desk, slots int) *queue {
	return &queue{desk: k, slots: slots, ends: map[string]inbox.Disposition{}, took: map[string]time.Duration{}}
}

// run delivers the messages until each has its end, at most as many at once as there is room for.
func (q *queue) run(messages []consumer.Message, work func(context.Context) error) {
	begun := time.Now()
	var all sync.WaitGroup
	working := 0
	for _, m := range messages {
		all.Go(func() {
			for {
				q.mu.Lock()
				free := working < q.Slots(q.slots)
				if free {
					working++
				}
				q.mu.Unlock()
				if !free {
					time.Sleep(time.Millisecond)
					if time.Since(begun) > time.Hour {
						return
					}
					continue
				}
				d := q.Handle(context.Background(), m, work)
				q.mu.Lock()
				working--
				if d.Verb != inbox.Retry {
					q.ends[m.ID], q.took[m.ID] = d, time.Since(begun)
				}
				q.mu.Unlock()
				if d.Verb != inbox.Retry {
					return
				}
				m = again(m)
				time.Sleep(d.After)
			}
		})
	}
	all.Wait()
}

// The promise: every message is acknowledged or a letter within attempts × (timeout + grace)
// and the waits between, whatever its work does, and the others go on beside it.
func TestEveryMessageHasItsEndWhateverItsWorkDoes(t *testing.T) {
	const bad, good, slots = 4, 200, 4
	const alone = good / slots * 20 * time.Millisecond // for the good ones, without the others
	for name, does := range map[string]func(t *testing.T) func(context.Context) error{
		"hangs":  hang,
		"panics": func(*testing.T) func(context.Context) error { return func(context.Context) error { panic("a bug") } },
		"ends its goroutine": func(*testing.T) func(context.Context) error {
			return func(context.Context) error { runtime.Goexit(); return nil }
		},
		"has too large a payload": nil,
		"ends late": func(*testing.T) func(context.Context) error {
			return func(context.Context) error { time.Sleep(20 * time.Second); return nil }
		},
	} {
		for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute} {
			t.Run(fmt.Sprintf("%s, %v", name, g), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := patient(slots)
					k := newDesk(t, p, consumer.Options{Inbox: inbox.Options{MaxPayload: 1000, RunnerConfig: idempotency.RunnerConfig{Guarantee: g, Observer: quiet{}}}})
					q := newQueue(k, slots)
					var misbehaves func(context.Context) error
					if does != nil {
						misbehaves = does(t)
					}
					var messages []consumer.Message
					for n := range bad + good {
						m := order(n)
						if n < bad && does == nil {
							m.Payload = make([]byte, 1001)
						}
						messages = append(messages, m)
					}
					work := func(ctx context.Context) error {
						if n, _ := strconv.Atoi(consumer.MessageFrom(ctx).ID[len("order-"):]); n < bad {
							return misbehaves(ctx)
						}
						time.Sleep(20 * time.Millisecond)
						return nil
					}
					q.run(messages, work)
					waits := 2 * 3 * p.Resolved().Retry.Backoff.Cap
					for n, m := range messages {
						d, ended := q.ends[m.ID]
						switch {
						case !ended:
							t.Fatalf("%s has no end", m.ID)
						case n < bad && (d.Verb != inbox.DeadLetter || q.took[m.ID] > 3*(3*time.Second+5*time.Second)+waits):
							t.Errorf("%s: %+v after %v", m.ID, d, q.took[m.ID])
						case n >= bad && d.Verb != inbox.Ack:
							t.Errorf("%s: %+v", m.ID, d)
						case n >= bad && q.took[m.ID] > (3+5)*time.Second+alone*105/100: // all slots are theirs once the bad ones are left
							t.Errorf("%s is done after %v", m.ID, q.took[m.ID])
						}
					}
					time.Sleep(time.Minute) // for what ends late
				})
			})
		}
	}
}

func TestWorkThatIsLeftLendsItsSlotAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		k := newDesk(t, patient(2), consumer.Options{Lend: 1, Logger: slog.New(slog.NewTextHandler(&told, nil))})
		over := make(chan struct{})
		k.work = func(context.Context) error { <-over; return nil }
		d := k.deliver(order(1))
		k.want(d, inbox.Retry, inbox.CauseFailed)
		if !errors.Is(d.Err, inbox.ErrAbandoned) {
			t.Error(d.Err)
		}
		synctest.Wait()
		if s := k.d.Stats(); s.Outlived != 1 || s.Streams != 1 || s.Bulkhead.InUse != 0 {
			t.Errorf("outlived %d, open %d, slots %d", s.Outlived, s.Streams, s.Bulkhead.InUse)
		}
		if n := k.Slots(0); n != 2 {
			t.Errorf("%d slots", n)
		}
		k.want(k.deliver(order(2)), inbox.Retry, inbox.CauseFailed) // one more than lends its slot
		synctest.Wait()
		if s := k.d.Stats(); s.Outlived != 1 || s.Bulkhead.InUse != 1 {
			t.Errorf("outlived %d, slots %d", s.Outlived, s.Bulkhead.InUse)
		}
		if n := k.Slots(0); n != 1 {
			t.Errorf("%d slots", n)
		}
		if left := k.Left(); len(left) != 2 || left[0].ID != order(1).ID || !left[0].Lent || left[1].Lent {
			t.Errorf("%+v", left)
		}
		if !bytes.Contains(told.Bytes(), []byte("left running")) {
			t.Error(told.String())
		}
		close(over)
		synctest.Wait()
		if s := k.d.Stats(); s.Streams != 0 || s.Bulkhead.InUse != 0 || len(k.Left()) != 0 || k.Slots(0) != 2 {
			t.Errorf("open %d, slots %d, left %v", s.Streams, s.Bulkhead.InUse, k.Left())
		}
		over = make(chan struct{})
		k.want(k.deliver(order(3)), inbox.Retry, inbox.CauseFailed) // those before are forgotten
		if left := k.Left(); len(left) != 1 || !left[0].Lent {
			t.Errorf("%+v", left)
		}
		close(over)
	})
}

// Whichever of the runs that were left returns first, as many slots as may be lent are.
func TestASlotThatWasLentIsLentToTheNext(t *testing.T) {
	for _, first := range []int{0, 2} { // whose slot is lent, and whose is not
		for range 10 { // the next is drawn
			synctest.Test(t, func(t *testing.T) {
				k := newDesk(t, patient(4), consumer.Options{Lend: 2})
				over := map[string]chan struct{}{}
				for n := range 3 {
					over[order(n).ID] = make(chan struct{})
				}
				for n := range 3 {
					k.want(k.Handle(t.Context(), order(n), func(context.Context) error { <-over[order(n).ID]; return nil }), inbox.Retry, inbox.CauseFailed)
				}
				holds := func(left, slots, free int) {
					t.Helper()
					synctest.Wait()
					s, all := k.d.Stats(), k.Left()
					lent := 0
					for _, l := range all {
						if l.Lent {
							lent++
						}
					}
					if len(all) != left || lent != left-slots || s.Bulkhead.InUse != slots || int(s.Streams) != left-slots || k.Slots(0) != free {
						t.Errorf("first %d: %d are left, %d slots lent, %d in use, %d free, %d open", first, len(all), lent, s.Bulkhead.InUse, k.Slots(0), s.Streams)
					}
				}
				holds(3, 1, 3)
				close(over[order(first).ID])
				holds(2, 0, 4)
				close(over[order(1).ID])
				close(over[order(2-first).ID])
				holds(0, 0, 4)
			})
		}
	}
}

// The slot is lent when the run is left, also where the attempt's own time is not over.
func TestTheSlotOfWorkThatIsLeftEarlyIsLentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patient(2)
		p.Timeout = policy.Timeout{Call: time.Hour, Attempt: time.Hour}
		config := reexecute
		config.MaxExecution = 3 * time.Second
		k := newDesk(t, p, consumer.Options{Inbox: inbox.Options{RunnerConfig: config}})
		k.work = hang(t)
		k.want(k.deliver(order(1)), inbox.Retry, inbox.CauseFailed)
		if s := k.d.Stats(); s.Bulkhead.InUse != 0 || s.Streams != 1 {
			t.Errorf("%d slots in use, %d open", s.Bulkhead.InUse, s.Streams)
		}
	})
}

// hooked is a store that does something before it stores the end of a run.
type hooked struct {
	idempotency.Store
	ends func()
}

func (s hooked) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	s.ends()
	return s.Store.Apply(ctx, ref, c)
}

// Work may return after it was left, and before its message is handled.
func TestWorkThatReturnsAsItIsLeftKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, over := gabion.New("billing", patient(2)), make(chan struct{})
		store := hooked{idempotency.NewMemoryStore(0, 0), func() {
			close(over)
			synctest.Wait()
		}}
		c, err := consumer.New(d, store, consumer.Options{Lend: -1, Letters: newShelf(), Inbox: inbox.Options{RunnerConfig: reexecute}})
		if err != nil {
			t.Fatal(err)
		}
		got := c.Handle(t.Context(), order(1), func(context.Context) error { <-over; return nil })
		if got.Cause != inbox.CauseFailed {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
		if s := d.Stats(); s.Streams != 0 || s.Bulkhead.InUse != 0 || len(c.Left()) != 0 || c.Slots(0) != 2 {
			t.Errorf("open %d, slots %d, left %v, %d slots are free", s.Streams, s.Bulkhead.InUse, c.Left(), c.Slots(0))
		}
	})
}

// Else a message that hangs would leave as many runs as it has attempts.
func TestAMessageWhoseRunWasLeftDoesNotRunBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(4), consumer.Options{})
		over := make(chan struct{})
		var runs atomic.Int64
		k.work = func(context.Context) error { runs.Add(1); <-over; return nil }
		m := order(1)
		d := k.deliver(m)
		for d.Verb == inbox.Retry {
			m = again(m)
			d = k.deliver(m)
		}
		k.want(d, inbox.DeadLetter, inbox.CauseAttemptsExhausted)
		if n := runs.Load(); n != 1 || d.Attempt != 3 {
			t.Errorf("%d runs of %d", n, d.Attempt)
		}
		close(over)
	})
}

// It may still have its effect, whatever it said before.
func TestUnderHoldNothingIsKnownOfWorkThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(4), consumer.Options{Inbox: inbox.Options{RunnerConfig: idempotency.RunnerConfig{Observer: quiet{}, Guarantee: idempotency.GuaranteeHold}}})
		stay := hang(t)
		k.work = func(ctx context.Context) error { idempotency.NoEffect(ctx); return stay(ctx) }
		k.want(k.deliver(order(1)), inbox.DeadLetter, inbox.CauseUnknown)
	})
}

// The lease ends with the run, so the next may begin at once; and what the run that was left
// still brings counts no more.
func TestTheNextRunNeedNotWaitForTheLeaseOfOneThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patient(4)
		p.Timeout = policy.Timeout{Call: time.Hour, Attempt: 30 * time.Minute} // MaxExecution comes first
		inboxOptions := inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}, MaxExecution: 3 * time.Second, Lease: 10 * time.Minute}}
		store := idempotency.NewMemoryStore(0, 0)
		make := func() *consumer.Consumer { // a process
			c, err := consumer.New(gabion.New("billing", p), store, consumer.Options{GiveUpAfter: -1, Letters: newShelf(), Inbox: inboxOptions})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		one, other := make(), make()
		var late error
		d := one.Handle(t.Context(), order(1), func(ctx context.Context) error {
			time.Sleep(time.Minute)
			_, late = idempotency.Phase(ctx, "late", func(context.Context) ([]byte, error) { return nil, nil })
			return nil
		})
		if !errors.Is(d.Err, inbox.ErrAbandoned) || d.Cause != inbox.CauseFailed {
			t.Errorf("%+v", d)
		}
		if d := other.Handle(t.Context(), again(order(1)), func(context.Context) error { return nil }); d.Cause != inbox.CauseDone || d.Attempt != 2 {
			t.Errorf("%+v", d)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if late == nil {
			t.Error("a run that was left stored a recovery point")
		}
		if len(one.Left()) != 0 {
			t.Errorf("%+v", one.Left())
		}
	})
}

// Stopping is bounded, and the message is not to blame.
func TestHandleReturnsWhenItsCallerStopsAndTheWorkDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, patient(4), consumer.Options{Grace: time.Second})
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		begun := time.Now()
		d := k.Handle(ctx, order(1), hang(t))
		k.want(d, inbox.Retry, inbox.CauseStopped)
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("after %v", took)
		}
		if len(k.Left()) != 1 {
			t.Errorf("%+v", k.Left())
		}
		if err := (&consumer.LeftError{Runs: k.Left()}).Error(); err == "" {
			t.Error(err)
		}
	})
}
