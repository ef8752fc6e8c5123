package behaviour_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// A primary is down for ten minutes: its backup has the load within two seconds, and it has it back within five seconds of its
// recovery. In between it gets probes alone, and nothing goes back and forth.
func TestAPrimaryIsDownForTenMinutes(t *testing.T) {
	for _, c := range []struct {
		fact string
		down func(context.Context) error
	}{
		{"refuses", func(context.Context) error { return classify.NotSent(classify.Transient(errDown)) }},
		{"fails late", func(context.Context) error {
			time.Sleep(30 * time.Millisecond)
			return classify.Transient(errDown)
		}},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if testing.Short() && c.fact != "hangs" {
				t.Skip("long: one of the cases shows it")
			}
			synctest.Test(t, func(t *testing.T) { failover(t, c.down) })
		})
	}
}

func failover(t *testing.T, down func(context.Context) error) {
	const from, to, end = time.Minute, 11 * time.Minute, 12 * time.Minute
	p := ways(policy.EndpointsOrdered, "primary", "backup")
	p.Safe = true
	var mu sync.Mutex
	opened := 0
	d := gabion.New("payments", p, gabion.WithSeed(1), gabion.WithObserver(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == policy.KindBreakerMoved && e.From == policy.StateClosed {
			opened++
		}
	})))
	began := time.Now()
	at := func() time.Duration { return time.Since(began) }
	var before, probes, switched, back, late, failed int // attempts at the primary, and at the backup when it is over
	work := func(ctx context.Context) error {
		now, primary := at(), gabion.EndpointOf(ctx).Name == "primary"
		mu.Lock()
		switch {
		case primary && now < from:
			before++
		case primary && now > from+2*time.Second && now < to:
			probes++
		case !primary && now > from+2*time.Second && now < to:
			switched++
		case primary && now > to+5*time.Second:
			back++
		case now > to+5*time.Second:
			late++
		}
		mu.Unlock()
		if primary && now >= from && now < to {
			return down(ctx)
		}
		time.Sleep(time.Duration(5+rand.IntN(20)) * time.Millisecond)
		return nil
	}
	var all sync.WaitGroup
	calls := 0
	for at() < end {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(10*time.Millisecond)))
		calls++
		all.Go(func() {
			if err := d.Run(t.Context(), work); err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
				if !errors.Is(err, errDown) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d calls, %d failed; down: %d at the backup, %d at the primary from 2 s on; back: %d at the primary, %d at the backup from 5 s on; its breaker opened %d times",
		calls, failed, switched, probes, back, late, opened)
	share := float64(late) / float64(back+late)
	if failed > calls/1000 || probes > 300 || switched < 55_000 || share > 0.02 || share < 0.003 || opened != 1 {
		t.Errorf("%d failed, %.2f %% stay at the backup", failed, 100*share)
	}
	gabiontest.NothingHeld(t, d)
}

// An endpoint that hangs costs the callers that find out about it little, since others can do their work.
func TestAProbeIsBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ways(policy.EndpointsOrdered, "primary", "backup")
		p.Safe = true
		d := gabion.New("payments", p)
		work := func(ctx context.Context) error {
			if gabion.EndpointOf(ctx).Name == "primary" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		probed, longest := int64(0), time.Duration(0)
		for i := range 1000 {
			began := time.Now()
			if err := d.Run(t.Context(), work); err != nil && i > 20 {
				t.Error(err)
			}
			if st := d.Stats().Endpoints[0]; i == 20 {
				probed = st.Attempts
			} else if i > 20 {
				longest = max(longest, time.Since(began))
			}
			time.Sleep(40 * time.Millisecond)
		}
		probed = d.Stats().Endpoints[0].Attempts - probed
		if longest > 70*time.Millisecond || probed < 10 || probed > 60 {
			t.Errorf("%d probes, and the longest call took %v", probed, longest)
		}
	})
}

// Where all calls have keys, none can be moved to another endpoint. The primary is asked all the same, a little later.
func TestAPrimaryOfKeyedCallsComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("payments", ways(policy.EndpointsOrdered, "primary", "backup"))
		began, down := time.Now(), 30*time.Second
		var s seen
		work := func(ctx context.Context) error {
			gabion.Key(ctx)
			if s.add(ctx) == "primary" && time.Since(began) < down {
				return classify.Transient(errDown)
			}
			return nil
		}
		failed := 0
		for time.Since(began) < down+10*time.Second {
			if d.Run(t.Context(), work, gabion.WithKey("k")) != nil {
				failed++
			}
			time.Sleep(20 * time.Millisecond)
		}
		s.names = nil
		for range 100 {
			if err := d.Run(t.Context(), work, gabion.WithKey("k")); err != nil {
				t.Error(err)
			}
		}
		if n := s.count(); n["primary"] != 100 || failed > 15 {
			t.Errorf("10 s after its end: %v, %d calls failed", n, failed)
		}
	})
}
