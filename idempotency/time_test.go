package idempotency

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func pass(d time.Duration) { <-time.After(d) }

// works takes some time.
func works(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		pass(d)
		io.WriteString(w, "done")
	}
}

func TestDuplicatesInFlight(t *testing.T) { // 3, 7
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, works(10*time.Second))
		var all sync.WaitGroup
		all.Go(func() { r.send(post("k", "x")) })
		pass(time.Second)
		for range 63 {
			all.Go(func() {
				w := r.send(post("k", "x"))
				r.wantProblem(w, 409, problemInProgress)
				if got := w.Header().Get("Retry-After"); got != "5" {
					t.Errorf("Retry-After %q", got)
				}
			})
		}
		r.wantProblem(r.send(post("k", "y")), 422, problemMismatch) // 7: at once
		all.Wait()
		r.wantRuns(1)
	})
}

func TestWaiters(t *testing.T) { // 3, 4, 5
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Wait: 5 * time.Second}}, works(2*time.Second))
		start := time.Now()
		var first *httptest.ResponseRecorder
		var all sync.WaitGroup
		all.Go(func() { first = r.send(post("k", "x")) })
		synctest.Wait()
		got := make([]*httptest.ResponseRecorder, 65)
		for i := range got {
			all.Go(func() { got[i] = r.send(post("k", "x")) })
		}
		all.Wait()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the run woke the waiters after %v", took)
		}
		conflicts := 0
		for _, w := range got {
			if w.Code == 409 {
				conflicts++
				continue
			}
			r.wantReplay(first, w)
		}
		if conflicts != 1 || r.seen.count(eventWaitersFull) != 1 {
			t.Errorf("%d of 65 did not wait, want 1", conflicts)
		}
		r.wantRuns(1)
		if r.h.waiting.count != 0 || len(r.h.waiting.rooms) != 0 {
			t.Errorf("still waiting: %d", r.h.waiting.count)
		}
	})
	synctest.Test(t, func(t *testing.T) { // 4
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Wait: 5 * time.Second}}, works(20*time.Second))
		go r.send(post("k", "x"))
		synctest.Wait()
		start := time.Now()
		r.wantProblem(r.send(post("k", "x")), 409, problemInProgress)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("waited %v", took)
		}
		start = time.Now() // 5
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r.send(post("k", "x").WithContext(ctx))
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Errorf("waited %v for a client that had gone", took)
		}
		pass(time.Minute)
	})
}

func TestClientGoes(t *testing.T) { // 34
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, func(w http.ResponseWriter, req *http.Request) {
			pass(time.Second)
			if err := req.Context().Err(); err != nil {
				t.Errorf("the run's context ended with its client: %v", err)
			}
			io.WriteString(w, "done")
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		first := r.send(post("k", "x").WithContext(ctx))
		r.wantReplay(first, r.send(post("k", "x")))
		r.wantRuns(1)
	})
}

func TestHeartbeats(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		synctest.Test(t, func(t *testing.T) { // 35
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: g, Lease: 3 * time.Second}}, works(30*time.Second))
			go r.send(post("k", "x"))
			for range 29 {
				pass(time.Second)
				r.wantProblem(r.send(post("k", "x")), 409, problemInProgress)
			}
			pass(2 * time.Second)
			if w := r.send(post("k", "x")); w.Code != 200 {
				t.Errorf("%v: %d", g, w.Code)
			}
			r.wantRuns(1)
		})
	}
}

// 36: the holder can't reach the store, so to others it is lost; it fences itself
// before that.
func TestHolderIsCutOff(t *testing.T) {
	for _, c := range []struct {
		guarantee Guarantee
		runs      int64
		status    int // of the holder, which finishes its work and says 200
		next      int
	}{{GuaranteeHold, 1, 409, 409}, {GuaranteeReexecute, 2, 200, 200}} {
		synctest.Test(t, func(t *testing.T) {
			var cause error
			var noticed, lease time.Duration = 0, 30 * time.Second
			r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: c.guarantee}}, nil)
			start := time.Now()
			r.work = func(w http.ResponseWriter, req *http.Request) {
				if r.runs.Load() > 1 {
					return
				}
				<-req.Context().Done()
				noticed, cause = time.Since(start), context.Cause(req.Context())
				pass(30 * time.Second)
				r.store.fail(&r.store.apply, nil)
			}
			r.store.fail(&r.store.apply, errDown)
			var all sync.WaitGroup
			all.Go(func() {
				if got := r.send(post("k", "x")).Code; got != c.status {
					t.Errorf("%v: the holder's client got %d, want %d", c.guarantee, got, c.status)
				}
			})
			pass(lease + time.Second)
			synctest.Wait()
			if noticed < lease-3*time.Second || noticed > lease-time.Second || !errors.Is(cause, errFenced) {
				t.Errorf("cancelled after %v: %v", noticed, cause)
			}
			if got := r.send(post("k", "x")).Code; got != c.next {
				t.Errorf("%v: the next client got %d, want %d", c.guarantee, got, c.next)
			}
			all.Wait()
			r.wantRuns(c.runs)
			if r.seen.count(eventLeaseLost) == 0 || r.seen.count(eventExtendFailed) == 0 {
				t.Error("the lost lease was not told")
			}
		})
	}
}

