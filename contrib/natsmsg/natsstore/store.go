package natsstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/contrib/natsmsg/internal/bucket"
	"github.com/gabion-go/gabion/idempotency"
)

// dueHeader carries when a record is due, so that Sweep reads no bodies.
const dueHeader = "Gabion-Due"

// A Store keeps records in one bucket. Make one with [Open]. Safe for concurrent
// use. It holds no goroutine and no connection of its own: the caller closes the
// connection once the store is no longer used.
type Store struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	name    string // of the stream
	subject string // of all keys, up to the key
	put     string // the same as publishes need it
	caps    idempotency.Caps
	skew    time.Duration
	clock   serverClock
	cursor  atomic.Uint64 // where Sweep goes on

	mu   sync.Mutex // guards held
	held map[idempotency.ID]held
}

var _ idempotency.Store = (*Store)(nil)

// Caps implements [idempotency.Store]. ServerClock is set if the bucket has one
// replica: each server has a clock of its own.
func (s *Store) Caps() idempotency.Caps { return s.caps }

// A stored record is one with its revision, zero for an absent record.
type stored struct {
	rev    uint64
	record idempotency.Record
}

// A changed record gets ahead of us at most casTries times, with pauses in between: in a cluster a
// change is refused while another of the key is under way, and that takes until a majority has it.
const (
	casTries  = 32
	casPause  = 500 * time.Microsecond
	casLonger = 50 * time.Millisecond
)

var errContended = errors.New("natsstore: the record changed too often")

// errLost: another change was first, and this one was not made.
var errLost = errors.New("natsstore: another revision")

// errForgets: the bucket does not keep the record long enough, and the claim changed
// nothing.
var errForgets = errors.New("natsstore: the bucket forgets records too soon")

// wait waits before the next try, longer each time and by chance, so that those who
// met once don't meet again.
func wait(ctx context.Context, try int) error {
	most := min(casPause<<min(try, 16), casLonger)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("natsstore: %w", ctx.Err())
	}
}

// Begin implements [idempotency.Store]. It refuses a claim whose record the bucket
// could forget before its time.
func (s *Store) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	if err := s.fits(c); err != nil {
		return idempotency.Answer{}, err
	}
	var old stored // most claims are of new keys, so the first try takes it for one
	for try := range casTries {
		now, err := s.now(ctx)
		if err != nil {
			return idempotency.Answer{}, err
		}
		a, changed := old.record.Begin(c, now.early)
		if !changed {
			a.Left = min(a.Left, c.Lease) // what the clock is uncertain of is not the lease's
			return a, nil
		}
		now.date(&a.Record, &old.record)
		next := stored{record: a.Record}
		next.rev, err = s.write(ctx, c.ID, old.rev, a.Record)
		if err == nil {
			if a.Decision == idempotency.DecisionRun || a.Decision == idempotency.DecisionRecover {
				s.hold(c.ID, next)
			}
			return a, nil
		}
		if old, err = s.reload(ctx, c.ID, try, err); err != nil {
			return idempotency.Answer{}, err
		}
	}
	return idempotency.Answer{}, errContended
}

// reload reads the record after a write that failed, if that is because another
// was first.
func (s *Store) reload(ctx context.Context, id idempotency.ID, try int, failed error) (stored, error) {
	if !errors.Is(failed, errLost) {
		return stored{}, failed
	}
	if try > 0 {
		if err := wait(ctx, try); err != nil {
			return stored{}, err
		}
	}
	return s.load(ctx, id)
}

// fits reports whether the bucket keeps the claim's record as long as it may be
// needed. The second is for what the clock is uncertain of.
func (s *Store) fits(c idempotency.Claim) error {
	ttl := s.stream.CachedInfo().Config.MaxAge
	need := s.skew + slowest
	for _, d := range []time.Duration{c.Lease, c.Retention} { // which may be as long as can be said
		need += min(d, math.MaxInt64-need)
	}
	if ttl > 0 && need > ttl {
		return fmt.Errorf("%w: bucket %s after %v, and a lease of %v with a retention of %v needs %v: raise its TTL (max_age)",
			errForgets, s.name[len("KV_"):], ttl, c.Lease, c.Retention, need)
	}
	return nil
}

