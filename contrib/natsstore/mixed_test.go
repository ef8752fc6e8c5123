package natsstore

import (
	"context"
	"sync/atomic"

	"github.com/gabion-go/gabion/idempotency"
)

// mixed is a store whose operations go through several in turn, as those of
// several processes do.
type mixed struct {
	stores []*Store
	n      atomic.Uint64
}

func (m *mixed) next() *Store { return m.stores[m.n.Add(1)%uint64(len(m.stores))] }

func (m *mixed) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	return m.next().Begin(ctx, c)
}

func (m *mixed) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	return m.next().Apply(ctx, ref, c)
}

func (m *mixed) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	return m.next().Get(ctx, id)
}

func (m *mixed) Sweep(ctx context.Context, limit int) (int, error) {
	return m.stores[0].Sweep(ctx, limit)
}

func (m *mixed) Caps() idempotency.Caps { return m.stores[0].Caps() }