// A handler that never returns keeps its key for the time it may and one lease.
func TestHandlerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute, MaxExecution: time.Minute}}, nil)
		r.work = func(w http.ResponseWriter, req *http.Request) {
			if r.runs.Load() > 1 {
				io.WriteString(w, "second")
				return
			}
			<-hang
			if !errors.Is(context.Cause(req.Context()), errOverran) {
				t.Errorf("cause %v", context.Cause(req.Context()))
			}
			io.WriteString(w, "first")
		}
		go r.send(post("k", "x"))
		pass(59 * time.Second)
		r.wantProblem(r.send(post("k", "x")), 409, problemInProgress)
		pass(32 * time.Second)
		second := r.send(post("k", "x"))
		close(hang)
		synctest.Wait()
		r.wantReplay(second, r.send(post("k", "x")))
		r.wantRuns(2)
	})
}

func TestStoreDownAtComplete(t *testing.T) { // 41
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, nil)
		r.work = func(w http.ResponseWriter, _ *http.Request) {
			r.store.fail(&r.store.apply, errDown)
			io.WriteString(w, "done")
		}
		first := r.send(post("k", "x"))
		if first.Body.String() != "done" || first.Header().Get(headerStatus) != "not-recorded" {
			t.Errorf("%d %q %v", first.Code, first.Body, first.Header())
		}
		r.wantProblem(r.send(post("k", "x")), 409, problemInProgress)
		pass(5 * time.Second)
		r.store.fail(&r.store.apply, nil)
		pass(20 * time.Second) // the result is brought later
		if w := r.send(post("k", "x")); w.Body.String() != "done" || w.Header().Get(headerReplayed) != "true" {
			t.Errorf("%d %q", w.Code, w.Body)
		}
		r.wantRuns(1)
	})
	synctest.Test(t, func(t *testing.T) { // and when the store stays down
		r := newRig(t, Config{}, nil)
		r.work = func(w http.ResponseWriter, _ *http.Request) { r.store.fail(&r.store.apply, errDown) }
		r.send(post("k", "x"))
		pass(time.Minute)
		r.wantProblem(r.send(post("k", "x")), 409, problemUnknown)
		r.wantRuns(1)
	})
}

// A claim that was granted unheard is given back: nothing ran under it.
func TestLostClaimIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, answer(200, "done"))
		deaf := &deafStore{Store: r.store}
		r.h.store = deaf
		deaf.deaf.Store(&errDown)
		r.wantProblem(r.send(post("k", "x")), 503, problemStoreUnavailable)
		deaf.deaf.Store(nil)
		pass(20 * time.Second)
		if w := r.send(post("k", "x")); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		r.wantRuns(1)
	})
}

// A store that is down is asked a few times for each request, and not by all requests at the same moments.
func TestStoreThatIsDownIsAskedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, answer(200, "done"))
		deaf := &deafStore{Store: r.store}
		r.h.store = deaf
		deaf.deaf.Store(&errDown)
		const requests = 8
		apart := map[time.Duration]bool{}
		for range requests {
			start := time.Now()
			r.wantProblem(r.send(post("k", "x")), 503, problemStoreUnavailable)
			pass(time.Hour)
			deaf.mu.Lock()
			if n := len(deaf.asked); n != claimTries+laterTries {
				t.Errorf("the store was asked %d times for one request, want %d", n, claimTries+laterTries)
			}
			for _, at := range deaf.asked[1:] {
				apart[at.Sub(start)] = true
			}
			deaf.asked = nil
			deaf.mu.Unlock()
		}
		if most := requests * (claimTries + laterTries - 1); len(apart) < most/2 {
			t.Errorf("%d requests asked again at %d different times, want some %d", requests, len(apart), most)
		}
	})
}

func TestRecover(t *testing.T) {
	for _, c := range []struct {
		name    string
		finding Change
		err     error
		status  int
		body    string
		runs    int64
	}{
		{"it was done", Change{State: StateDone, Result: Result{Status: 201, Body: []byte("found")}}, nil, 201, "found", 1},
		{"it had no effect", Change{State: StateRetryable}, nil, 200, "done", 2},
		{"it can't be said", Change{}, nil, 409, "", 1},
		{"asking failed", Change{}, errDown, 409, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked Record
				r := newRig(t, Config{RunnerConfig: RunnerConfig{Recover: func(ctx context.Context, lost Record) (Change, error) {
					asked = lost
					if Token(ctx) != lost.Token || StepKey(ctx, "x") == "" {
						t.Error("Recover has no run")
					}
					pass(40 * time.Second) // longer than the lease
					return c.finding, c.err
				}}}, nil)
				r.work = func(w http.ResponseWriter, _ *http.Request) {
					if r.runs.Load() == 1 {
						panic("lost")
					}
					io.WriteString(w, "done")
				}
				func() {
					defer func() { _ = recover() }()
					r.send(post("k", "x"))
				}()
				w := r.send(post("k", "x"))
				if w.Code != c.status || c.body != "" && w.Body.String() != c.body {
					t.Errorf("%d %q", w.Code, w.Body)
				}
				if asked.Attempt != 1 {
					t.Errorf("asked about %+v", asked)
				}
				r.wantRuns(c.runs)
			})
		})
	}
}

// A slow store is not waited for longer than the timeout.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{}, answer(200, ""))
		r.h.store = slowStore{r.store}
		start := time.Now()
		r.wantProblem(r.send(post("k", "x")), 503, problemStoreUnavailable)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v", took)
		}
		r.wantRuns(0)
		pass(time.Hour)
	})
}

type slowStore struct{ Store }

func (slowStore) Begin(ctx context.Context, _ Claim) (Answer, error) {
	<-ctx.Done()
	return Answer{}, ctx.Err()
}
