package boltstore

import (
	"context"
	"errors"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/gabion-go/gabion/idempotency"
)

// sweepBatch bounds how many records a sweep looks at in one transaction, because claims
// wait for it: with 256 the median claim took over twice as long, with 64 a third.
const sweepBatch = 64

// Begin implements [idempotency.Store]. An answer that changes nothing is read
// without waiting for the disk.
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	old, there, err := s.read(ctx, c.ID)
	if err != nil {
		return idempotency.Answer{}, err
	}
	if there {
		if a, changed := old.Begin(c, s.now()); !changed {
			return a, nil
		}
	}
	var a idempotency.Answer
	err = s.submit(ctx, 0, func(t *tables, now idempotency.Moment) (err error) {
		a, err = t.begin(c, now)
		return err
	})
	if err != nil {
		return idempotency.Answer{}, err // a may still be written
	}
	return a, nil
}

// Apply implements [idempotency.Store]. It returns ErrTooLarge for a body of more
// than Caps.MaxValue bytes.
func (s *Store) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	if err := s.refuses(); err != nil {
		return err
	}
	return s.submit(ctx, len(c.Result.Body), func(t *tables, now idempotency.Moment) error { return t.apply(ref, c, now) })
}

// Get implements [idempotency.Store].
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r, there, err := s.read(ctx, id)
	if there || err != nil {
		return r, err
	}
	var found idempotency.Record
	err = s.submit(ctx, 0, func(t *tables, _ idempotency.Moment) (err error) {
		found, _, err = t.load(id)
		return err
	})
	if err != nil {
		return r, err // found may still be written
	}
	return found, nil
}

// read returns a record as it is in the file, without the writer. A record that
// moves just then is not there, and only the writer knows better.
func (s *Store) read(ctx context.Context, id idempotency.ID) (r idempotency.Record, there bool, err error) {
	if err := s.refuses(); err != nil {
		return r, false, err
	}
	if _, there := s.index.find(id); !there {
		return r, false, nil
	}
	seen := 0
	err = s.db.View(func(tx *bbolt.Tx) (err error) {
		seen = tx.ID()
		r, there, err = s.tables(tx).load(id)
		return err
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return r, false, ErrClosed
	}
	if err := s.landed(ctx, seen, id); err != nil {
		return idempotency.Record{}, false, err
	}
	return r, there, err
}

// landed waits until a record that was read in a transaction is durable: an answer
// from one that a power cut may still undo would be an acknowledgement.
func (s *Store) landed(ctx context.Context, seen int, id idempotency.ID) error {
	f := s.flight.Load() // set before its transaction could be seen
	if f == nil || f.tx != seen {
		return nil
	}
	if _, mine := f.ids[id]; !mine {
		return nil
	}
	select {
	case <-f.landed:
		return nil
	case <-s.stopped:
	case <-ctx.Done():
		return ended(ctx)
	}
	select {
	case <-f.landed: // among the last before Close
		return nil
	default:
		return s.reason
	}
}

// Sweep implements [idempotency.Store]. It goes on from where the last one ended, and
// shares its transactions with claims, 64 records in each.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	for limit > 0 && s.due() {
		if err := s.refuses(); err != nil {
			return n, err
		}
		batch := min(limit, sweepBatch)
		var looked, changed int
		err := s.submit(ctx, 0, func(t *tables, now idempotency.Moment) error {
			looked, changed = s.sweep(t, now, batch)
			return nil
		})
		if err != nil {
			return n, err // looked and changed may still be written
		}
		n, limit = n+changed, limit-looked
		if looked < batch {
			break
		}
	}
	return n, s.refuses()
}

// due reports whether a sweep may find something.
func (s *Store) due() (any bool) {
	now := s.now()
	_ = s.db.View(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketRunning, bucketFinished} {
			if k, _ := tx.Bucket(name).Cursor().First(); k != nil {
				at := dueKey(k)
				any = any || at.due() <= now
			}
		}
		return nil
	})
	return any
}

// sweep marks the lost first: a caller may be waiting for that.
func (s *Store) sweep(t *tables, now idempotency.Moment, limit int) (looked, changed int) {
	looked, changed, s.lost = t.sweep(t.running, s.lost, now, limit)
	more, gone, last := t.sweep(t.finished, s.expired, now, limit-looked)
	s.expired = last
	return looked + more, changed + gone
}
