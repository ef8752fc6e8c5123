package fleet_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	internal "github.com/gabion-go/gabion/internal/fleet"
)

// partless is a store that loses parts of pools from a moment on.
type partless struct {
	fleet.Store
	from time.Time
}

func (p *partless) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	if time.Now().After(p.from) {
		b.Puts = slices.DeleteFunc(slices.Clone(b.Puts), func(put fleet.Put) bool { return strings.Contains(put.Key, "/part/") })
	}
	return p.Store.Do(ctx, b)
}

// takeTurn says that a process divides the pool from now on.
func takeTurn(t *testing.T, s fleet.Store) {
	t.Helper()
	r, err := s.Do(t.Context(), fleet.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(t.Context(), fleet.Batch{Puts: []fleet.Put{{Key: internal.TurnKey("gabion"), Value: internal.NewTurn("stopped", r.Now)}}}); err != nil {
		t.Fatal(err)
	}
}

// What a large fleet puts beside its pool saves reading. Without it, and where another process does not divide when it is its turn, all have
// their shares nevertheless.
func TestALargeFleetDoesWithoutPartsAndTurns(t *testing.T) {
	const members = 70
	for _, c := range []struct {
		fact  string
		parts time.Duration // how long they are put
		stuck bool          // another process has the turn always, and never divides
	}{
		{"all is well", time.Hour, false},
		{"parts are never put", 0, false},
		{"parts are not put any more", 15 * time.Second, false},
		{"it is always the turn of a process that is stopped", time.Hour, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := fleettest.NewMemory()
				store := &partless{memory, time.Now().Add(c.parts)}
				pods := make([]*pod, members)
				for i := range pods {
					pods[i] = join(t, store, shared())
				}
				time.Sleep(10 * time.Second)
				for range 40 {
					for range 5 {
						time.Sleep(200 * time.Millisecond)
						if c.stuck {
							takeTurn(t, memory)
						}
					}
					sum := 0.0
					for i, p := range pods {
						st := p.Status()
						if st.Lost || len(st.Shares) != 1 || st.Shares[0].Amount <= 0 || !st.Until.After(time.Now()) {
							t.Fatalf("process %d has %+v", i, st)
						}
						sum += st.Shares[0].Amount
					}
					if sum > 1000 || sum < 700 {
						t.Fatalf("all have %v of 1000", sum)
					}
				}
				r, err := memory.Do(t.Context(), fleet.Batch{List: "gabion/part/"})
				if put := len(r.Items) > 0; err != nil || put != (c.parts > time.Minute) {
					t.Errorf("%d parts: %v", len(r.Items), err)
				}
			})
		})
	}
}

// slow is a store that is some way off.
type slow struct {
	fleet.Store
	away time.Duration
}

func (s *slow) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	time.Sleep(s.away)
	defer time.Sleep(s.away)
	return s.Store.Do(ctx, b)
}

// The first of them leaves something for the others, and soon renews.
func TestProcessesThatBeginTogetherSoonHaveAShareEach(t *testing.T) {
	for _, c := range []struct {
		fact  string
		size  int
		away  time.Duration // one way to the store
		apart time.Duration // between two that begin
	}{
		{"two, one after the other", 2, time.Millisecond, 300 * time.Millisecond},
		{"three, and a store that answers at once", 3, 0, 7 * time.Millisecond},
		{"three, and a store that is far off", 3, 20 * time.Millisecond, 7 * time.Millisecond},
		{"twenty", 20, 3 * time.Millisecond, 7 * time.Millisecond},
		{"twenty at the same time", 20, 3 * time.Millisecond, 0},
		{"more than share one pool", 80, 3 * time.Millisecond, 7 * time.Millisecond},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slow{fleettest.NewMemory(), c.away}
				pods, took := make([]*pod, c.size), make([]time.Duration, c.size)
				var all sync.WaitGroup
				for i := range pods {
					all.Go(func() {
						began := time.Now()
						pods[i] = join(t, store, shared())
						took[i] = time.Since(began)
					})
					time.Sleep(c.apart)
				}
				all.Wait()
				if longest := slices.Max(took); longest > 2500*time.Millisecond {
					t.Errorf("a process has nothing for %v", longest)
				}
				load(t.Context(), 2*time.Second, slices.Repeat([]int{20}, c.size), pods...)
				sum := 0.0
				for i, p := range pods {
					st := p.Status()
					if len(st.Shares) != 1 || st.Shares[0].Amount < 500/float64(c.size)/10 {
						t.Errorf("process %d has %+v", i, st.Shares)
					}
					sum += st.Shares[0].Amount
				}
				if sum > 1000 {
					t.Errorf("all have %v of 1000", sum)
				}
			})
		})
	}
}
