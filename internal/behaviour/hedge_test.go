package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// A failure that is quick does not beat a success that is under way.
func TestQuickFailureDoesNotBeatPendingSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		got, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			if n == 2 {
				return n, errDown
			}
			return n, lasts(50*time.Millisecond, nil)(ctx)
		})
		if got != 1 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		nothingHeld(t, d)
	})
}

// A panic or Goexit on a hedge's goroutine happens to the caller.
func TestPanicInAHedgeIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		value := errors.New("with this very value")
		raised := panicOf(func() {
			gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				if gabion.AttemptNumber(ctx) == 2 {
					panic(value)
				}
				return 1, hangs(ctx)
			})
		})
		if raised != any(value) {
			t.Errorf("the caller got %v", raised)
		}
		nothingHeld(t, d)
	})
}

// What the caller gets and what Totals count are one thing: the winner's answer. How the
// attempt that lost leaves is no more the caller's than the result of a hedge that lost. Only
// Goexit of the first attempt, which is on the caller's goroutine, can't be held up: then the
// winner's result is discarded.
func TestAnAttemptThatLostAndLeavesLateIsLogged(t *testing.T) {
	for _, c := range []struct {
		fact  string
		loser int
		leave func()
		log   string
		gets  int // the caller; 0 = its goroutine ends
	}{
		{"the first attempt panics", 1, func() { panic("late") }, "panic=late", 2},
		{"the hedge panics", 2, func() { panic("late") }, "panic=late", 1},
		{"the hedge calls Goexit", 2, runtime.Goexit, "panic=runtime.Goexit", 1},
		{"the first attempt calls Goexit", 1, runtime.Goexit, "panic=runtime.Goexit", 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				discarded := 0
				d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}},
					gabion.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), gabion.WithDiscard(func(r any) { discarded = r.(int) }))
				var got int
				var err error
				inItsOwnGoroutine(func() {
					got, err = gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
						if n := gabion.AttemptNumber(ctx); n != c.loser {
							time.Sleep(20 * time.Millisecond)
							return n, nil
						}
						<-ctx.Done()
						time.Sleep(time.Second)
						c.leave()
						return 0, nil
					})
				})
				time.Sleep(time.Minute)
				synctest.Wait()
				if lost := 3 - c.loser - c.gets; got != c.gets || err != nil || discarded != lost {
					t.Errorf("got %d, %v, want %d; %d is discarded, want %d", got, err, c.gets, discarded, lost)
				}
				if n := d.Stats().Totals; n.Calls != 1 || n.Succeeded != 1 || n.Attempts != 2 {
					t.Errorf("%+v", n)
				}
				if n := strings.Count(log.String(), c.log); n != 1 || strings.Count(log.String(), "\n") != 1 {
					t.Errorf("the log says %q", log.String())
				}
				nothingHeld(t, d)
				if v, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 7, nil }); v != 7 || err != nil {
					t.Errorf("the next call: %d, %v", v, err)
				}
			})
		})
	}
}

func TestGoexitInAHedgeIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}})
		returned := false
		inItsOwnGoroutine(func() {
			gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				if gabion.AttemptNumber(ctx) == 2 {
					runtime.Goexit()
				}
				return 1, hangs(ctx)
			})
			returned = true
		})
		if returned {
			t.Error("Do returned; the hedge's Goexit was to end the caller's goroutine")
		}
		nothingHeld(t, d)
	})
}

func TestColdPercentileHedgesOnlyWithADelay(t *testing.T) {
	for delay, want := range map[time.Duration]int{0: 20, 10 * time.Millisecond: 40} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Percentile: 0.95, Delay: delay}, Retry: policy.Retry{Budget: free}})
				for range 20 {
					gabion.Do(t.Context(), d, withResult(lasts(20*time.Millisecond, nil)))
				}
				synctest.Wait()
				rec.WantAttempts(t, want)
			})
		})
	}
}

// hedged is a policy of one try and up to most hedges that nothing else stops.
func hedged(most int, delay time.Duration) policy.Policy {
	p := policy.Policy{
		Safe: true, Hedge: policy.Hedge{Max: most, Delay: delay}, Pace: policy.Pace{Off: true},
		Retry: policy.Retry{Attempts: 1, Budget: free}, Breaker: policy.Breaker{Off: true},
	}
	if delay == 0 {
		p.Hedge.Percentile = policy.Off // all at once
	}
	return p
}

