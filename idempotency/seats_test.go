package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A pooled store has a fixed number of connections, which the work uses too.
type pooled struct {
	Store
	free chan struct{}
}

func newPooled(n int) *pooled {
	return &pooled{Store: NewMemoryStore(0, 0), free: make(chan struct{}, n)}
}

func (s *pooled) acquire(ctx context.Context) error {
	select {
	case s.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *pooled) release() { <-s.free }

func (s *pooled) Begin(ctx context.Context, c Claim) (Answer, error) {
	if err := s.acquire(ctx); err != nil {
		return Answer{}, err
	}
	defer s.release()
	return s.Store.Begin(ctx, c)
}

func (s *pooled) Apply(ctx context.Context, ref Ref, c Change) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	return s.Store.Apply(ctx, ref, c)
}

func (s *pooled) Caps() Caps { return Caps{Durable: true, Connections: cap(s.free)} }

// Eight handlers hold a connection each for longer than a lease, out of a pool of four
// that the store has too. With what they take said, some wait and are told to come back,
// and no outcome is unknown.
func TestHandlersThatShareTheStoresPool(t *testing.T) {
	for _, c := range []struct {
		perRun  int
		unknown bool
	}{{0, true}, {1, false}} {
		synctest.Test(t, func(t *testing.T) {
			store := newPooled(4)
			var live, most atomic.Int64
			r := rigOn(t, store, Config{RunnerConfig: RunnerConfig{Lease: 3 * time.Second, ConnectionsPerRun: c.perRun}}, func(w http.ResponseWriter, req *http.Request) {
				if err := store.acquire(req.Context()); err != nil {
					w.WriteHeader(500)
					return
				}
				defer store.release()
				most.Store(max(most.Load(), live.Add(1)))
				defer live.Add(-1)
				select {
				case <-time.After(20 * time.Second):
				case <-req.Context().Done():
					w.WriteHeader(500)
				}
			})
			var all sync.WaitGroup
			var codes sync.Map
			for n := range 8 {
				all.Go(func() {
					for range 20 { // as a client does
						w := r.send(post(fmt.Sprint("k", n), "x"))
						if codes.Store(n, w.Code); w.Code != 503 && w.Code != 409 {
							return
						}
						pass(5 * time.Second)
					}
				})
			}
			all.Wait()
			unknown := r.seen.count(eventUnknown) > 0
			codes.Range(func(n, code any) bool {
				if code != 200 && !c.unknown {
					t.Errorf("request %v ended with %v", n, code)
				}
				return true
			})
			if unknown != c.unknown {
				t.Errorf("%d per run: outcomes unknown %v, want %v", c.perRun, unknown, c.unknown)
			}
			if c.perRun > 0 {
				r.wantRuns(8)
				if most.Load() != 3 || len(r.h.seats) != 0 {
					t.Errorf("%d at once, %d seats are taken in the end", most.Load(), len(r.h.seats))
				}
			}
		})
	}
}

// A bad setup is refused at the start, or warned about, with the numbers.
func TestPoolsAtTheStart(t *testing.T) {
	for _, c := range []struct {
		name                string
		connections, perRun int
		own                 bool
		guarantee           Guarantee
		failOpen            bool
		wrong, warned       string // parts of what is said
	}{
		{"nothing is said of a small pool", 4, 0, false, GuaranteeHold, false, "", "4 connections"},
		{"nothing is said of a small pool, reexecute", 4, 0, false, GuaranteeReexecute, false, "", "4 connections"},
		{"a transaction needs no heartbeats", 4, 0, false, GuaranteeTx, false, "", ""},
		{"a pool without a bound", 0, 0, false, GuaranteeHold, false, "", ""},
		{"a pool of its own", 4, 0, true, GuaranteeHold, false, "", ""},
		{"shared, and large enough", 4, 3, false, GuaranteeHold, false, "", ""},
		{"shared, and too small for one", 4, 4, false, GuaranteeHold, false, "has 4 connections", ""},
		{"shared, and without a bound", 0, 4, false, GuaranteeHold, false, "", ""},
		{"shared under tx", 4, 1, false, GuaranteeTx, false, "transaction", ""},
		{"shared, and open to all when it fails", 4, 1, false, GuaranteeHold, true, "fail open", ""},
		{"a pool of its own, of which a run takes", 4, 1, true, GuaranteeHold, false, "store's own", ""},
		{"negative", 4, -2, false, GuaranteeHold, false, "negative", ""},
	} {
		var heard observed
		store := newPooled(c.connections)
		_, err := New(Global, &txShelf{Store: store}, answer(200, "done"), Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee, ConnectionsPerRun: c.perRun, OwnPool: c.own, Observer: &heard}, FailOpen: c.failOpen})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", c.name, err)
		}
		if said := fmt.Sprint(heard.all); len(heard.all) > 0 != (c.warned != "") || !strings.Contains(said, c.warned) {
			t.Errorf("%s: said %s", c.name, said)
		}
	}
}

// Every seat is left again, whatever becomes of the claim.
func TestSeatsAreLeft(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		synctest.Test(t, func(t *testing.T) {
			var r *rig
			store := &faulty{Store: newPooled(2)}
			found := Change{}
			r = rigOn(t, store, Config{RunnerConfig: RunnerConfig{Guarantee: g, ConnectionsPerRun: 1, Recover: func(context.Context, Record) (Change, error) { return found, nil }}}, answer(200, "done"))
			ok := r.work
			r.send(post("replayed", "x"))
			r.send(post("replayed", "x"))
			r.send(post("replayed", "another"))
			r.work = func(http.ResponseWriter, *http.Request) { panic("lost") }
			r.attempt(post("lost", "x"))
			r.work = ok
			r.send(post("lost", "x"))
			store.fail(&store.begin, errDown)
			r.send(post("down", "x"))
			store.fail(&store.begin, nil)
			pass(time.Minute)
			store.fail(&store.apply, errDown)
			r.send(post("unstored", "x"))
			store.fail(&store.apply, nil)
			pass(time.Minute)
			if n := len(r.h.seats); n != 0 {
				t.Errorf("%v: %d seats are taken", g, n)
			}
			if w := r.send(post("last", "x")); w.Code != 200 {
				t.Errorf("%v: %d", g, w.Code)
			}
		})
	}
}
