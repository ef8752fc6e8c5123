package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// asked counts the calls of Done.
type asked struct {
	context.Context
	times atomic.Int64
}

func (a *asked) Done() <-chan struct{} {
	a.times.Add(1)
	return a.Context.Done()
}

// orderMany puts many letters and orders a redrive of them.
func (k *desk) orderMany(many int) {
	for n := range many {
		m := order(n)
		k.letters.ordered = append(k.letters.ordered, deadletter.Lease{Token: 1, Letter: deadletter.Letter{Group: "billing", Key: m.ID, Payload: m.Payload, Reason: "permanent"}})
	}
}

// A breaker may be open for hours.
func TestARedriveAsksSeldomWhileTheBreakerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		b, _ := k.d.Breaker("")
		b.ForceOpen(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		a := &asked{Context: ctx}
		_ = k.Redrive(a, k.letters, func(context.Context) error { return nil }, consumer.Redrive{})
		if n := a.times.Load(); n > 3700 {
			t.Errorf("it asked %d times in an hour", n)
		}
	})
}

// atWork counts how many letters are taken and not settled.
type atWork struct {
	*shelf
	now, most atomic.Int64
}

func (s *atWork) Take(ctx context.Context, group string, n int, lease time.Duration) ([]deadletter.Lease, time.Duration, error) {
	taken, again, err := s.shelf.Take(ctx, group, n, lease)
	if now := s.now.Add(int64(len(taken))); now > s.most.Load() {
		s.most.Store(now)
	}
	return taken, again, err
}

func (s *atWork) Settle(ctx context.Context, l deadletter.Lease, v deadletter.Verdict) error {
	s.now.Add(-1)
	return s.shelf.Settle(ctx, l, v)
}

// More workers than slots take no more letters than can be worked on.
func TestARedriveTakesNoMoreLettersThanThereAreSlots(t *testing.T) {
	for _, c := range []struct {
		fact  string
		half  bool
		slots int
		want  int64
	}{
		{"3 slots", false, 3, 3},
		{"a breaker that wants a probe", true, 100, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := policy.Policy{Bulkhead: policy.Bulkhead{Limit: c.slots}, Retry: policy.Retry{Budget: policy.Budget{Off: true}}, Timeout: policy.Timeout{Call: time.Hour, Attempt: time.Hour}}
			k := newDesk(t, p, consumer.Options{})
			if c.half {
				k.work = k.fails
				for n := range 200 {
					k.deliver(order(1000 + n))
				}
				_, wait := k.Room(0)
				time.Sleep(wait)
			}
			k.orderMany(40)
			s := &atWork{shelf: k.letters}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var begun atomic.Bool
			_ = k.Redrive(ctx, s, func(context.Context) error {
				if begun.Swap(true) && c.half {
					return nil // the breaker is closed again
				}
				time.Sleep(10 * time.Second)
				if c.half && s.most.Load() > c.want {
					t.Errorf("%s: %d letters are taken at once", c.fact, s.most.Load())
				}
				return nil
			}, consumer.Redrive{Workers: 16})
			if most := s.most.Load(); !c.half && most != c.want {
				t.Errorf("%s: %d letters were taken at once", c.fact, most)
			}
			for _, v := range k.letters.verdicts {
				if v.State != deadletter.Done {
					t.Fatalf("%s: %+v; told %v", c.fact, v, k.told)
				}
			}
			if len(k.letters.verdicts) != 40 {
				t.Errorf("%s: %d letters are done", c.fact, len(k.letters.verdicts))
			}
		})
	}
}

// Wrong numbers do not make it spin.
func TestARedriveWithNegativeTimesDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, policy.Policy{}, consumer.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a := &asked{Context: ctx}
		turns := 0
		o := orders{take: func(context.Context) ([]deadletter.Lease, time.Duration, error) {
			if turns++; turns > 1000 {
				cancel()
			}
			return nil, -time.Second, nil
		}}
		_ = k.Redrive(a, o, func(context.Context) error { return nil }, consumer.Redrive{Workers: -1, Lease: -1, Idle: -1})
		if turns > 61 {
			t.Errorf("the store was asked %d times in a minute", turns)
		}
	})
}

// orders is a store of letters of which each test makes its own.
type orders struct {
	take   func(context.Context) ([]deadletter.Lease, time.Duration, error)
	extend func() error
	settle func(deadletter.Verdict) error
}

func (o orders) Take(ctx context.Context, _ string, _ int, _ time.Duration) ([]deadletter.Lease, time.Duration, error) {
	return o.take(ctx)
}
func (o orders) Extend(context.Context, deadletter.Lease, time.Duration) error { return o.extend() }
func (o orders) Settle(_ context.Context, _ deadletter.Lease, v deadletter.Verdict) error {
	return o.settle(v)
}

// A store that panics is one that fails: the process has other work.
func TestARedriveSurvivesAStoreThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unguarded
		p.Timeout = policy.Timeout{Call: time.Hour, Attempt: time.Hour}
		k := newDesk(t, p, consumer.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		m, taken, settled := order(1), 0, 0
		o := orders{
			take: func(context.Context) ([]deadletter.Lease, time.Duration, error) {
				switch taken++; taken {
				case 1:
					panic("taking")
				case 2:
					return []deadletter.Lease{{Token: 1, Letter: deadletter.Letter{Group: "billing", Key: m.ID, Payload: m.Payload, Reason: "permanent"}}}, 0, nil
				}
				return nil, 0, nil
			},
			extend: func() error { panic("extending") },
			settle: func(deadletter.Verdict) error { settled++; panic("settling") },
		}
		var cause error
		_ = k.Redrive(ctx, o, func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}, consumer.Redrive{Workers: 1})
		if taken < 3 || settled != 1 {
			t.Errorf("taken %d times, settled %d times; the work ended by %v", taken, settled, cause)
		}
	})
}

