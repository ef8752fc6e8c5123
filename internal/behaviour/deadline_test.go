package behaviour

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// The work sees the deadline, its context ends with DeadlineExceeded, and
// the cause names whose it was.
func TestDeadlineAndItsOwnerAreVisible(t *testing.T) {
	ask := map[string]func(context.Context) (error, error){
		"err first":   func(ctx context.Context) (error, error) { return ctx.Err(), context.Cause(ctx) },
		"cause first": func(ctx context.Context) (error, error) { cause := context.Cause(ctx); return ctx.Err(), cause },
		"done first": func(ctx context.Context) (error, error) {
			<-ctx.Done()
			return ctx.Err(), context.Cause(ctx)
		},
		"child": func(ctx context.Context) (error, error) {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			return child.Err(), context.Cause(child)
		},
		"value": func(ctx context.Context) (error, error) {
			child := context.WithValue(ctx, struct{}{}, 1)
			cause := context.Cause(child)
			return child.Err(), cause
		},
	}
	layers := []struct {
		name  string
		limit policy.Timeout
		cause gabion.Reason
	}{
		{"attempt", policy.Timeout{Call: 10 * time.Second, Attempt: time.Second}, policy.AttemptTimeout},
		{"call", policy.Timeout{Call: time.Second, Attempt: time.Second}, policy.CallTimeout},
	}
	for _, layer := range layers {
		for name, how := range ask {
			t.Run(layer.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := gabion.New("db", policy.Policy{Timeout: layer.limit})
					start := time.Now()
					err := d.Run(t.Context(), func(ctx context.Context) error {
						if at, ok := ctx.Deadline(); !ok || !at.Equal(start.Add(time.Second)) {
							t.Errorf("the work sees deadline %v, %v", at, ok)
						}
						time.Sleep(time.Second) // it does not listen
						err, cause := how(ctx)
						if err != context.DeadlineExceeded || cause != error(layer.cause) {
							t.Errorf("Err is %v, Cause is %v, want %v", err, cause, layer.cause)
						}
						return err
					})
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v is not DeadlineExceeded", err)
					}
				})
			})
		}
	}
}

// No attempt starts that can't finish, no wait goes past the
// deadline.
func TestNoAttemptStartsPastTheDeadline(t *testing.T) {
	for _, callers := range []bool{false, true} {
		t.Run(fmt.Sprintf("callers deadline=%v", callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := policy.Policy{Safe: true, Retry: policy.Retry{Attempts: 20, Backoff: every(100 * time.Millisecond), Budget: free}, Breaker: policy.Breaker{Off: true}}
				ctx := t.Context()
				if callers {
					c, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					defer cancel()
					ctx = c
				} else {
					p.Timeout.Call = 500 * time.Millisecond
				}
				d, _ := watched(p)
				start := time.Now()
				s := gabiontest.NewScript(gabiontest.Step{Takes: 10 * time.Millisecond, Err: errDown})
				err := d.Run(ctx, s.Run)
				wantReason(t, err, policy.DeadlineShort)
				if took := time.Since(start); took > 450*time.Millisecond || !errors.Is(err, errDown) {
					t.Errorf("%s, %v", took, err)
				}
				for i, seen := range s.Seen() {
					if left := seen.Deadline.Sub(seen.At); left < 50*time.Millisecond {
						t.Errorf("attempt %d began with %s left", i+1, left)
					}
				}
			})
		})
	}
}

func TestNoAttemptStartsAfterAWaitThatLeftLessThanTheMargin(t *testing.T) {
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		busy   time.Duration // how long the call before is out
		pause  time.Duration // from its start to the call's
		want   gabion.Reason
	}{
		{"slot, 49 ms left", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}, 951 * time.Millisecond, 0, policy.DeadlineShort},
		{"slot, 50 ms left", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}}, 950 * time.Millisecond, 0, policy.None},
		{"rate, 49 ms left: not waited for", policy.Policy{RateLimit: policy.RateLimit{Rate: 1}}, 0, 49 * time.Millisecond, policy.RateLimited},
		{"rate, 50 ms left", policy.Policy{RateLimit: policy.RateLimit{Rate: 1}}, 0, 50 * time.Millisecond, policy.None},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.policy.Timeout = policy.Timeout{Call: time.Second, Margin: 50 * time.Millisecond}
				d, rec := watched(c.policy)
				go d.Run(t.Context(), lasts(c.busy, nil))
				synctest.Wait()
				time.Sleep(c.pause)
				wantReason(t, d.Run(t.Context(), works), c.want)
				sent := 2
				if c.want != policy.None {
					sent = 1
				}
				rec.WantAttempts(t, sent)
				nothingHeld(t, d)
			})
		})
	}
}

// atOrigin is a context whose deadline is the very moment at which a dependency was
// made, and that has not ended yet.
type atOrigin struct {
	context.Context
	at time.Time
}

func (c atOrigin) Deadline() (time.Time, bool) { return c.at, true }

func TestDeadlineAtTheOriginIsADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := watched(policy.Policy{})
		wantReason(t, d.Run(atOrigin{t.Context(), time.Now()}, works), policy.CallTimeout)
		rec.WantAttempts(t, 0)
	})
}

// A context may end with DeadlineExceeded although it never named a deadline, if it is the caller's
// own type. The call ends with it, and does not spin until its own deadline.
func TestACallersContextWithoutADateEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, hedges := range []int{0, 1} {
			inner, cancel := context.WithCancel(t.Context())
			ctx := undated{inner}
			d, rec := watched(policy.Policy{Safe: true, Retry: policy.Retry{Backoff: every(5 * time.Second)}, Hedge: policy.Hedge{Max: hedges, Delay: policy.Off}})
			start := time.Now()
			time.AfterFunc(time.Second, cancel)
			_, err := gabion.Do(ctx, d, withResult(fails(errDown)))
			wantElapsed(t, start, time.Second)
			if err == nil || !errors.Is(err, errDown) {
				t.Errorf("ended with %v", err)
			}
			rec.WantAttempts(t, 1+hedges)
		}
	})
}

type undated struct{ context.Context }

func (u undated) Err() error {
	if u.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// B8: gRPC's DEADLINE_EXCEEDED is worth a retry only where it was the attempt's own
// deadline. A server that says so early had another one, and perhaps always has.
func TestOnlyTheAttemptsOwnDeadlineIsRetried(t *testing.T) {
	late := &rpcError{&rpcStatus{4}}
	cases := []struct {
		name     string
		takes    time.Duration
		attempts int
		reason   gabion.Reason
	}{
		{"a deadline of the server's", time.Millisecond, 1, policy.UnclassifiedError},
		{"the attempt's own", time.Second, 3, policy.AttemptsExhausted},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, rec := watched(policy.Policy{Safe: true, Timeout: policy.Timeout{Attempt: time.Second}, Retry: policy.Retry{Budget: free}})
				err := d.Run(t.Context(), func(context.Context) error { time.Sleep(c.takes); return late })
				wantReason(t, err, c.reason)
				rec.WantAttempts(t, c.attempts)
				if f := d.Stats().Main.Breaker.Counts.Failures; f != int64(c.attempts) {
					t.Errorf("the breaker counted %d failures of %d", f, c.attempts)
				}
			})
		})
	}
}
