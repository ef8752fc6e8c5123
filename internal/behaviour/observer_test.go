package behaviour

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// meddler is an observer that does all that one should not.
type meddler struct {
	d     *gabion.Dependency
	kind  policy.Kind
	calls atomic.Int64
	depth atomic.Int64
}

func (m *meddler) Observe(_ context.Context, e gabion.Event) {
	m.calls.Add(1)
	if m.depth.Add(1) > 100 {
		panic("the observer is called from within itself without end")
	}
	defer m.depth.Add(-1)
	m.d.Stats()
	if e.Kind == m.kind {
		m.d.Retries().Resume()
		m.d.Reload(m.d.Policy())
		if b, ok := m.d.Breaker(""); ok && e.Kind == policy.KindBreakerMoved && e.To == breaker.Open {
			b.Reset()
		}
	}
	panic("observer")
}

// C45: an observer that panics and uses the dependency neither
// deadlocks nor changes what happens, and is reported once.
func TestPanickingMeddlingObserverChangesNothing(t *testing.T) {
	for _, hedge := range []int{0, 1} {
		for _, k := range policy.Kinds() {
			t.Run(fmt.Sprintf("%s/hedge=%d", k, hedge), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var said strings.Builder
					m, good := &meddler{kind: k}, new(gabiontest.Recorder)
					d := gabion.New("db", policy.Policy{
						Safe: true, Hedge: policy.Hedge{Off: hedge == 0, Max: hedge, Delay: time.Millisecond},
						Retry:    policy.Retry{Backoff: every(time.Millisecond)},
						Breaker:  eager(10 * time.Millisecond),
						Bulkhead: policy.Bulkhead{Limit: 1, Queue: 1, QueueTimeout: time.Millisecond},
					}, gabion.WithObserver(m), gabion.WithObserver(good), gabion.WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
					m.d = d
					var wg sync.WaitGroup
					for range 5 {
						wg.Go(func() {
							for range 5 {
								gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) { return 1, lasts(3*time.Millisecond, errDown)(ctx) })
								time.Sleep(4 * time.Millisecond)
							}
						})
					}
					wg.Wait()
					time.Sleep(time.Second)
					if err := d.Run(t.Context(), works); err != nil {
						t.Error(err)
					}
					nothingHeld(t, d)
					if n := strings.Count(said.String(), "observer panicked"); n != 1 {
						t.Errorf("reported %d times\n%s", n, &said)
					}
					if got := d.Stats().ObserverPanics; got != m.calls.Load() {
						t.Errorf("%d panics are counted, there were %d", got, m.calls.Load())
					}
					if n := len(good.Events()); int64(n) != m.calls.Load() {
						t.Errorf("the other observer was told %d of %d events", n, m.calls.Load())
					}
				})
			})
		}
	}
}

func TestObserverThatLeavesByGoexitDoesNotSilenceTheEvents(t *testing.T) {
	var left bool
	var after []policy.Kind
	d := gabion.New("db", policy.Policy{Breaker: policy.Breaker{Consecutive: 1}}, gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
		if e.Kind == policy.KindBreakerMoved && !left {
			left = true
			runtime.Goexit()
		}
		if left && e.Kind == policy.KindBreakerMoved {
			after = append(after, e.Kind)
		}
	})))
	inItsOwnGoroutine(func() { d.Run(context.Background(), fails(errDown)) })
	b := handOn(t, d, "")
	b.Reset()
	b.Trip()
	if !left || len(after) != 2 {
		t.Errorf("after it left, it was told of %d of 2 moves", len(after))
	}
	gabiontest.NothingHeld(t, d)
}

func TestOperationAndPartitionNameEveryEventOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{Safe: true})
		d.Run(t.Context(), fails(errDown), gabion.WithOperation("charge"), gabion.WithPartition("eu"))
		d.Run(t.Context(), works)
		events := rec.Events()
		if len(events) < 10 {
			t.Fatal(rec.Decisions())
		}
		for i, e := range events {
			first := i < len(events)-3
			if e.Dependency != "db" || (e.Operation == "charge") != first || (e.Partition == "eu") != first || (e.Call == events[0].Call) != first {
				t.Errorf("%+v", e)
			}
		}
	})
}
