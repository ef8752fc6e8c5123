package idempotency

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A witness is a store that keeps the contexts that it gets, and tells of the first beat of a
// lease, which takes it a while.
type witness struct {
	Store
	beats   atomic.Int64
	beating chan struct{} // closed at the first beat

	mu   sync.Mutex // guards seen
	seen []context.Context
}

func newWitness() *witness {
	return &witness{Store: newPooled(4), beating: make(chan struct{})}
}

func (s *witness) keep(ctx context.Context) {
	ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, ctx)
}

func (s *witness) Begin(ctx context.Context, c Claim) (Answer, error) {
	s.keep(ctx)
	return s.Store.Begin(ctx, c)
}

func (s *witness) Apply(ctx context.Context, ref Ref, c Change) error {
	s.keep(ctx)
	err := s.Store.Apply(ctx, ref, c)
	if c.State == StateRunning {
		if s.beats.Add(1) == 1 {
			close(s.beating)
		}
		pass(100 * time.Millisecond)
	}
	return err
}

// However a run ends, while its lease is being extended: its seat is free, its lease is extended
// no more, and all contexts have ended.
func TestWhatARunHasIsGivenBack(t *testing.T) {
	for fact, end := range map[string]func(){"it returns": func() {}, "it panics": func() { panic("a bug") }, "it leaves": runtime.Goexit} {
		for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
			for _, front := range []string{"Runner", "Handler"} {
				t.Run(front+"/"+g.String()+"/"+fact, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := newWitness()
						config := RunnerConfig{Guarantee: g, Lease: 3 * time.Second, ConnectionsPerRun: 1}
						var ran context.Context
						work := func(ctx context.Context) {
							ran = ctx
							ctx.Done()
							<-store.beating
							end()
						}
						var seats seats
						var call func()
						if front == "Runner" {
							r, err := NewRunner(store, config)
							if err != nil {
								t.Fatal(err)
							}
							seats = r.seats
							call = func() {
								_, _ = r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) { work(ctx); return Result{}, EndingSucceeded })
							}
						} else {
							r := rigOn(t, store, Config{RunnerConfig: config}, func(_ http.ResponseWriter, req *http.Request) { work(req.Context()) })
							seats = r.h.seats
							call = func() { r.send(post("k", "x")) }
						}
						over := make(chan struct{})
						go func() {
							defer close(over)
							defer func() { _ = recover() }()
							call()
						}()
						<-over
						if n := len(seats); n != 0 {
							t.Errorf("%d seats are taken", n)
						}
						if ran.Err() == nil {
							t.Error("the context of the run goes on")
						}
						pass(time.Minute)
						if n := store.beats.Load(); n != 1 {
							t.Errorf("its lease was extended %d times after its end", n-1)
						}
						for n, ctx := range store.seen {
							if err := ctx.Err(); !errors.Is(err, context.Canceled) {
								t.Errorf("context %d of the store ended with %v, not with its use", n, err)
							}
						}
					})
				})
			}
		}
	}
}

// An event stream is stored as done when it begins. From then on no lease can run out: the rest
// takes as long as it takes. If the store is down at that moment, the write is tried again
// later.
func TestAnAnswerThatIsStoredEarlyHasNoLease(t *testing.T) {
	for _, down := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var r *rig
			r = newRig(t, Config{RunnerConfig: RunnerConfig{Lease: 8 * time.Second}}, func(w http.ResponseWriter, req *http.Request) {
				if down {
					r.store.fail(&r.store.apply, errDown)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.(http.Flusher).Flush()
				r.store.fail(&r.store.apply, nil)
				pass(time.Minute)
				if err := req.Context().Err(); err != nil {
					t.Errorf("store down %v: the run was ended: %v", down, err)
				}
			})
			if w := r.send(post("k", "x")); w.Code != 200 || r.seen.count(eventLeaseLost) != 0 {
				t.Errorf("store down %v: %d, the lease was lost %d times", down, w.Code, r.seen.count(eventLeaseLost))
			}
			if s := r.record("k").State; s != StateDone {
				t.Errorf("store down %v: the record says %v", down, s)
			}
		})
	}
}

// A busyShelf answers at once that a key is in progress, as a database does that has its row locked.
type busyShelf struct {
	*txShelf
	busy  atomic.Bool
	ended func() // is called when a run has, before it is committed
}

func (s *busyShelf) Tx(ctx context.Context, c Claim, run Work) (Answer, error) {
	if s.busy.Load() {
		return Answer{Decision: DecisionInProgress}, nil
	}
	return s.txShelf.Tx(ctx, c, func(ctx context.Context, r Record) (Result, Ending, error) {
		s.busy.Store(true)
		defer s.busy.Store(false)
		defer s.ended()
		return run(ctx, r)
	})
}

// Who waits for a run under Tx hears of its end at once, and the context of the run has ended then.
func TestTheEndOfARunUnderTxWakesThoseWhoWait(t *testing.T) {
	for _, front := range []string{"Runner", "Handler"} {
		t.Run(front, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &busyShelf{txShelf: &txShelf{Store: NewMemoryStore(0, 0), records: map[ID]Record{}}}
				config := RunnerConfig{Guarantee: GuaranteeTx, Wait: time.Minute}
				runs, began := 0, time.Now()
				var ran context.Context
				work := func(ctx context.Context) {
					ran = ctx
					ctx.Done()
					runs++
					pass(5*time.Second + 77*time.Millisecond)
				}
				store.ended = func() {
					if ran.Err() == nil {
						t.Error("the context of the run goes on")
					}
				}
				var call func()
				if front == "Runner" {
					r, err := NewRunner(store, config)
					if err != nil {
						t.Fatal(err)
					}
					call = func() {
						_, _ = r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) { work(ctx); return Result{}, EndingSucceeded })
					}
				} else {
					r := rigOn(t, store, Config{RunnerConfig: config}, func(_ http.ResponseWriter, req *http.Request) { work(req.Context()) })
					call = func() { r.send(post("k", "x")) }
				}
				var all sync.WaitGroup
				all.Go(call)
				synctest.Wait()
				for range 8 {
					all.Go(call)
				}
				all.Wait()
				if took := time.Since(began); runs != 1 || took != 5*time.Second+77*time.Millisecond {
					t.Errorf("%d runs, and the last had its answer after %v", runs, took)
				}
			})
		})
	}
}
