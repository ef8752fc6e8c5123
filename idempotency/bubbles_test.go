package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A Handler or Runner that was made once, with its store, serves bubble after bubble
// and the world outside, one key here and another there: no lease ends because a
// heartbeat is of another bubble.
func TestARunIsKeptAliveInABubbleThatItsHandlerWasNotMadeIn(t *testing.T) {
	type theWork struct{}
	type asker func(ctx context.Context, key string, work func()) (ran, replayed bool)
	viaRunner := func(t *testing.T) asker {
		r, err := NewRunner(NewMemoryStore(0, 0), RunnerConfig{Wait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, key string, work func()) (ran, replayed bool) {
			a, err := r.Do(ctx, IDOf("bubbles", key), [32]byte{}, func(context.Context) (Result, Ending) {
				work()
				return Result{}, EndingSucceeded
			})
			return err == nil && a.Decision == DecisionRun, err == nil && a.Decision == DecisionReplay
		}
	}
	viaHandler := func(t *testing.T) asker {
		r := newRig(t, Config{RunnerConfig: RunnerConfig{Wait: time.Hour}}, func(_ http.ResponseWriter, req *http.Request) {
			req.Context().Value(theWork{}).(func())()
		})
		return func(ctx context.Context, key string, work func()) (ran, replayed bool) {
			w := r.send(post(key, "").WithContext(context.WithValue(ctx, theWork{}, work)))
			return w.Code == 200 && w.Header().Get(headerReplayed) == "", w.Code == 200 && w.Header().Get(headerReplayed) != ""
		}
	}
	for name, made := range map[string]func(*testing.T) asker{"runner": viaRunner, "handler": viaHandler} {
		t.Run(name, func(t *testing.T) {
			keys := 0
			quick := func(t *testing.T, ask asker) {
				t.Helper()
				keys++
				if ran, _ := ask(t.Context(), fmt.Sprint(keys), func() {}); !ran {
					t.Error("it did not run")
				}
			}
			waited := func(t *testing.T, ask asker) { // a run of three leases, for which another waits
				t.Helper()
				keys++
				key, running, runs := fmt.Sprint(keys), make(chan struct{}), 0
				work := func() { runs++; close(running); time.Sleep(90 * time.Second) }
				var all sync.WaitGroup
				all.Go(func() { ask(t.Context(), key, work) })
				<-running
				time.Sleep(80 * time.Second)
				if _, replayed := ask(t.Context(), key, work); !replayed || runs != 1 {
					t.Errorf("replayed: %v, after %d runs", replayed, runs)
				}
				all.Wait()
				quick(t, ask)
			}
			var bubbled asker
			synctest.Test(t, func(t *testing.T) { bubbled = made(t); waited(t, bubbled) })
			for where, ask := range map[string]asker{"made outside": made(t), "made in a bubble": bubbled} {
				t.Run(where, func(t *testing.T) {
					for range 3 {
						for range 10 { // a pool may keep some for itself
							quick(t, ask)
						}
						synctest.Test(t, func(t *testing.T) { waited(t, ask) })
						synctest.Test(t, func(t *testing.T) { waited(t, ask) })
					}
				})
			}
		})
	}
}