// The timer of a call is left set for the calls after it. Whatever it was set for, a
// hedge goes when it is due, and none goes because the timer rings.
func TestHedgesGoWhenTheyAreDueAfterOtherCalls(t *testing.T) {
	type call struct {
		at, takes, delay time.Duration // the delay is put in force before it
		hedged           time.Duration // after it began; 0 = not at all
	}
	ms := time.Millisecond
	cases := []struct {
		name  string
		calls []call
	}{
		{"the timer rings in the middle of the second", []call{{0, 100 * ms, 500 * ms, 0}, {300 * ms, 900 * ms, 500 * ms, 500 * ms}}},
		{"it rings in the middle of one that is quick", []call{{0, 100 * ms, 500 * ms, 0}, {300 * ms, 400 * ms, 500 * ms, 0}}},
		{"it rang between the two", []call{{0, 100 * ms, 500 * ms, 0}, {700 * ms, 900 * ms, 500 * ms, 500 * ms}}},
		{"it rings as the second is due", []call{{0, 100 * ms, 500 * ms, 0}, {200 * ms, 400 * ms, 300 * ms, 300 * ms}}},
		{"it would ring too late", []call{{0, 100 * ms, 500 * ms, 0}, {200 * ms, 900 * ms, 100 * ms, 100 * ms}}},
		{"it would ring too late, and the call is quick", []call{{0, 100 * ms, 500 * ms, 0}, {200 * ms, 90 * ms, 100 * ms, 0}, {450 * ms, 900 * ms, 500 * ms, 500 * ms}}},
		{"three times", []call{{0, 10 * ms, 50 * ms, 0}, {20 * ms, 40 * ms, 50 * ms, 0}, {65 * ms, 40 * ms, 50 * ms, 0}, {110 * ms, 60 * ms, 50 * ms, 50 * ms}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := gabion.New("db", hedged(1, time.Second))
				start := time.Now()
				for i, call := range c.calls {
					if err := d.Reload(hedged(1, call.delay)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(call.at - time.Since(start))
					var hedge atomic.Int64
					gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
						if gabion.AttemptNumber(ctx) > 1 {
							hedge.Store(int64(time.Since(start) - call.at))
						}
						time.Sleep(call.takes)
						return 1, nil
					})
					if got := time.Duration(hedge.Load()); got != call.hedged {
						t.Errorf("call %d: hedged after %v, want %v", i, got, call.hedged)
					}
				}
				time.Sleep(time.Minute)
				gabiontest.NothingHeld(t, d)
			})
		})
	}
}

func TestHedgesGoWhenTheyAreDue(t *testing.T) {
	ms := func(n ...int) (all []time.Duration) {
		for _, n := range n {
			all = append(all, time.Duration(n)*time.Millisecond)
		}
		return all
	}
	hang := gabiontest.Step{Takes: 3 * time.Second}
	quickly := gabiontest.Step{Takes: 100 * time.Millisecond, Err: errDown}
	stop := gabiontest.Step{Takes: 100 * time.Millisecond, Err: classify.DoNotRetry(errDown)}
	fatal := gabiontest.Step{Takes: 100 * time.Millisecond, Err: errPermanent}
	cases := []struct {
		name  string
		most  int
		delay time.Duration
		steps []gabiontest.Step
		sent  []time.Duration
	}{
		{"C104 one after the other", 3, 500 * time.Millisecond, []gabiontest.Step{hang}, ms(0, 500, 1000, 1500)},
		{"C105 a failure brings the next, and the delay starts anew", 2, 500 * time.Millisecond, []gabiontest.Step{quickly, hang}, ms(0, 100, 600)},
		{"C105 a hedge's failure brings the next", 3, 500 * time.Millisecond, []gabiontest.Step{hang, quickly, hang}, ms(0, 500, 600, 1100)},
		{"C105 a fatal failure ends it", 2, 500 * time.Millisecond, []gabiontest.Step{fatal, hang}, ms(0)},
		{"C107 no delay: all at once", 3, 0, []gabiontest.Step{hang}, ms(0, 0, 0, 0)},
		{"C107 no delay ever: only failures bring the next", 3, policy.Off, []gabiontest.Step{quickly, quickly, hang}, ms(0, 100, 200)},
		{"C108 pushback that says never", 2, 500 * time.Millisecond, []gabiontest.Step{stop, hang}, ms(0)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, _ := watched(hedged(c.most, c.delay))
				s := gabiontest.NewScript(c.steps...)
				start := time.Now()
				gabion.Do(t.Context(), d, s.Call)
				var sent []time.Duration
				for _, a := range s.Seen() {
					sent = append(sent, a.At.Sub(start))
				}
				if fmt.Sprint(sent) != fmt.Sprint(c.sent) {
					t.Errorf("sent at %v, want %v", sent, c.sent)
				}
				nothingHeld(t, d)
			})
		})
	}
}

// Pushback says when at the earliest, and every client adds its own draw.
func TestAHedgeComesNotBeforeThePushback(t *testing.T) {
	drawn := map[time.Duration]bool{}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(hedged(2, 500*time.Millisecond), gabion.WithSeed(seed))
			s := gabiontest.NewScript(
				gabiontest.Step{Takes: 100 * time.Millisecond, Err: classify.Throttled(errors.New("busy"), 200*time.Millisecond)},
				gabiontest.Step{Takes: 3 * time.Second})
			start := time.Now()
			gabion.Do(t.Context(), d, s.Call)
			seen := s.Seen()
			if len(seen) != 3 {
				t.Fatalf("%d attempts", len(seen))
			}
			first, second := seen[1].At.Sub(start), seen[2].At.Sub(start)
			if most := 300*time.Millisecond + d.Policy().Retry.Backoff.Base; first < 300*time.Millisecond || first > most || second-first != 500*time.Millisecond {
				t.Errorf("hedges went at %s and %s, want the first between 300ms and %s, and the second 500ms later", first, second, most)
			}
			drawn[first] = true
		})
	}
	if len(drawn) < 15 {
		t.Errorf("20 clients came back at %d moments", len(drawn))
	}
}