// A store that gives no answer, as on a connection whose server is gone, is asked again.
func TestARedriveAsksAStoreAgainThatGivesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		taken := 0
		_ = k.Redrive(ctx, orders{take: func(ctx context.Context) ([]deadletter.Lease, time.Duration, error) {
			if taken++; taken == 1 {
				<-ctx.Done()
			}
			return nil, 0, ctx.Err()
		}}, k.work, consumer.Redrive{})
		if taken < 100 {
			t.Errorf("asked %d times in five minutes", taken)
		}
	})
}

// Two processes, leases that are shorter than the work, and a store whose answers are slow:
// every letter comes out once.
func TestTwoRedrivesSettleEveryLetterOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		p := unguarded
		p.Timeout = policy.Timeout{Call: time.Hour, Attempt: time.Hour}
		store := idempotency.NewMemoryStore(0, 0)
		k := newDesk(t, p, consumer.Options{})
		k.orderMany(many)
		s := &leasing{shelf: k.letters, due: map[string]time.Time{}, done: map[string]int{}}
		var runs atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan struct{})
		for range 2 {
			c, err := consumer.New(k.d, store, consumer.Options{GiveUpAfter: -1, Letters: k.letters, Inbox: inbox.Options{RunnerConfig: reexecute}})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_ = c.Redrive(ctx, s, func(ctx context.Context) error {
					runs.Add(1)
					select {
					case <-time.After(time.Minute):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}, consumer.Redrive{Lease: 3 * time.Second})
				ended <- struct{}{}
			}()
		}
		<-ended
		<-ended
		if len(s.done) != many || runs.Load() != many {
			t.Errorf("%d letters are done after %d runs", len(s.done), runs.Load())
		}
		for key, n := range s.done {
			if n != 1 {
				t.Errorf("%s was settled %d times", key, n)
			}
		}
	})
}

// leasing keeps to leases, and answers slowly.
type leasing struct {
	*shelf
	due  map[string]time.Time // guarded by the shelf's mu
	done map[string]int
}

func (s *leasing) Take(_ context.Context, _ string, n int, lease time.Duration) (taken []deadletter.Lease, again time.Duration, err error) {
	err = s.with(func() {
		for _, l := range s.ordered {
			if len(taken) < n && s.done[l.Key] == 0 && !time.Now().Before(s.due[l.Key]) {
				s.due[l.Key] = time.Now().Add(lease)
				taken = append(taken, l)
			}
		}
	})
	time.Sleep(500 * time.Millisecond)
	return taken, 0, err
}

func (s *leasing) Extend(_ context.Context, l deadletter.Lease, lease time.Duration) error {
	time.Sleep(500 * time.Millisecond)
	return s.with(func() { s.due[l.Key] = time.Now().Add(lease) })
}

func (s *leasing) Settle(_ context.Context, l deadletter.Lease, v deadletter.Verdict) error {
	time.Sleep(500 * time.Millisecond)
	return s.with(func() {
		delete(s.due, l.Key)
		if v.State == deadletter.Done {
			s.done[l.Key]++
		}
	})
}

// hanging does not answer those who look a record up.
type hanging struct{ idempotency.Store }

func (hanging) Get(ctx context.Context, _ idempotency.ID) (idempotency.Record, error) {
	<-ctx.Done()
	return idempotency.Record{}, ctx.Err()
}

// What was found out can't be stored: the letter is given back, and holds no worker.
func TestALetterWhoseResolutionHangsIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		c, err := consumer.New(k.d, hanging{idempotency.NewMemoryStore(0, 0)}, consumer.Options{Guarantee: consumer.Hold, GiveUpAfter: -1, Letters: k.letters, Inbox: inbox.Options{RunnerConfig: hold}})
		if err != nil {
			t.Fatal(err)
		}
		k.Consumer = c
		k.onHold(1)
		k.redrive(12 * time.Second)
		if n := len(k.letters.verdicts); n != 2 || k.runs != 0 {
			t.Errorf("it was settled %d times after %d runs", n, k.runs)
		}
	})
}

// settling looks at the context with which the end of a letter is stored.
type settling struct {
	orders
	seen func(context.Context)
}

func (s settling) Settle(ctx context.Context, _ deadletter.Lease, v deadletter.Verdict) error {
	s.seen(ctx)
	return s.settle(v)
}

// The end of a letter is stored also when the redrive was stopped, with a context that ends then.
func TestTheEndOfALetterIsStoredThoughTheRedriveIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newDesk(t, unguarded, consumer.Options{})
		var ending context.Context
		k.onHold(1)
		ctx, cancel := context.WithCancel(t.Context())
		letters, settled := k.letters.ordered, 0
		_ = k.Redrive(ctx, settling{orders{
			take: func(context.Context) (taken []deadletter.Lease, _ time.Duration, _ error) {
				taken, letters = letters, nil
				return
			},
			extend: func() error { return nil },
			settle: func(deadletter.Verdict) error { settled++; return nil },
		}, func(ctx context.Context) {
			if ctx.Err() != nil {
				t.Errorf("the end is stored with a context that says %v", ctx.Err())
			}
			ending = ctx
		}}, func(ctx context.Context) error { cancel(); return ctx.Err() }, consumer.Redrive{Workers: 1})
		if settled != 1 || ending.Err() != context.Canceled {
			t.Errorf("%d ends are stored, and the context says %v", settled, ending.Err())
		}
	})
}
