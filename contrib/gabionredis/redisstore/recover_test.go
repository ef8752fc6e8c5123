package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
)

// A cutAfter loses the reply of the command after the next n.
type cutAfter struct {
	p *testproxy.Proxy
	n int
}

func (h *cutAfter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *cutAfter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *cutAfter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.n == 0 {
			h.p.Set(cut)
		}
		h.n--
		return next(ctx, cmd)
	}
}

// A claim of the right to find out is two scripts, and the second writes. A repeat of it, by go-redis
// or by the caller, must not be granted the work.
func TestLostRecoverReply(t *testing.T) {
	addr := testservers.Redis(t)
	for name, retries := range map[string]int{"go-redis repeats it": 3, "the caller repeats it": -1} {
		t.Run(name, func(t *testing.T) {
			p := testproxy.New(t, addr)
			s := via(t, p.Addr, retries, time.Minute)
			c := claimOf("recover " + name)
			c.Recover = true
			a, err := s.Begin(t.Context(), c)
			if err != nil || a.Decision != idempotency.DecisionRun {
				t.Fatal(a.Decision, err)
			}
			if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, idempotency.Change{State: idempotency.StateUnknown}); err != nil {
				t.Fatal(err)
			}
			c = other(c)
			s.client.(*redis.Client).AddHook(&cutAfter{p: p, n: 1})
			if a, err = s.Begin(t.Context(), c); (err != nil) != (retries < 0) {
				t.Errorf("%v, %v", a.Decision, err)
			}
			if p.Struck() != 1 {
				t.Error("no reply was lost, so this proves nothing")
			}
			if err != nil {
				a, err = s.Begin(t.Context(), c)
			}
			if err != nil || a.Decision != idempotency.DecisionRecover {
				t.Errorf("repeated: %v, %v", a.Decision, err)
			}
			rival, err := s.Begin(t.Context(), other(c))
			if err != nil || rival.Decision != idempotency.DecisionInProgress {
				t.Errorf("another: %v, %v", rival.Decision, err)
			}
		})
	}
}
