package behaviour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// ledger checks the order of events as they come, and counts.
type ledger struct {
	mu    sync.Mutex
	calls map[uint64]*told
	seqs  map[string]uint64
	wrong []string
}

// told is what was told of one call.
type told struct {
	sent, hedges, settled, losers int
	returned                      int
	well                          bool
}

func (l *ledger) Observe(_ context.Context, e gabion.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.calls[e.Call], true
	if c == nil {
		c = new(told)
		l.calls[e.Call] = c
	}
	switch e.Kind {
	case policy.KindAttemptSent:
		c.sent++
		if e.Hedge {
			c.hedges++
		}
		ok = c.returned == 0 && int(e.Attempt) == c.sent
	case policy.KindAttemptSettled:
		c.settled++
		ok = c.returned == 0
	case policy.KindLoserSettled:
		c.losers++
		ok = c.returned == 1
	case policy.KindReturned:
		c.returned++
		c.well = e.Reason == policy.None
		ok = c.returned == 1 && int(e.Attempt) == c.sent && int(e.Hedges) == c.hedges
	case policy.KindEventsLost:
		ok = false
	}
	if e.Seq != 0 {
		ok = ok && e.Seq > l.seqs[e.Dependency]
		l.seqs[e.Dependency] = e.Seq
	}
	if !ok && len(l.wrong) < 10 {
		l.wrong = append(l.wrong, fmt.Sprintf("%+v after %+v", e, *c))
	}
}

// check compares what was told with what the program and the dependencies counted.
func (l *ledger) check(t *testing.T, began int64, all []*gabion.Dependency) {
	t.Helper()
	var got, want policy.Totals
	for _, d := range all {
		s := d.Stats().Totals
		got.Calls, got.Attempts, got.Succeeded, got.Hedges = got.Calls+s.Calls, got.Attempts+s.Attempts, got.Succeeded+s.Succeeded, got.Hedges+s.Hedges
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, 0) // what is about dependencies
	for id, c := range l.calls {
		if c.returned != 1 || c.sent != c.settled+c.losers {
			l.wrong = append(l.wrong, fmt.Sprintf("call %d: %+v", id, *c))
		}
		want.Attempts, want.Hedges = want.Attempts+int64(c.sent), want.Hedges+int64(c.hedges)
		if c.well {
			want.Succeeded++
		}
	}
	if want.Calls = began; int64(len(l.calls)) != began || got != want {
		t.Errorf("%d calls began and %d were told; totals:\n got %+v\nwant %+v", began, len(l.calls), got, want)
	}
	for _, w := range l.wrong {
		t.Error(w)
	}
}

// busybody uses everything that it can reach, whenever it is asked or told something.
type busybody struct {
	r *gabion.Registry
	n atomic.Uint64
}

func (m *busybody) meddle() {
	n := m.n.Add(1)
	d, err := m.r.Get("b")
	if err != nil {
		return
	}
	switch n * 0x9e3779b97f4a7c15 >> 58 {
	case 0:
		panic("meddling")
	case 1:
		m.r.Stats()
	case 2:
		m.r.Observe(gabion.ObserverFunc(func(context.Context, gabion.Event) {}))()
	case 3:
		defer d.Observe(marks("late", new(atomic.Int64), new(atomic.Int64)))()
	case 4:
		d.Reload(meddled(int(n) % 2))
	case 5:
		if b, ok := d.Breaker("1"); ok {
			b.By("busybody").Disable(time.Millisecond)
		}
	case 6:
		d.Retries().Stop(time.Millisecond)
	}
}

func (m *busybody) Observe(context.Context, gabion.Event) { m.meddle() }

func (m *busybody) TraceCall(ctx context.Context, _ gabion.Event) context.Context {
	m.meddle()
	return context.WithValue(ctx, mark{"busybody"}, true)
}

func (m *busybody) TraceAttempt(context.Context, gabion.Event) context.Context {
	m.meddle()
	return nil
}

