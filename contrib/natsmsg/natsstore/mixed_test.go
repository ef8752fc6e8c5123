package natsstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// mixed is a store whose operations go through several in turn, as those of
// several processes do.
type mixed struct {
	stores []*Store
	n      atomic.Uint64
}

func (m *mixed) next() *Store { return m.stores[m.n.Add(1)%uint64(len(m.stores))] }

// asked asks one after the other until there is an answer: a cluster has none while it
// elects a leader, and a busy machine makes it do so.
func asked[T any](ctx context.Context, m *mixed, ask func(*Store) (T, error)) (v T, err error) {
	for limit := time.Now().Add(patience); time.Now().Before(limit); <-time.After(50 * time.Millisecond) {
		if v, err = ask(m.next()); err == nil || ctx.Err() != nil || isAnswer(err) {
			break
		}
	}
	return v, err
}

func isAnswer(err error) bool {
	for _, e := range []error{errForgets, idempotency.ErrLeaseLost, idempotency.ErrFull, idempotency.ErrTooLarge, idempotency.ErrUnreadable} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (m *mixed) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	return asked(ctx, m, func(s *Store) (idempotency.Answer, error) { return s.Begin(ctx, c) })
}

func (m *mixed) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	_, err := asked(ctx, m, func(s *Store) (struct{}, error) { return struct{}{}, s.Apply(ctx, ref, c) })
	return err
}

func (m *mixed) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	return asked(ctx, m, func(s *Store) (idempotency.Record, error) { return s.Get(ctx, id) })
}

func (m *mixed) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	return m.stores[0].List(ctx, cursor, limit)
}

func (m *mixed) Now(ctx context.Context) (idempotency.Moment, error) {
	return asked(ctx, m, func(s *Store) (idempotency.Moment, error) { return s.Now(ctx) })
}

func (m *mixed) Sweep(ctx context.Context, limit int) (int, error) {
	return asked(ctx, m, func(*Store) (int, error) { return m.stores[0].Sweep(ctx, limit) })
}

func (m *mixed) Caps() idempotency.Caps { return m.stores[0].Caps() }
