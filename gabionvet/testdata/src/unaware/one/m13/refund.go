package m13

import (
	"context"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
)

type Bank interface {
	Refund(ctx context.Context, idempotencyKey, charge string, cents int64) (string, error)
}

type Refunds struct {
	bank Bank
	dep  *gabion.Dependency
}

func (r *Refunds) Refund(ctx context.Context, charge string, cents int64) (string, error) {
	return gabion.Do(ctx, r.dep, func(ctx context.Context) (string, error) {
		key := fmt.Sprintf("refund-%s-%d", charge, time.Now().UnixNano())
		return r.bank.Refund(ctx, key, charge, cents)
	}, gabion.WithIdempotent())
}
