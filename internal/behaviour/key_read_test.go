package behaviour

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// A key that the work never reads goes nowhere, so it makes nothing safe.
func TestAKeyMakesWorkSafeThatReadsIt(t *testing.T) {
	lost, unsent := classify.Transient(errors.New("reset")), classify.NotSent(classify.Transient(errors.New("refused")))
	reads := func(ctx context.Context, _ int) { gabion.Key(ctx) }
	ignores := func(context.Context, int) {}
	key := gabion.WithKey("order-7")
	made := policy.Policy{Key: policy.KeyMade}
	for _, c := range []struct {
		fact  string
		p     policy.Policy
		opts  []gabion.CallOption
		work  func(ctx context.Context, attempt int)
		fails error
		sent  int
		why   policy.Reason
	}{
		{"work that reads its key is repeated", policy.Policy{}, []gabion.CallOption{key}, reads, lost, 3, policy.AttemptsExhausted},
		{"work that does not is not", policy.Policy{}, []gabion.CallOption{key}, ignores, lost, 1, policy.NotSafe},
		{"nor if the policy made the key", made, nil, ignores, lost, 1, policy.NotSafe},
		{"a key that the policy made is read", made, nil, reads, lost, 3, policy.AttemptsExhausted},
		{"what was never sent needs no key", policy.Policy{}, []gabion.CallOption{key}, ignores, unsent, 3, policy.AttemptsExhausted},
		{"nor does what the caller declares idempotent", policy.Policy{}, []gabion.CallOption{key, gabion.WithIdempotent()}, ignores, lost, 3, policy.AttemptsExhausted},
		{"nor what the policy declares safe", policy.Policy{Safe: true}, []gabion.CallOption{key}, ignores, lost, 3, policy.AttemptsExhausted},
		{"a second attempt that does not read it is the last", policy.Policy{}, []gabion.CallOption{key}, func(ctx context.Context, attempt int) {
			if attempt == 1 {
				gabion.Key(ctx)
			}
		}, lost, 2, policy.NotSafe},
		{"a key derived from it is one", policy.Policy{}, []gabion.CallOption{key}, func(ctx context.Context, _ int) { gabion.DeriveKey("", gabion.Key(ctx), "capture") }, lost, 3, policy.AttemptsExhausted},
	} {
		for _, way := range []string{"Do", "Run", "Open"} {
			t.Run(c.fact+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c.p.Retry = policy.Retry{Budget: policy.Budget{Off: true}, Backoff: backoff.Const(time.Millisecond)}
					sent := 0
					err := inner[way](t.Context(), gabion.New("bank", c.p), func(ctx context.Context) error {
						sent++
						c.work(ctx, sent)
						return c.fails
					}, c.opts...)
					if sent != c.sent || gabion.ReasonOf(err) != c.why {
						t.Errorf("%d attempts, %v; want %d, %v", sent, err, c.sent, c.why)
					}
					if says := strings.Contains(err.Error(), "did not read its idempotency key"); says != (c.why == policy.NotSafe) {
						t.Errorf("the error says: %v", err)
					}
				})
			})
		}
	}
}

func TestWorkThatDoesNotReadItsKeyIsNotHedged(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := gabion.New("bank", policy.Policy{Hedge: policy.Hedge{Max: 1, Delay: 100 * time.Millisecond}})
			var sent atomic.Int32
			_, err := gabion.Do(t.Context(), d, func(ctx context.Context) (int, error) {
				if sent.Add(1); reads {
					gabion.Key(ctx)
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				return 1, nil
			}, gabion.WithKey("order-7"))
			if want := map[bool]int32{true: 2, false: 1}[reads]; err != nil || sent.Load() != want {
				t.Errorf("reads %v: %d attempts, want %d, %v", reads, sent.Load(), want, err)
			}
			synctest.Wait()
		})
	}
}
