package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/idempotency"
)

var _ idempotency.Admin = (*Store)(nil)

// Now implements [idempotency.Admin]: the earliest that it can be.
func (s *Store) Now(ctx context.Context) (idempotency.Moment, error) {
	m, err := s.now(ctx)
	return m.early, err
}

// List implements [idempotency.Admin]. The order is that of the last writes.
func (s *Store) List(ctx context.Context, cursor string, limit int) (p idempotency.Page, err error) {
	from := uint64(1)
	if cursor != "" {
		if from, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return p, fmt.Errorf("natsstore: %q is no cursor", cursor)
		}
	}
	for range max(limit, 1) {
		m, err := s.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(s.subject+"*"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return p, nil
		}
		if err != nil {
			return idempotency.Page{}, fmt.Errorf("natsstore: list: %w", err)
		}
		from = m.Sequence + 1
		id, ok := s.idOf(m.Subject)
		if !ok || deleted(m.Header) {
			continue
		}
		e := idempotency.Entry{ID: id}
		if e.Err = e.Record.UnmarshalBinary(m.Data); e.Err != nil && !errors.Is(e.Err, idempotency.ErrUnreadable) {
			return idempotency.Page{}, fmt.Errorf("natsstore: list: %w", e.Err)
		}
		e.Record = e.Record.Bare()
		p.Entries = append(p.Entries, e)
	}
	p.Next = strconv.FormatUint(from, 10)
	return p, nil
}

// Forget implements [idempotency.Admin].
func (s *Store) Forget(ctx context.Context, ref idempotency.Ref) error {
	old, err := s.load(ctx, ref.ID)
	if err != nil {
		return err
	}
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	if err := old.record.Forgettable(ref, now.early); err != nil {
		return err
	}
	gone, err := s.remove(ctx, old.rev)
	if err == nil && !gone {
		return idempotency.ErrLeaseLost
	}
	return err
}
