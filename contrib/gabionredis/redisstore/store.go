package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion/idempotency"
)

// Options are how a [Store] works. The zero value is sound.
type Options struct {
	// Prefix begins the name of each key. Empty means "gabion:idempotency:". All
	// processes that share records need the same; two sets of records on one server
	// need different ones. A hash tag in it puts all records into one slot of a
	// cluster.
	Prefix string
}

const defaultPrefix = "gabion:idempotency:"

// A Store keeps records on a Redis server or cluster. Make one with [New]. Safe for
// concurrent use. It holds nothing that must be closed; the client is the caller's.
type Store struct {
	client redis.UniversalClient
	prefix string
	caps   idempotency.Caps
	heard  atomic.Int64 // what the server's clock said last; a guess, never trusted
	runs   runs
	sweeps cursors
}

var _ idempotency.Store = (*Store)(nil)

// New returns a store that uses the client, after a look at the server's settings:
// see Caps for what it found. The error says that the server does not answer, is
// older than Redis 7, is a replica, or that the client is a Ring.
func New(ctx context.Context, client redis.UniversalClient, o Options) (*Store, error) {
	if _, ring := client.(*redis.Ring); ring {
		return nil, errors.New("redisstore: a Ring sends keys to another server when theirs is down, and there they would run again: use a cluster")
	}
	s := &Store{client: client, prefix: o.Prefix}
	if s.prefix == "" {
		s.prefix = defaultPrefix
	}
	found, err := inspect(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s.caps = idempotency.Caps{Durable: found.durable, ServerClock: true, Warnings: found.warnings}
	return s, nil
}

// Caps implements [idempotency.Store]. Durable means that the server syncs its
// append-only file before it answers; it is false where that can't be found out.
func (s *Store) Caps() idempotency.Caps { return s.caps }

func (s *Store) key(id idempotency.ID) string { return s.prefix + hex.EncodeToString(id[:]) }

// casTries bounds how often a decision is made anew because the record changed before the write. Each
// time another writer got ahead, so contention passes.
const casTries = 64

var errContended = errors.New("redisstore: the record changed too often")

// Begin implements [idempotency.Store].
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	key := s.key(c.ID)
	saw, err := s.claim(ctx, key, c)
	if err != nil {
		return idempotency.Answer{}, err
	}
	if saw.wrote {
		r := claimed(c, saw.now)
		s.runs.put(idempotency.Ref{ID: c.ID, Token: r.Token}, saw.value)
		return idempotency.Answer{Decision: idempotency.DecisionRun, Record: r}, nil
	}
	for range casTries {
		old, err := read(saw.value)
		if err != nil {
			return idempotency.Answer{}, err
		}
		a, changed := old.Begin(c, saw.now)
		if !changed {
			return a, nil
		}
		if saw, err = s.swap(ctx, key, saw.value, a.Record, 0, math.MaxInt64); err != nil {
			return idempotency.Answer{}, err
		}
		if saw.wrote {
			s.remember(idempotency.Ref{ID: c.ID, Token: a.Record.Token}, a.Record.State, saw.value)
			return a, nil
		}
	}
	return idempotency.Answer{}, errContended
}

// remember keeps the value of a record while it runs.
func (s *Store) remember(ref idempotency.Ref, state idempotency.State, value string) {
	if state == idempotency.StateRunning {
		s.runs.put(ref, value)
		return
	}
	s.runs.drop(ref)
}

// Apply implements [idempotency.Store].
func (s *Store) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	key := s.key(ref.ID)
	saw, made, err := s.applyUnread(ctx, key, ref, c)
	if err != nil || made {
		return err
	}
	for range casTries {
		old, err := read(saw.value)
		if err != nil {
			return err
		}
		next, changed, err := old.Apply(ref, c, saw.now)
		if err != nil || !changed {
			return err
		}
		if saw, err = s.swap(ctx, key, saw.value, next, 0, math.MaxInt64); err != nil {
			return err
		}
		if saw.wrote {
			s.remember(ref, next.State, saw.value)
			return nil
		}
	}
	return errContended
}

// applyUnread makes a change without reading the record: on what this process wrote
// last, and as of when the server was last heard from. The server refuses if the
// record is another or that moment too long ago, and then, as when nothing is known,
// what it has is returned. An extension counts from now, and an operator has read the
// record: neither is made so.
func (s *Store) applyUnread(ctx context.Context, key string, ref idempotency.Ref, c idempotency.Change) (sight, bool, error) {
	value, heard := s.runs.get(ref), idempotency.Moment(s.heard.Load())
	old, err := read(value)
	next, changed, refused := old.Apply(ref, c, heard)
	if err != nil || !changed || refused != nil || c.Operator || c.State == idempotency.StateRunning && c.Point == nil {
		saw, err := s.run(ctx, scriptLook, key) // to refuse is the server's alone
		return saw, false, err
	}
	saw, err := s.swap(ctx, key, value, next, heard, heard.Add(stale(old.Retention)))
	if err == nil && saw.wrote {
		s.remember(ref, next.State, saw.value)
	}
	return saw, saw.wrote, err
}

// stale returns how long ago a moment may be that stands for the end of a run:
// retention counts from it.
func stale(retention time.Duration) time.Duration { return min(time.Second, retention/1000) }

// Get implements [idempotency.Store].
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	saw, err := s.run(ctx, scriptLook, s.key(id))
	if err != nil {
		return idempotency.Record{}, err
	}
	return read(saw.value)
}
