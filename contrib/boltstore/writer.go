package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

const (
	queueLength = 1024    // operations; more callers wait for room
	batchOps    = 1024    // operations in a transaction
	batchBytes  = 4 << 20 // of bodies in a transaction, so that large ones don't hold small ones up
)

// An op is an operation that may change something.
type op struct {
	work  func(*tables, idempotency.Moment) error
	bytes int // of what it brings

	taken atomic.Bool   // by the writer, or back by its caller
	done  chan struct{} // closed when it is durable
	err   error         // read after done
}

// A flight is a transaction that the writer commits. While it does, readers see its
// records, which may still get lost.
type flight struct {
	tx     int // the transaction's number
	ids    map[idempotency.ID]struct{}
	landed chan struct{} // closed when it is durable
}

// refuses returns why operations are not accepted, if they are not.
func (s *Store) refuses() error {
	select {
	case <-s.stopped:
		return s.reason
	case <-s.closing:
		return ErrClosed
	default:
		return nil
	}
}

// submit has the writer do work and returns when it is durable. If ctx ends first,
// work that was not begun never will be.
func (s *Store) submit(ctx context.Context, bytes int, work func(*tables, idempotency.Moment) error) error {
	o := &op{work: work, bytes: bytes, done: make(chan struct{})}
	select {
	case s.queue <- o:
	case <-s.closing:
		return ErrClosed
	case <-s.stopped:
		return s.reason
	case <-ctx.Done():
		return ended(ctx)
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		o.taken.Store(true)
		return ended(ctx)
	case <-s.stopped:
	}
	select {
	case <-o.done: // among the last before Close
		return o.err
	default:
		return s.reason
	}
}

func ended(ctx context.Context) error { return fmt.Errorf("boltstore: %w", ctx.Err()) }

// write is the writer: the only goroutine that changes the file.
func (s *Store) write() {
	defer close(s.stopped)
	batch := make([]*op, 0, batchOps)
	for {
		batch = s.gather(batch[:0])
		if len(batch) == 0 {
			s.reason = ErrClosed
			return
		}
		if err := s.commit(batch); err != nil {
			s.reason = fmt.Errorf("%w: %w", ErrPoisoned, err)
			return
		}
		for _, o := range batch {
			close(o.done)
		}
		clear(batch)
	}
}

// gather waits for an operation and takes what is queued behind it. It returns none
// when the store closes.
func (s *Store) gather(batch []*op) []*op {
	bytes := 0
	select {
	case o := <-s.queue:
		batch, bytes = append(batch, o), o.bytes
	case <-s.closing:
	}
	for yielded := false; len(batch) < batchOps && bytes < batchBytes; {
		select {
		case o := <-s.queue:
			batch, bytes, yielded = append(batch, o), bytes+o.bytes, false
			continue
		default:
		}
		if yielded {
			break
		}
		runtime.Gosched() // those who were answered just now may want to go on
		yielded = true
	}
	return batch
}

// commit does the operations in one transaction and returns when that is durable.
func (s *Store) commit(batch []*op) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	t := s.tables(tx)
	for _, o := range batch {
		if o.taken.CompareAndSwap(false, true) {
			o.err = o.work(t, s.tick())
		}
	}
	if len(t.changed) == 0 || t.failed != nil {
		return errors.Join(t.failed, tx.Rollback())
	}
	if err := t.store.Put(keyClock, binary.BigEndian.AppendUint64(nil, uint64(s.last))); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	f := &flight{tx: tx.ID(), ids: t.changed, landed: make(chan struct{})}
	s.flight.Store(f)
	if err := tx.Commit(); err != nil {
		return err
	}
	close(f.landed)
	return nil
}

// tick returns the time, later each time by a microsecond at least, from which tokens
// are made: so no two are equal, nor is one smaller than one before, and as the time is
// stored they are not after a restart.
func (s *Store) tick() idempotency.Moment {
	s.last = max(s.now(), s.last.Add(time.Microsecond))
	return s.last
}
