package natsstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/idempotency"
)

const (
	sweepWindow = 4096             // headers that one Sweep reads at most
	sweepIdle   = 30 * time.Second // after which the server forgets a reader that was not deleted
)

// Sweep implements [idempotency.Store]. It looks at the headers of the next 4,096
// records in the order of their last writes, or fewer once limit are due, and
// starts over at the end. Sweeps may run at once, also in several processes.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	now, err := s.now(ctx)
	if err != nil || limit <= 0 {
		return 0, err
	}
	found, err := s.scan(ctx, limit, now.early)
	for _, id := range found {
		if err != nil {
			break
		}
		var swept bool
		if swept, err = s.sweep(ctx, id); swept {
			n++
		}
	}
	return n, err
}

// scan returns up to limit keys that are due, and moves the cursor behind what it
// looked at.
func (s *Store) scan(ctx context.Context, limit int, now idempotency.Moment) (found []idempotency.ID, err error) {
	reader, err := s.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, s.cursor.Load()),
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: sweepIdle,
	})
	if err != nil {
		return nil, fmt.Errorf("natsstore: sweep: %w", err)
	}
	defer s.stream.DeleteConsumer(context.WithoutCancel(ctx), reader.CachedInfo().Name)
	for try := range casTries {
		if found, err = s.read(ctx, reader, limit, now); !errors.Is(err, nats.ErrNoResponders) {
			return found, err
		}
		// The servers of a cluster learn of a new reader a moment later.
		if err := wait(ctx, try); err != nil {
			return nil, err
		}
	}
	return nil, err
}

// read takes headers until enough are due or there are no more.
func (s *Store) read(ctx context.Context, reader jetstream.Consumer, limit int, now idempotency.Moment) (found []idempotency.ID, err error) {
	batch, err := reader.FetchNoWait(sweepWindow)
	if err != nil {
		return nil, fmt.Errorf("natsstore: sweep: %w", err)
	}
	var seen int
	var last uint64
	for len(found) < limit {
		var m jetstream.Msg
		var more bool
		select {
		case m, more = <-batch.Messages():
		case <-ctx.Done():
			return nil, fmt.Errorf("natsstore: sweep: %w", ctx.Err())
		}
		if !more {
			break
		}
		seen++
		if meta, err := m.Metadata(); err == nil {
			last = meta.Sequence.Stream
		}
		if id, ok := s.idOf(m.Subject()); ok && !bucket.Deleted(m.Headers()) {
			if at, known := due(m.Headers()); known && at <= now {
				found = append(found, id)
			}
		}
	}
	if err := batch.Error(); err != nil && seen == 0 {
		return nil, fmt.Errorf("natsstore: sweep: %w", err)
	}
	if seen < sweepWindow && len(found) < limit {
		last = 0 // that was the end: the next sweep starts over
	}
	s.cursor.Store(last + 1)
	return found, nil
}

func (s *Store) idOf(subject string) (id idempotency.ID, ok bool) {
	key := strings.TrimPrefix(subject, s.subject)
	b, err := hex.DecodeString(key)
	return id, err == nil && copy(id[:], b) == len(id) && len(b) == len(id)
}

// sweep looks at one record. If it changed since, the next sweep will see.
func (s *Store) sweep(ctx context.Context, id idempotency.ID) (bool, error) {
	old, err := s.load(ctx, id)
	if errors.Is(err, idempotency.ErrUnreadable) {
		return false, nil // a newer program's business
	}
	if err != nil || old.rev == 0 {
		return false, err
	}
	now, err := s.now(ctx)
	if err != nil {
		return false, err
	}
	next, changed := old.record.Sweep(now.early)
	if !changed {
		return false, nil
	}
	now.date(&next, &old.record)
	if _, err = s.write(ctx, id, old.rev, next); errors.Is(err, errLost) {
		return false, nil
	}
	return err == nil, err
}

// remove deletes the one message that is the record's revision. A record that was
// written anew is another message, so this can't touch it.
func (s *Store) remove(ctx context.Context, rev uint64) (bool, error) {
	err := s.stream.DeleteMsg(ctx, rev)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return false, nil // most often it is gone; else the next round sees it again
	}
	if err != nil {
		return false, fmt.Errorf("natsstore: sweep: %w", err)
	}
	return true, nil
}
