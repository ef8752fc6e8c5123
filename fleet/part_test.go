package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	internal "github.com/gabion-go/gabion/internal/fleet"
)

// tampered is a store that does something to a batch first, or fails.
type tampered struct {
	fleet.Store
	with         func(b *fleet.Batch) error
	turns, pools atomic.Int64 // that were put
}

func (s *tampered) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	if err := s.with(&b); err != nil {
		return fleet.Result{}, err
	}
	r, err := s.Store.Do(ctx, b)
	if b.Swap != nil && r.Swapped {
		if b.Swap.Key == internal.TurnKey("gabion") {
			s.turns.Add(1)
		} else {
			s.pools.Add(1)
		}
	}
	return r, err
}

// isPart reports whether a put is of a part of a pool.
func isPart(put fleet.Put) bool { return strings.Contains(put.Key, "/part/") }

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
	few := testing.Short() // seventy processes take the race detector some seconds
	after := func(d time.Duration, do func(b *fleet.Batch)) func(*fleet.Batch) error {
		from := time.Now().Add(d)
		return func(b *fleet.Batch) error {
			if !time.Now().Before(from) {
				do(b)
			}
			return nil
		}
	}
	lose := func(b *fleet.Batch) { b.Puts = slices.DeleteFunc(slices.Clone(b.Puts), isPart) }
	for _, c := range []struct {
		fact  string
		with  func() func(*fleet.Batch) error
		stuck bool  // another process has the turn always, and never divides
		turns int64 // at most for each pool
	}{
		{"all is well", func() func(*fleet.Batch) error { return after(0, func(*fleet.Batch) {}) }, false, 1},
		{"parts are never put", func() func(*fleet.Batch) error { return after(0, lose) }, false, 6},
		{"parts are not put any more", func() func(*fleet.Batch) error { return after(15*time.Second, lose) }, false, 6},
		{"parts are not put any more, and last", func() func(*fleet.Batch) error {
			return after(0, func(b *fleet.Batch) {
				if time.Since(time.Date(2000, 1, 1, 0, 0, 15, 0, time.UTC)) > 0 {
					lose(b)
				}
				for i := range b.Puts {
					b.Puts[i].Lasts *= 10
				}
			})
		}, false, 6},
		{"parts can't be read", func() func(*fleet.Batch) error {
			return after(15*time.Second, func(b *fleet.Batch) {
				for i := range b.Puts {
					if isPart(b.Puts[i]) {
						b.Puts[i].Value = []byte("x")
					}
				}
			})
		}, false, 6},
		{"parts can't be put", func() func(*fleet.Batch) error {
			return func(b *fleet.Batch) error {
				if slices.ContainsFunc(b.Puts, isPart) {
					return errors.New("no right to put parts")
				}
				return nil
			}
		}, false, 6},
		{"turns can't be put", func() func(*fleet.Batch) error {
			return func(b *fleet.Batch) error {
				if b.Swap != nil && b.Swap.Key == internal.TurnKey("gabion") {
					return errors.New("no right to take turns")
				}
				return nil
			}
		}, false, 6},
		{"it is always the turn of a process that is stopped", func() func(*fleet.Batch) error { return after(0, func(*fleet.Batch) {}) }, true, 6},
	} {
		if few && c.turns == 6 && c.fact != "parts can't be put" {
			continue
		}
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := fleettest.NewMemory()
				store := &tampered{Store: memory, with: c.with()}
				pods := make([]*pod, members)
				for i := range pods {
					pods[i] = join(t, store, shared())
				}
				time.Sleep(10 * time.Second)
				turns, pools := store.turns.Load(), store.pools.Load()
				for range 20 {
					for range 5 {
						time.Sleep(200 * time.Millisecond)
						if c.stuck {
							takeTurn(t, memory)
						}
					}
					sum := 0.0
					for i, p := range pods {
						st := p.Status()
						if st.Lost || st.Failed > 0 || len(st.Shares) != 1 || st.Shares[0].Amount <= 0 || !st.Until.After(time.Now()) {
							t.Fatalf("process %d has %+v", i, st)
						}
						sum += st.Shares[0].Amount
					}
					if sum > 1000 || sum < 700 {
						t.Fatalf("all have %v of 1000", sum)
					}
				}
				turns, pools = store.turns.Load()-turns, store.pools.Load()-pools
				if most := c.turns * pools; turns > most || pools < 3 || pools > 100 {
					t.Errorf("%d turns were taken for %d pools, want at most %d", turns, pools, most)
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

// watched is the store of one process, which looks at what that has in force when it divides.
type watched struct {
	fleet.Store
	of      atomic.Pointer[pod]
	divided time.Time    // until when it had shares when it divided
	puts    atomic.Int64 // of parts
	late    atomic.Int64 // of these, before its own shares were in force
}

func (w *watched) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	if p := w.of.Load(); p != nil {
		switch until := p.Status().Until; {
		case b.Swap != nil && b.Swap.Key == internal.PoolKey("gabion"):
			w.divided = until
		case slices.ContainsFunc(b.Puts, isPart):
			w.puts.Add(1)
			if !until.After(w.divided) {
				w.late.Add(1)
			}
		}
	}
	return w.Store.Do(ctx, b)
}

// parts returns in how many parts the pool is, and how many the store has.
func parts(t *testing.T, s fleet.Store) (is, there int) {
	t.Helper()
	r, err := s.Do(t.Context(), fleet.Batch{Get: []string{internal.PoolKey("gabion")}, List: "gabion/part/"})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := internal.ParsePool(r.Items[internal.PoolKey("gabion")].Value)
	if err != nil {
		t.Fatal(err)
	}
	return pool.Parts, len(r.Items) - 1
}

// Who divides has its own shares before it puts the parts for others, and parts of a number that is no longer go after a lease.
func TestPartsComeAfterOwnSharesAndGoWithTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := fleettest.NewMemory()
		pods, stores := make([]*pod, 70), make([]*watched, 70)
		for i := range pods {
			stores[i] = &watched{Store: memory}
			pods[i] = join(t, stores[i], shared())
			stores[i].of.Store(pods[i])
		}
		time.Sleep(10 * time.Second)
		var puts, late int64
		for _, s := range stores {
			puts, late = puts+s.puts.Load(), late+s.late.Load()
		}
		if puts == 0 || late > 0 {
			t.Errorf("parts were put %d times, %d times before own shares", puts, late)
		}
		if is, there := parts(t, memory); is != 4 || there != 4 {
			t.Errorf("%d parts are there of %d, want 4", there, is)
		}
		for _, p := range pods[20:] {
			p.Close()
		}
		for range 100 {
			if is, _ := parts(t, memory); is == 0 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(11 * time.Second)
		if is, there := parts(t, memory); is != 0 || there != 0 {
			t.Errorf("%d parts are there of %d, want none", there, is)
		}
	})
}