// meddled is a policy in which everything happens soon.
func meddled(hedges int) policy.Policy {
	return policy.Policy{
		Safe: true, Retry: policy.Retry{Attempts: 3, Backoff: every(50 * time.Microsecond), Budget: policy.Budget{Off: true}},
		Hedge:   policy.Hedge{Max: hedges, Delay: time.Duration(hedges) * 200 * time.Microsecond},
		Breaker: policy.Breaker{Open: time.Millisecond}, Bulkhead: policy.Bulkhead{Limit: 6, Queue: 4}, Partitions: policy.Partitions{Max: 4},
		Timeout: policy.Timeout{Call: 50 * time.Millisecond, Attempt: 20 * time.Millisecond},
	}
}

// callSomeWay makes one call in one of many ways, and survives it.
func callSomeWay(ctx context.Context, d *gabion.Dependency, k int) {
	defer func() { _ = recover() }()
	opts := []gabion.CallOption{gabion.WithPartition(fmt.Sprint(k % 6))}
	if k == 30 {
		opts = append(opts, gabion.WithKey("")) // is turned away
	}
	work := func(ctx context.Context) (int, error) {
		switch {
		case k == 0:
			panic("work")
		case k == 1:
			runtime.Goexit()
		case k < 12:
			return 0, errDown
		case k < 20:
			select {
			case <-time.After(time.Duration(k) * 30 * time.Microsecond):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return 1, nil
	}
	switch k % 3 {
	case 0:
		gabion.Do(ctx, d, work, opts...)
	case 1:
		if _, a, _ := gabion.Open(ctx, d, work, opts...); a != nil {
			a.Close(nil)
		}
	case 2:
		if a, err := gabion.Begin(ctx, d, opts...); err == nil {
			if k%2 == 0 {
				a.Settle(errors.New("unclassified"))
			}
			a.Close(nil)
		}
	}
}

// An observer that sees all sees each call once, in order and as Stats counts them,
// whatever others do in any moment.
func TestOthersThatMeddleTakeNoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := gabion.NewRegistry(map[string]policy.Policy{"a": meddled(1), "b": meddled(0)}, gabion.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
		if err != nil {
			t.Fatal(err)
		}
		held, err := r.Get("b") // before somebody takes the name away: it comes and goes
		if err != nil {
			t.Fatal(err)
		}
		book := &ledger{calls: map[uint64]*told{}, seqs: map[string]uint64{}}
		defer r.Observe(book)()
		var over atomic.Bool
		var others, callers sync.WaitGroup
		for range 3 {
			others.Go(func() {
				for !over.Load() {
					stop := r.Observe(&busybody{r: r})
					time.Sleep(300 * time.Microsecond)
					stop()
				}
			})
		}
		others.Go(func() {
			for n := 0; !over.Load(); n++ {
				some := map[string]policy.Policy{"a": meddled(n % 2), "b": meddled((n + 1) % 2)}
				if n%5 == 0 {
					delete(some, "b")
				}
				if err := r.Reload(some); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
		var began atomic.Int64
		for i := range 6 {
			callers.Go(func() {
				chance := rand.New(rand.NewPCG(uint64(i), 2))
				for range 200 {
					d := held
					if chance.IntN(2) == 0 {
						d, _ = r.Instance("a", fmt.Sprint(chance.IntN(5)))
					}
					began.Add(1)
					k, done := chance.IntN(40), make(chan struct{})
					go func() {
						defer close(done)
						callSomeWay(t.Context(), d, k)
					}()
					<-done
				}
			})
		}
		callers.Wait()
		over.Store(true)
		others.Wait()
		time.Sleep(time.Second) // what lost has ended
		if err := r.Reload(map[string]policy.Policy{"a": meddled(0), "b": meddled(0)}); err != nil {
			t.Fatal(err)
		}
		book.check(t, began.Load(), r.All())
		runtime.KeepAlive(held)
	})
}
