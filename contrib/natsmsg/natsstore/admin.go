package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/idempotency"
)

// Now implements [idempotency.Store]: the earliest that it can be.
func (s *Store) Now(ctx context.Context) (idempotency.Moment, error) {
	m, err := s.now(ctx)
	return m.early, err
}

// List implements [idempotency.Store]. The order is that of the last writes.
func (s *Store) List(ctx context.Context, cursor string, limit int) (entries []idempotency.Entry, next string, err error) {
	from := uint64(1)
	if cursor != "" {
		if from, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, "", fmt.Errorf("natsstore: %q is no cursor", cursor)
		}
	}
	for range max(limit, 1) {
		m, err := s.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(s.subject+"*"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return entries, "", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("natsstore: list: %w", err)
		}
		from = m.Sequence + 1
		id, ok := s.idOf(m.Subject)
		if !ok || bucket.Deleted(m.Header) {
			continue
		}
		e := idempotency.Entry{ID: id}
		if e.Err = e.Record.UnmarshalBinary(m.Data); e.Err != nil && !errors.Is(e.Err, idempotency.ErrUnreadable) {
			return nil, "", fmt.Errorf("natsstore: list: %w", e.Err)
		}
		e.Record = e.Record.Bare()
		entries = append(entries, e)
	}
	return entries, strconv.FormatUint(from, 10), nil
}
