package idempotency

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A full store whose records have expired is empty, in whatever shards they are.
func TestAFullStoreForgetsWhatExpiredInAllShards(t *testing.T) {
	for _, size := range []int{1, 3, 10, 100} {
		synctest.Test(t, func(t *testing.T) {
			s := newMemoryStore(size, 0)
			for round := range 50 {
				for n := range size {
					c := claimOf(1000*round+n, time.Second)
					a, err := s.Begin(t.Context(), c)
					if err != nil {
						t.Fatalf("%d records: %v in round %d, and all from before have expired", size, err, round)
					}
					if err := s.Apply(t.Context(), Ref{c.ID, a.Record.Token}, Change{State: StateDone}); err != nil {
						t.Fatal(err)
					}
				}
				pass(time.Second)
			}
		})
	}
}

// Bodies that have expired take no room from others.
func TestBodiesThatExpiredTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bodies = 20
		s := newMemoryStore(0, bodies*1000)
		for round := range 100 {
			for n := range bodies {
				c := claimOf(1000*round+n, time.Second)
				a, err := s.Begin(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Apply(t.Context(), Ref{c.ID, a.Record.Token}, Change{State: StateDone, Result: Result{Body: make([]byte, 1000)}}); err != nil {
					t.Fatalf("round %d, body %d: %v, and those of the rounds before have expired", round, n, err)
				}
			}
			pass(time.Second)
		}
	})
}

// Quiet half hours with what never expires make the store look seldom; bursts follow of what
// expires within a second.
func TestBurstsAfterAQuietTimeDoNotFillTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, burst = 5000, 1500
		s := newMemoryStore(size, 0)
		n := 0
		add := func(retention time.Duration) {
			c := claimOf(n, retention)
			c.Owner[4] = byte(n >> 16)
			n++
			a, err := s.Begin(t.Context(), c)
			if err != nil {
				t.Fatalf("record %d: %v", n, err)
			}
			if err := s.Apply(t.Context(), Ref{c.ID, a.Record.Token}, Change{State: StateDone}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3000 {
			add(1000 * time.Hour)
		}
		for range 10 {
			for range 30 { // quiet minutes
				add(time.Second)
				pass(time.Minute)
			}
			for range burst {
				add(time.Second)
			}
			pass(2 * time.Second)
		}
	})
}

// A full store looks for expired records again only once one can have expired.
func TestAFullStoreThatHasNothingExpiredIsNotSearchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore(1000, 0)
		for n := range 1000 {
			if _, err := s.Begin(t.Context(), claimOf(n, time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute) // runs under Hold are lost then, and keep their records
		if _, err := s.Begin(t.Context(), claimOf(1000, time.Hour)); err != ErrFull {
			t.Fatal(err)
		}
		for i := range s.shards {
			if wait := s.shards[i].due.Sub(s.now()); wait < 59*time.Minute {
				t.Errorf("shard %d is looked at again in %v", i, wait)
			}
		}
	})
}

// Many at once, with more records over time than there is room for at once.
func TestMemoryHasRoomForManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, clients = 40, 16
		s := newMemoryStore(size, clients*200)
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				for n := range 200 {
					c := claimOf(1000*client+n, time.Millisecond)
					a, err := s.Begin(t.Context(), c)
					if err == nil {
						err = s.Apply(t.Context(), Ref{c.ID, a.Record.Token}, Change{State: StateDone, Result: Result{Body: make([]byte, 100)}})
					}
					if err != nil {
						t.Errorf("client %d, record %d: %v", client, n, err)
						return
					}
					pass(time.Millisecond)
				}
			})
		}
		all.Wait()
	})
}