// When all fail, the error is that of the one which completed last.
func TestWhenAllHedgesFailTheLastOneSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(hedged(2, 10*time.Millisecond))
		takes := []time.Duration{0, 100, 200, 50}
		_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			n := gabion.AttemptNumber(ctx)
			time.Sleep(takes[n] * time.Millisecond)
			return 0, classify.Transient(fmt.Errorf("attempt %d", n))
		})
		if e := asError(t, err); e.Attempts != 3 || e.Err.Error() != "attempt 2" {
			t.Errorf("%v", err)
		}
	})
}

// The caller's cancel ends them all.
func TestTheCallersCancelEndsAllHedges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hedged(3, 10*time.Millisecond)
		p.Breaker = policy.Breaker{MinCalls: 1}
		d, _ := watched(p)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		var ended sync.WaitGroup
		_, err := gabion.Do(ctx, d, func(ctx context.Context) (int, error) {
			ended.Add(1)
			defer ended.Done()
			return 0, hangs(ctx)
		})
		ended.Wait()
		wantElapsed(t, start, 100*time.Millisecond)
		wantReason(t, err, policy.Canceled)
		synctest.Wait()
		if calls, failures := counts(d); calls != 0 || failures != 0 {
			t.Errorf("the breaker counted %d, %d", calls, failures)
		}
		nothingHeld(t, d)
	})
}

// A call is answered when it is decided, not at its deadline, on whichever goroutine that happens.
func TestACallIsAnsweredWhenItIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := watched(hedged(1, 10*time.Millisecond))
		start := time.Now()
		_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
			if gabion.AttemptNumber(ctx) == 2 {
				return 0, errPermanent
			}
			return 0, hangs(ctx)
		})
		wantElapsed(t, start, 10*time.Millisecond)
		wantReason(t, err, policy.NotRetryable)
		if !errors.Is(err, errPermanent) {
			t.Error(err)
		}
	})
}

// Do returns when deaf work does. A failure is the layer's timeout; a
// success that comes late is a success.
func TestDeafWorkIsWaitedFor(t *testing.T) {
	for _, hedges := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			d, _ := watched(policy.Policy{Timeout: policy.Timeout{Call: time.Second, Attempt: time.Second}, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}})
			start := time.Now()
			_, err := gabion.Do(t.Context(), d, gabiontest.NewScript(gabiontest.Step{Takes: 5 * time.Second, Deaf: true, Err: errUnsaid}).Call)
			wantElapsed(t, start, 5*time.Second)
			wantReason(t, err, policy.CallTimeout)
			if !errors.Is(err, errUnsaid) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			got, err := gabion.Do(t.Context(), d, gabiontest.NewScript(gabiontest.Step{Takes: 5 * time.Second, Deaf: true}).Call)
			if got != 1 || err != nil {
				t.Errorf("a late success: %d, %v", got, err)
			}
			nothingHeld(t, d)
		})
	}
}

// With the same seed the same jitter is drawn.
func TestTheSameSeedDrawsTheSameJitter(t *testing.T) {
	waits := func(seed uint64) (took []time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			d := gabion.New("db", policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Backoff: backoff.Full(100*time.Millisecond, time.Second)}}, gabion.WithSeed(seed))
			for range 5 {
				start := time.Now()
				d.Run(t.Context(), fails(errDown))
				took = append(took, time.Since(start))
			}
		})
		return took
	}
	one, again, other := fmt.Sprint(waits(1)), fmt.Sprint(waits(1)), fmt.Sprint(waits(2))
	if one != again || one == other {
		t.Errorf("seed 1: %s and %s, seed 2: %s", one, again, other)
	}
}

// The same through the front door, where losers come home when their context ends.
func TestAPercentileHedgesTheShareThatItSaysThroughTheFrontDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Safe: true, Hedge: policy.Hedge{Max: 1, Percentile: 0.9}}, gabion.WithSeed(1))
		rnd := rand.New(rand.NewPCG(1, 1))
		const calls = 6000
		var sent atomic.Int64
		var wg sync.WaitGroup
		for range calls {
			takes := [...]time.Duration{lognormal(rnd), lognormal(rnd)}
			wg.Go(func() {
				gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
					sent.Add(1)
					select {
					case <-time.After(takes[gabion.AttemptNumber(ctx)-1]):
						return 0, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
			})
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		if share := float64(sent.Load()-calls) / calls; math.Abs(share-0.1) > 0.01 {
			t.Errorf("%.1f %% are hedged", 100*share)
		}
	})
}

func lognormal(r *rand.Rand) time.Duration {
	return time.Duration(20e6 * math.Exp(0.7*r.NormFloat64()))
}