// Apply implements [idempotency.Store].
func (s *Store) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	old, known := s.holding(ref)
	for try := range casTries {
		if !known {
			var err error
			if old, err = s.load(ctx, ref.ID); err != nil {
				return err
			}
		}
		now, err := s.now(ctx)
		if err != nil {
			return err
		}
		next, changed, err := old.record.Apply(ref, c, now.early)
		switch {
		case known && (err != nil || !changed):
			known = false // nothing is refused, or taken for done, on the word of memory
			continue
		case err != nil || !changed:
			return err
		}
		now.date(&next, &old.record)
		rev, err := s.write(ctx, ref.ID, old.rev, next)
		if err == nil {
			s.hold(ref.ID, stored{rev, next})
			return nil
		}
		s.drop(ref.ID)
		if !errors.Is(err, errLost) {
			return err
		}
		if known = false; try > 0 {
			if err := wait(ctx, try); err != nil {
				return err
			}
		}
	}
	return errContended
}

// Get implements [idempotency.Store].
func (s *Store) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	old, err := s.load(ctx, id)
	return old.record, err
}

// now is the time by which records are judged (early) and written (late).
func (s *Store) now(ctx context.Context) (moment, error) {
	m, err := s.clock.now(ctx)
	if err != nil {
		return m, fmt.Errorf("natsstore: %w", err)
	}
	m.early = m.early.Add(-s.skew)
	return m, nil
}

// date moves what the machine dated by the early time to the late one: no one may take a lease or a
// retention for over before it is.
func (m moment) date(next, old *idempotency.Record) {
	width := m.late.Sub(m.early)
	if next.Created != old.Created {
		next.Created = next.Created.Add(width)
	}
	if next.LeaseUntil != old.LeaseUntil && next.LeaseUntil != 0 {
		next.LeaseUntil = next.LeaseUntil.Add(width)
	}
	if next.Finished != old.Finished && next.Finished != 0 {
		next.Finished, next.Expires = next.Finished.Add(width), next.Expires.Add(width)
	}
}

func keyOf(id idempotency.ID) string { return hex.EncodeToString(id[:]) }

// load reads a record from the stream's leader.
func (s *Store) load(ctx context.Context, id idempotency.ID) (stored, error) {
	m, err := s.stream.GetLastMsgForSubject(ctx, s.subject+keyOf(id))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, fmt.Errorf("natsstore: load: %w", err)
	}
	old := stored{rev: m.Sequence}
	if bucket.Deleted(m.Header) {
		return old, nil
	}
	if err := old.record.UnmarshalBinary(m.Data); err != nil {
		return stored{}, fmt.Errorf("natsstore: load: %w", err)
	}
	return old, nil
}

// write stores a record in place of the revision, or deletes that, and returns its own. errLost
// says that it did not because the record has another; any other error but
// ErrTooLarge and ErrFull leaves it open.
func (s *Store) write(ctx context.Context, id idempotency.ID, rev uint64, r idempotency.Record) (uint64, error) {
	if r.State == idempotency.StateAbsent {
		gone, err := s.remove(ctx, rev)
		if err == nil && !gone {
			err = errLost
		}
		return 0, err
	}
	value, err := r.MarshalBinary()
	if err != nil {
		return 0, err
	}
	if !s.js.Conn().IsConnected() {
		return 0, fmt.Errorf("natsstore: write: %w", nats.ErrDisconnected) // else it would be kept, and sent after the caller has left
	}
	m := &nats.Msg{Subject: s.put + keyOf(id), Header: nats.Header{}, Data: value}
	m.Header.Set(dueHeader, strconv.FormatInt(int64(r.Due()), 10))
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(rev), jetstream.WithExpectStream(s.name))
	if err != nil {
		return 0, refusal(err)
	}
	return ack.Sequence, nil
}

// Error codes of the server that the client library has no names for.
const (
	resourcesExceeded = 10002 // of the account
	noResources       = 10023
	noMemory          = 10028
	noStorage         = 10047
	storeFailed       = 10077
)

// refusal says what a failed publish means.
func refusal(err error) error {
	var api *jetstream.APIError
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("natsstore: write: %w: %w", idempotency.ErrTooLarge, err)
	}
	if !errors.As(err, &api) {
		return fmt.Errorf("natsstore: write: %w", err)
	}
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return errLost
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("natsstore: write: %w: %w", idempotency.ErrTooLarge, err)
	case resourcesExceeded, noResources, noMemory, noStorage:
		return fmt.Errorf("natsstore: write: %w: %w", idempotency.ErrFull, err)
	case storeFailed:
		if strings.HasPrefix(api.Description, "maximum ") {
			return fmt.Errorf("natsstore: write: %w: %w", idempotency.ErrFull, err)
		}
	}
	return fmt.Errorf("natsstore: write: %w", err)
}

// due reads when a record is due, and whether that is known.
func due(h nats.Header) (idempotency.Moment, bool) {
	n, err := strconv.ParseInt(h.Get(dueHeader), 10, 64)
	return idempotency.Moment(n), err == nil
}
