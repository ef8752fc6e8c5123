package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// What a run answers after its context was cancelled may be the cancellation's doing, so
// an error of it is not kept, though the store would still take it. A success stands.
func TestWhatACancelledRunAnswers(t *testing.T) {
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		for _, status := range []int{200, 302, 400, 404, 422, 429, 500, 503} {
			t.Run(fmt.Sprint(g, " ", status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: g, MaxExecution: time.Second}}, func(w http.ResponseWriter, req *http.Request) {
						<-req.Context().Done()
						w.WriteHeader(status)
					})
					state, code, next, runs := StateDone, status, status, int64(1)
					switch {
					case status < 300:
					case g == GuaranteeHold:
						state, code, next = StateUnknown, 409, 409
					default: // the key is held until the lease is over
						state, next = StateRunning, 409
					}
					if w := r.send(post("k", "x")); w.Code != code {
						t.Errorf("answered %d, want %d", w.Code, code)
					}
					if got := r.record("k").State; got != state {
						t.Errorf("the record is %v, want %v", got, state)
					}
					if w := r.send(post("k", "x")); w.Code != next {
						t.Errorf("then %d, want %d", w.Code, next)
					}
					r.wantRuns(runs)
				})
			})
		}
		for how := EndingSucceeded; how <= EndingUnknown; how++ {
			t.Run(fmt.Sprint(g, " runner ", how), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, store := newRunner(t, RunnerConfig{Guarantee: g, MaxExecution: time.Second})
					_, err := r.Do(t.Context(), theWork, [32]byte{}, func(ctx context.Context) (Result, Ending) {
						<-ctx.Done()
						return Result{Status: 1}, how
					})
					state := StateDone
					switch {
					case how == EndingSucceeded:
					case g == GuaranteeHold:
						state = StateUnknown
					default:
						state = StateRunning
					}
					if got, _ := store.Get(t.Context(), theWork); got.State != state {
						t.Errorf("the record is %v, want %v (%v)", got.State, state, err)
					}
				})
			})
		}
	}
}

// Tokens grow also where nothing is left of the earlier record: by the store's clock.
func TestTokensGrowBeyondTheRecord(t *testing.T) {
	const life = 10 * time.Second
	var last int64
	for _, g := range []Guarantee{GuaranteeHold, GuaranteeReexecute} {
		synctest.Test(t, func(t *testing.T) {
			s := newMemoryStore(0, 0)
			c := Claim{ID: theWork, Owner: [16]byte{1}, Guarantee: g, Lease: time.Second, Retention: life}
			for round := range 3 {
				for range 5 { // runs of one record: each is larger than the one before
					c.Owner[1]++
					a, err := s.Begin(t.Context(), c)
					if err != nil || a.Decision != DecisionRun || a.Record.Token <= last {
						t.Fatalf("%v, round %d: %v with token %d after %d, %v", g, round, a.Decision, a.Record.Token, last, err)
					}
					last = a.Record.Token
					if err := s.Apply(t.Context(), Ref{theWork, last}, Change{State: StateRetryable}); err != nil {
						t.Fatal(err)
					}
				}
				pass(2 * life)
				if n, err := s.Sweep(t.Context(), 100); n != 1 || err != nil || s.live.Load() != 0 {
					t.Fatalf("swept %d, %v", n, err)
				}
			}
		})
		last = 0
	}
}

// A claim that is given back was no attempt: the work was not begun.
func TestClaimsThatAreGivenBackAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempt int
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Guarantee: GuaranteeReexecute}}, func(_ http.ResponseWriter, req *http.Request) { attempt = Attempt(req.Context()) })
		for range 5 {
			r.store.fail(&r.store.begin, errDown)
			r.send(post("k", "x"))
			r.store.fail(&r.store.begin, nil)
			pass(time.Minute)
		}
		if r.send(post("k", "x")); attempt != 1 {
			t.Errorf("attempt %d, want 1", attempt)
		}
	})
}
