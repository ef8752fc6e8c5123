package idempotency

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A swept store is only swept: find says what a sweep of it comes to.
type swept struct {
	Store
	at     []time.Time
	limits []int
	find   func(ctx context.Context, n int) (int, error) // n counts from 1
}

func (s *swept) Sweep(ctx context.Context, limit int) (int, error) {
	s.at, s.limits = append(s.at, time.Now()), append(s.limits, limit)
	return s.find(ctx, len(s.at))
}

func finds(n int, err error) func(context.Context, int) (int, error) {
	return func(context.Context, int) (int, error) { return n, err }
}

// sweepFor runs Sweep for so long and fails if it does not end with its context.
func sweepFor(t *testing.T, d time.Duration, store Store, c SweepConfig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	start := time.Now()
	Sweep(ctx, store, c)
	if took := time.Since(start); took != d {
		t.Errorf("Sweep returned after %v, its context ended after %v", took, d)
	}
}

func TestSweepDeletesTheExpiredAndMarksTheLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemoryStore(0, 0)
		old, lost := IDOf("s", "old"), IDOf("s", "lost")
		for _, id := range []ID{old, lost} {
			a, err := store.Begin(t.Context(), Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour})
			if err == nil && id == old {
				err = store.Apply(t.Context(), Ref{id, a.Record.Token}, Change{State: StateDone})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var seen observed
		sweepFor(t, 5*time.Minute, store, SweepConfig{Observer: &seen})
		if r, _ := store.Get(t.Context(), lost); r.State != StateUnknown {
			t.Errorf("the lost run is %v", r.State)
		}
		if r, _ := store.Get(t.Context(), old); r.State != StateDone {
			t.Errorf("the finished run is %v before its retention is over", r.State)
		}
		sweepFor(t, 25*time.Hour, store, SweepConfig{Observer: &seen})
		if store.live.Load() != 0 {
			t.Errorf("%d records are left", store.live.Load())
		}
		records := 0
		for _, n := range seen.all {
			records += n.Records
		}
		if records != 3 || seen.count(eventSweepFailed) != 0 {
			t.Errorf("told of %d changes, want 3: one marked, two deleted", records)
		}
	})
}

func TestSweepKeepsItsPace(t *testing.T) {
	for _, c := range []struct {
		name   string
		config SweepConfig
		every  time.Duration
		batch  int
	}{
		{"zero means a minute and 256", SweepConfig{}, time.Minute, 256},
		{"so do negative values", SweepConfig{Every: -1, Batch: -1}, time.Minute, 256},
		{"as configured", SweepConfig{Every: time.Hour, Batch: 7}, time.Hour, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			firsts := map[time.Duration]bool{}
			for range 3 {
				synctest.Test(t, func(t *testing.T) {
					store := &swept{find: finds(1, nil)}
					start := time.Now()
					sweepFor(t, 100*c.every, store, c.config)
					first := store.at[0].Sub(start)
					if firsts[first] = true; first >= c.every {
						t.Errorf("the first round comes after %v", first)
					}
					gaps := map[time.Duration]bool{}
					for i := 1; i < len(store.at); i++ {
						gap := store.at[i].Sub(store.at[i-1])
						if gaps[gap] = true; gap < c.every*9/10 || gap > c.every*11/10 {
							t.Errorf("round %d comes %v after the one before", i+1, gap)
						}
					}
					if len(gaps) < 50 || len(gaps) > 120 || store.limits[0] != c.batch {
						t.Errorf("%d different pauses, batches of %d", len(gaps), store.limits[0])
					}
				})
			}
			if len(firsts) != 3 {
				t.Errorf("first rounds %v: processes that start together sweep together", firsts)
			}
		})
	}
}

func TestSweepGoesOnWhileMuchIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := &swept{}, observed{}
		store.find = func(_ context.Context, n int) (int, error) {
			pass(10 * time.Millisecond)
			return min(100, max(0, 1000-100*(n-1))), nil // a backlog of ten batches
		}
		sweepFor(t, 90*time.Second, store, SweepConfig{Batch: 100, Observer: &seen})
		for i := range 10 {
			if gap := store.at[i+1].Sub(store.at[i]); gap != 20*time.Millisecond {
				t.Errorf("step %d began %v after the last: half of the time is the claims'", i+2, gap)
			}
		}
		if got := seen.all[0]; got.Kind != eventSwept || got.Records != 1000 || got.Took != 210*time.Millisecond || got.Err != nil {
			t.Errorf("told %+v", got)
		}
	})
}

func TestSweepBacksOffWhileTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := &swept{}, observed{}
		store.find = func(_ context.Context, n int) (int, error) {
			if n <= 7 {
				return 3, errDown
			}
			return 0, nil
		}
		sweepFor(t, 100*time.Minute, store, SweepConfig{Observer: &seen})
		for i, want := range []int{2, 4, 8, 16, 16, 16, 16, 1, 1} {
			gap := store.at[i+1].Sub(store.at[i]).Seconds() / 60
			if gap < 0.9*float64(want) || gap > 1.1*float64(want) {
				t.Errorf("%.2f min after round %d, want about %d", gap, i+1, want)
			}
		}
		if got := seen.all[0]; got.Kind != eventSweepFailed || got.Records != 3 || !errors.Is(got.Err, errDown) {
			t.Errorf("told %+v", got)
		}
		if n := seen.count(eventSweepFailed); n != 7 {
			t.Errorf("%d failures told, want 7", n)
		}
	})
}

func TestSweepOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seen := &swept{}, observed{}
		store.find = func(ctx context.Context, n int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		sweepFor(t, 150*time.Second, store, SweepConfig{Every: time.Second, Observer: &seen})
		if len(store.at) < 2 || seen.count(eventSweepFailed) != len(store.at)-1 {
			t.Errorf("%d steps, %d of them told as failures: the last was ended with its context", len(store.at), seen.count(eventSweepFailed))
		}
	})
}

func TestSweepEndsBeforeItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &swept{find: finds(0, nil)}
		for range 100 {
			sweepFor(t, 0, store, SweepConfig{Every: 1})
		}
		if len(store.at) != 0 {
			t.Errorf("%d sweeps after the context's end", len(store.at))
		}
	})
}

type broken struct{ seen observed }

func (b *broken) Observe(ctx context.Context, n Event) {
	b.seen.Observe(ctx, n)
	panic("observer")
}

func TestSweepSurvivesItsObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b broken
		sweepFor(t, 10*time.Minute, &swept{find: finds(0, nil)}, SweepConfig{Observer: &b})
		if b.seen.count(eventSwept) < 9 {
			t.Errorf("%d rounds", b.seen.count(eventSwept))
		}
	})
}

// An event that is about no key says nothing of one.
func TestNoKeyIsNotLogged(t *testing.T) {
	var text bytes.Buffer
	log := LogTo(newLog(&text))
	log.Observe(t.Context(), Event{Kind: eventStoreUnsafe, Err: errDown})
	if s := text.String(); strings.Contains(s, "key_hash") || !strings.Contains(s, "guarantee=") {
		t.Errorf("log: %s", s)
	}
	text.Reset()
	log.Observe(t.Context(), Event{Kind: eventStoreUnsafe, ID: IDOf("t", "k"), Err: errDown})
	if s := text.String(); !strings.Contains(s, "key_hash="+IDOf("t", "k").String()) {
		t.Errorf("log: %s", s)
	}
}

func TestSweepsInTheLog(t *testing.T) {
	var text bytes.Buffer
	log := LogTo(newLog(&text))
	log.Observe(t.Context(), Event{Kind: eventSwept, Records: 12, Took: time.Second})
	log.Observe(t.Context(), Event{Kind: eventSweepFailed, Err: errDown})
	lines := strings.Split(text.String(), "\n")
	if !strings.Contains(lines[0], "records=12") || !strings.Contains(lines[0], "DEBUG") || strings.Contains(text.String(), "guarantee") {
		t.Errorf("log:\n%s", &text)
	}
	if !strings.Contains(lines[1], "WARN") || !strings.Contains(lines[1], errDown.Error()) {
		t.Errorf("log:\n%s", &text)
	}
}
