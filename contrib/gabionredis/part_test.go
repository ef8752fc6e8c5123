package gabionredis_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// A command within an attempt of the same dependency is part of that attempt: there is one
// slot, and it is taken.
func TestACommandWithinAnAttemptIsPartOfIt(t *testing.T) {
	server := testservers.Redis(t)
	p := quick()
	p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off}
	d := gabion.New("cache", p)
	c := use(t, options(server), d)
	err := d.Run(t.Context(), func(ctx context.Context) error {
		if err := c.Set(ctx, t.Name(), "1", 0).Err(); err != nil {
			return err
		}
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, t.Name()).Err() })
		return err
	})
	if n := d.Stats().Totals; err != nil || n.Calls != 1 || n.Attempts != 1 {
		t.Errorf("%d calls, %d attempts: %v", n.Calls, n.Attempts, err)
	}
	away := use(t, options("127.0.0.1:1"), d)
	err = d.Run(t.Context(), func(ctx context.Context) error {
		return errors.Join(c.Incr(ctx, t.Name()).Err(), away.Incr(ctx, t.Name()).Err())
	})
	if gabion.EffectOf(err) != policy.UnknownEffect || c.Get(t.Context(), t.Name()).Val() != "3" {
		t.Errorf("the first was done, the second was refused: %v, and %q is stored", err, c.Get(t.Context(), t.Name()).Val())
	}
	nothingHeld(t, d)
}
