package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/policy"
)

// measuring is a policy whose attempts have a measured time.
func measuring() policy.Policy {
	return policy.Policy{
		Timeout: policy.Timeout{Call: 30 * time.Second, Attempt: 10 * time.Second, AttemptMin: 5 * time.Millisecond, Percentile: 0.95},
		Retry:   policy.Retry{Attempts: 3},
	}
}

// dead is a dependency that refuses connections, and counts how often it was called.
func dead(n *int) func(context.Context) error {
	return func(context.Context) error {
		*n++
		return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
}

// hangs is a dependency that answers in 20 ms, but for every nth call, which hangs.
func hangs(n *int, every int) func(context.Context) error {
	return func(ctx context.Context) error {
		took := 20 * time.Millisecond
		if *n++; *n%every == 0 {
			took = time.Hour
		}
		timer := time.NewTimer(took)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestAFunctionOfThreeCallsKnowsThatItsDependencyIsDead(t *testing.T) {
	for _, c := range []struct {
		fact      string
		witnesses int
		least     int
		most      int
	}{
		{"with none before it, it finds out by itself", 0, 4, 9},
		{"one witness may be poisoned", 1, 4, 9},
		{"what two found out is known to the third", 2, 2, 2},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				p := policy.Policy{Retry: policy.Retry{Attempts: 3}}
				sent := 0
				for range c.witnesses {
					before := join(t, store, p)
					for range 40 {
						_ = before.d.Run(t.Context(), dead(&sent))
						time.Sleep(20 * time.Millisecond)
					}
					before.Close()
				}
				time.Sleep(25 * time.Second)
				sent = 0
				mine := join(t, store, p)
				for range 3 {
					_ = mine.d.Run(t.Context(), dead(&sent))
				}
				if sent < c.least || sent > c.most {
					t.Errorf("%d attempts were sent in three calls, want %d to %d", sent, c.least, c.most)
				}
			})
		})
	}
}

func TestAFunctionOfThreeCallsKnowsHowLongAnAnswerTakes(t *testing.T) {
	for _, c := range []struct {
		fact      string
		witnesses int
		after     time.Duration
		slow      bool // it waits for the policy's ten seconds
	}{
		{"without others it waits as long as the policy says", 0, 0, true},
		{"one witness may be poisoned", 1, 0, true},
		{"what two measured is known to the third", 2, 0, false},
		{"also when both have gone, half a minute later", 2, 25 * time.Second, false},
		{"what was known an hour ago counts no more", 2, time.Hour, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				for range c.witnesses {
					n, before := 0, join(t, store, measuring())
					for range 300 {
						if err := before.d.Run(t.Context(), hangs(&n, 1000), gabion.WithIdempotent()); err != nil {
							t.Fatal(err)
						}
					}
					if c.after == 0 {
						time.Sleep(5 * time.Second)
					} else {
						before.Close()
					}
				}
				time.Sleep(c.after)
				mine, n, began := join(t, store, measuring()), 0, time.Now()
				for range 3 {
					if err := mine.d.Run(t.Context(), hangs(&n, 3), gabion.WithIdempotent()); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); (took > 5*time.Second) != c.slow {
					t.Errorf("three calls took %v", took)
				}
			})
		})
	}
}

// What others measured is dropped at the first attempt that shows that it is wrong.
func TestWhatOthersMeasuredIsForgottenWhereItIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		for range 2 {
			n, before := 0, join(t, store, measuring())
			for range 300 {
				_ = before.d.Run(t.Context(), hangs(&n, 1000), gabion.WithIdempotent())
			}
			time.Sleep(5 * time.Second)
		}
		mine, sent := join(t, store, measuring()), 0
		for range 3 { // its own way takes two seconds
			err := mine.d.Run(t.Context(), func(ctx context.Context) error {
				sent++
				timer := time.NewTimer(2 * time.Second)
				defer timer.Stop()
				select {
				case <-timer.C:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, gabion.WithIdempotent())
			if err != nil {
				t.Error(err)
			}
		}
		if sent != 4 {
			t.Errorf("%d attempts were sent for three calls, want one more", sent)
		}
	})
}

// lying changes what one process reports.
type lying struct {
	fleet.Store
	lie func(report map[string]any)
}

func (l lying) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	for i := range b.Puts {
		var report map[string]any
		d := json.NewDecoder(bytes.NewReader(b.Puts[i].Value))
		d.UseNumber() // a version has more digits than a float
		if d.Decode(&report) == nil && report["f"] != nil {
			l.lie(report)
			b.Puts[i].Value, _ = json.Marshal(report)
		}
	}
	return l.Store.Do(ctx, b)
}

