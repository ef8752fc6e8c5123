package consumer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// A moody store is slow, fails, answers after it has said that it failed, and keeps the
// contexts that it was given, which it uses later.
type moody struct {
	idempotency.Store
	late sync.WaitGroup

	mu   sync.Mutex // guards over
	over bool       // the test waits for late: ends of runs may still be brought
}

func (s *moody) later(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.late.Go(f)
	}
}

func (s *moody) wait() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.late.Wait()
}

func (s *moody) mood(ctx context.Context) (answer bool) {
	switch rand.IntN(12) {
	case 0:
		return false
	case 1:
		<-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond)
	case 2:
		s.later(func() {
			<-ctx.Done()
			_, _ = ctx.Err(), context.Cause(ctx)
			idempotency.NoEffect(ctx)
		})
	}
	return true
}

func (s *moody) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	a, err := s.Store.Begin(ctx, c)
	if !s.mood(ctx) {
		return idempotency.Answer{}, errWork
	}
	return a, err
}

func (s *moody) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	err := s.Store.Apply(ctx, ref, c)
	if !s.mood(ctx) {
		return errWork
	}
	return err
}

// Leases beat while runs end, the store fails and answers late, and work leaves goroutines
// behind, panics, ends its goroutine and handles other messages. Nothing of that is another
// message's, and what is acknowledged was done.
func TestWhatIsLeftBehindByMoodyStoresAndWork(t *testing.T) {
	const goroutines, each = 8, 120
	store := &moody{Store: idempotency.NewMemoryStore(0, 0)}
	d := gabion.New("billing", policy.Policy{Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Off: true}}})
	c, err := consumer.New(d, store, consumer.Options{GiveUpAfter: -1, Letters: newShelf(), Inbox: inbox.Options{
		RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute, Observer: quiet{}, Lease: 6 * time.Millisecond, MaxExecution: 50 * time.Millisecond},
		Visibility:   3 * time.Millisecond,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.Map // of those whose work came to its end
	var all, left sync.WaitGroup
	message := func(id string) consumer.Message {
		m := consumer.Message{Source: "orders/" + id, Message: inbox.Message{ID: id, Payload: []byte(id), Delivery: 1 + rand.IntN(2)}}
		m.Extend = func(ctx context.Context) error {
			if rand.IntN(4) == 0 {
				return errWork
			}
			return ctx.Err()
		}
		return m
	}
	var nested atomic.Int64
	handle := func(id string) (d inbox.Disposition, came bool) {
		ended := make(chan struct{})
		go func() { // as the work may end it
			defer close(ended)
			d = c.Handle(context.Background(), message(id), func(ctx context.Context) error {
				k := keep(ctx)
				if k.id != id {
					t.Errorf("the work of %q has the context of %q", id, k.id)
				}
				left.Go(func() {
					<-ctx.Done()
					if err := k.shows(); err != nil {
						t.Error(err)
					}
					idempotency.NoEffect(ctx)
					_, _ = idempotency.Phase(ctx, "late", func(context.Context) ([]byte, error) { return nil, nil })
				})
				switch rand.IntN(8) {
				case 0:
					panic("a bug")
				case 1:
					return errors.New("no")
				case 2:
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
					}
				case 3:
					other := "nested-" + strconv.FormatInt(nested.Add(1), 10)
					if got := c.Handle(ctx, message(other), func(ctx context.Context) error {
						if m := consumer.MessageFrom(ctx); m.ID != other {
							t.Errorf("the work of %q has the message of %q", other, m.ID)
						}
						done.Store(other, true)
						return nil
					}); got.Verb == inbox.Ack {
						if _, was := done.Load(other); !was {
							t.Errorf("%s is acknowledged and was not done", other)
						}
					}
				case 4:
					if rand.IntN(4) == 0 {
						runtime.Goexit()
					}
				}
				done.Store(id, true)
				return nil
			})
			came = true
		}()
		<-ended
		return d, came
	}
	for g := range goroutines {
		all.Go(func() {
			for n := range each {
				id := strconv.Itoa(g*each + n)
				d, came := handle(id)
				if _, was := done.Load(id); came && d.Verb == inbox.Ack && !was {
					t.Errorf("%s is acknowledged and was not done: %+v", id, d)
				}
			}
		})
	}
	all.Wait()
	left.Wait()
	store.wait()
	if n := d.Stats().Bulkhead.InUse; n != 0 {
		t.Errorf("%d slots are still held", n)
	}
}
