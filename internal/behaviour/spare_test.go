package behaviour

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// The memory of attempts serves others after Spare, while their limits pass at any moment, and
// what they held is given back once.
func TestSparedAttemptsServeOthers(t *testing.T) {
	d := gabion.New("queue", policy.Policy{
		Timeout:  policy.Timeout{Attempt: time.Millisecond, Body: time.Millisecond, Margin: policy.Off},
		Bulkhead: policy.Bulkhead{Limit: 64}, Breaker: policy.Breaker{Off: true},
	})
	type numbered struct{}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(g), 2))
			var old []context.Context
			for n := range 500 {
				a, err := gabion.Begin(context.WithValue(t.Context(), numbered{}, n), d)
				if err != nil {
					t.Error(err)
					return
				}
				ctx := a.Context()
				switch draw.IntN(4) {
				case 0:
					a.Settle(nil)
				case 1:
					_ = a.Settle(context.DeadlineExceeded)
				case 2:
					ctx.Done()
				}
				if draw.IntN(8) == 0 {
					<-time.After(time.Duration(draw.IntN(2000)) * time.Microsecond)
				}
				a.Close(nil)
				adapter.Spare(a)
				old = append(old, ctx)
				if i := draw.IntN(len(old)); old[i].Err() == nil || old[i].Value(numbered{}) != i {
					t.Errorf("attempt %d is another's: %v, %v", i, old[i].Err(), old[i].Value(numbered{}))
				}
			}
		})
	}
	all.Wait()
	gabiontest.NothingHeld(t, d)
}

// An attempt that is not closed is still in use.
func TestAnOpenAttemptIsNotSpared(t *testing.T) {
	d := gabion.New("queue", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 2}})
	a, err := gabion.Begin(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	adapter.Spare(a)
	b, err := gabion.Begin(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if a == b || d.Stats().Bulkhead.InUse != 2 {
		t.Errorf("one attempt for two calls; %d slots", d.Stats().Bulkhead.InUse)
	}
	a.Close(nil)
	b.Close(nil)
	adapter.Spare(b)
	gabiontest.NothingHeld(t, d)
}