// One process that lies in every field changes nothing for those that start, whether others know something or not.
func TestOneThatLiesInEveryFieldDoesNoHarm(t *testing.T) {
	for _, lie := range []map[string]any{
		{"l": 1, "h": 0, "e": 50, "p": map[string]any{"": map[string]any{"t": 1, "c": 1e12, "h": 1e12, "r": 1e-9, "b": true}}},
		{"l": 1e9, "h": 50, "e": 1, "p": map[string]any{"": map[string]any{"t": 1e15, "c": -5, "h": 1e18, "r": 1e300, "b": true}, "x": map[string]any{"b": true}}},
		{"l": -1, "h": -3, "e": -7, "at": 1e18, "p": map[string]any{"": map[string]any{"t": -1, "h": -1, "r": -1}}},
		{"l": "many", "p": 7},
	} {
		for honest := range 3 {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				p := measuring()
				p.Bulkhead = policy.Bulkhead{Limit: policy.Learned, Max: 1000}
				for range honest {
					n, other := 0, join(t, store, p)
					for range 300 {
						_ = other.d.Run(t.Context(), hangs(&n, 1000), gabion.WithIdempotent())
					}
				}
				join(t, lying{store, func(report map[string]any) {
					for name, f := range report["f"].(map[string]any) {
						if name != "" {
							f.(map[string]any)["k"] = lie
							f.(map[string]any)["o"] = []string{""}
						}
					}
				}}, p)
				time.Sleep(10 * time.Second)
				mine, usual := join(t, store, p), alone(t, p)
				n, began := 0, time.Now()
				for range 30 {
					if err := mine.d.Run(t.Context(), hangs(&n, 1000), gabion.WithIdempotent()); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); took > 700*time.Millisecond || n != 30 {
					t.Errorf("with %d others and the lie %v: thirty calls took %v and %d attempts", honest, lie, took, n)
				}
				if got := mine.d.Stats().Bulkhead.Limit; got != usual {
					t.Errorf("with %d others and the lie %v: the limit is %d, want %d", honest, lie, got, usual)
				}
			})
		}
	}
}

// alone is the limit that a process begins with.
func alone(t *testing.T, p policy.Policy) int {
	t.Helper()
	return gabion.New("alone", p).Stats().Bulkhead.Limit
}

// A next release may say more, and what is not understood is not taken over.
func TestWhatANextReleaseHasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		next := lying{store, func(report map[string]any) {
			for name, f := range report["f"].(map[string]any) {
				if k, has := f.(map[string]any)["k"].(map[string]any); name != "" && has {
					k["new"] = []int{1, 2}
					k["p"].(map[string]any)[""].(map[string]any)["new"] = "x"
				}
			}
		}}
		for range 2 {
			n, before := 0, join(t, next, measuring())
			for range 300 {
				_ = before.d.Run(t.Context(), hangs(&n, 1000), gabion.WithIdempotent())
			}
			time.Sleep(5 * time.Second)
		}
		mine, n, began := join(t, store, measuring()), 0, time.Now()
		for range 3 {
			if err := mine.d.Run(t.Context(), hangs(&n, 3), gabion.WithIdempotent()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 5*time.Second { // a wait before the retry included
			t.Errorf("three calls took %v", took)
		}
	})
}

// busy is an answer that asks for time.
type busy struct{}

func (busy) Error() string { return "busy" }

func (busy) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: 18 * time.Second}
}

// Calls are spaced from the first one on if others were asked for time, and no longer than it takes to see that it is over.
func TestPaceIsKnownToThoseThatStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := policy.Policy{Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}, Pace: policy.Pace{Max: 20 * time.Second}}
		for range 2 {
			before := join(t, store, p)
			_ = before.d.Run(t.Context(), func(context.Context) error {
				return busy{}
			})
			if before.d.Stats().Main.Paced == 0 {
				t.Fatal("the witness is not asked for time")
			}
		}
		time.Sleep(4 * time.Second)
		mine := join(t, store, p)
		if got := mine.d.Stats().Main.Paced; got <= 0 || got > 5*time.Second {
			t.Errorf("calls are spaced for %v", got)
		}
		began, n := time.Now(), 0
		for range 3 { // it answers well
			if err := mine.d.Run(t.Context(), func(context.Context) error { n++; return nil }); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); n != 3 || took > 0 {
			t.Errorf("%d calls took %v: the first success shows that it is over", n, took)
		}
	})
}

// A time that others were asked for goes on passing when they have gone.
func TestAPaceOfBeforeEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := policy.Policy{Retry: policy.Retry{Attempts: 1}, Breaker: policy.Breaker{Off: true}, Pace: policy.Pace{Max: 20 * time.Second}}
		for range 2 {
			before := join(t, store, p)
			_ = before.d.Run(t.Context(), func(context.Context) error { return busy{} })
			before.Close()
		}
		time.Sleep(16 * time.Second)
		if got := join(t, store, p).d.Stats().Main.Paced; got <= 0 || got > 2*time.Second {
			t.Errorf("calls are spaced for %v, and others were asked for 18 s 16 s ago", got)
		}
	})
}
