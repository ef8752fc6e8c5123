package boltstore

import (
	"encoding/binary"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/gabion-go/gabion/idempotency"
)

// The buckets. Records are ordered by when they are due, which is close to the order
// in which they are written: a transaction changes few pages, and a sweep frees whole
// ones. Ordered by their IDs, which are random, each would cost a page of its own.
var (
	bucketStore    = []byte("store")    // format and clock
	bucketRunning  = []byte("running")  // when it is due, ID → record
	bucketFinished = []byte("finished") // the same, for all other states

	keyFormat = []byte("format")
	keyClock  = []byte("clock")
)

// A record is written in one go, while everyone waits.
const (
	maxBody   = 64 << 20        // of a result
	maxRecord = maxBody + 1<<20 // with headers and recovery points
)

// A dueKey orders records by when they are due.
type dueKey [8 + len(idempotency.ID{})]byte

func keyOf(due idempotency.Moment, id idempotency.ID) (k dueKey) {
	binary.BigEndian.PutUint64(k[:8], uint64(due)^1<<63) // moments before 1970 come first
	copy(k[8:], id[:])
	return k
}

func (k *dueKey) due() idempotency.Moment {
	return idempotency.Moment(binary.BigEndian.Uint64(k[:8]) ^ 1<<63)
}

func (k *dueKey) id() idempotency.ID { return idempotency.ID(k[8:]) }

// An index says where the records are. It is in memory, some 60 to 90 bytes for each:
// on disk, where it would be written all over, it halved the throughput. Opening a file reads all of its pages for free
// ones anyway, and the index comes from the same reading.
type index struct {
	mu  sync.RWMutex // guards due
	due map[idempotency.ID]idempotency.Moment
}

func (x *index) find(id idempotency.ID) (due idempotency.Moment, there bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	due, there = x.due[id]
	return due, there
}

func (x *index) set(id idempotency.ID, due idempotency.Moment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due[id] = due
}

func (x *index) delete(id idempotency.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.due, id)
}

// tables are the buckets within one transaction, with the index.
type tables struct {
	*index
	store, running, finished *bbolt.Bucket

	changed map[idempotency.ID]struct{} // the records that were
	failed  error                       // the first write that failed: the transaction must not be committed
}

func (s *Store) tables(tx *bbolt.Tx) *tables {
	return &tables{
		index: &s.index,
		store: tx.Bucket(bucketStore), running: tx.Bucket(bucketRunning), finished: tx.Bucket(bucketFinished),
	}
}

// load returns the record of an ID. It is not there if it has moved since this
// transaction began, which the writer rules out.
func (t *tables) load(id idempotency.ID) (r idempotency.Record, there bool, err error) {
	due, there := t.find(id)
	if !there {
		return r, false, nil
	}
	k := keyOf(due, id)
	b := t.running.Get(k[:])
	if b == nil {
		b = t.finished.Get(k[:])
	}
	if b == nil {
		return r, false, nil
	}
	if err := r.UnmarshalBinary(b); err != nil {
		return r, true, fmt.Errorf("boltstore: %w", err)
	}
	return r, true, nil
}

// begin decides a claim.
func (t *tables) begin(c idempotency.Claim, now idempotency.Moment) (a idempotency.Answer, err error) {
	old, _, err := t.load(c.ID)
	if err != nil {
		return a, err
	}
	a, changed := old.Begin(c, now)
	if changed {
		err = t.replace(c.ID, &old, &a.Record)
	}
	return a, err
}

// apply makes a change.
func (t *tables) apply(ref idempotency.Ref, c idempotency.Change, now idempotency.Moment) error {
	old, _, err := t.load(ref.ID)
	if err != nil {
		return err
	}
	next, changed, err := old.Apply(ref, c, now)
	if err != nil || !changed {
		return err
	}
	return t.replace(ref.ID, &old, &next)
}

// endLease makes a running record's lease end now.
func (t *tables) endLease(id idempotency.ID, now idempotency.Moment) error {
	old, _, err := t.load(id)
	if err != nil {
		return err
	}
	next := old
	next.LeaseUntil = now
	return t.replace(id, &old, &next)
}

// sweep looks at up to limit records of b that are due, from after a key on, and
// returns how many it looked at and changed, and the last key. Those it leaves, which
// a newer program wrote, need no second look, and none that comes later is due before.
func (t *tables) sweep(b *bbolt.Bucket, from []byte, now idempotency.Moment, limit int) (looked, changed int, last []byte) {
	var due []dueKey // collected first: a cursor does not outlive a change
	c := b.Cursor()
	for k, _ := c.Seek(from); k != nil && len(due) < limit; k, _ = c.Next() {
		at := dueKey(k)
		if at.due() > now {
			break
		}
		if string(k) != string(from) {
			due = append(due, at)
		}
	}
	last = from
	for i := range due {
		last = due[i][:]
		id := due[i].id()
		old, _, err := t.load(id)
		if err != nil {
			continue
		}
		if next, ok := old.Sweep(now); ok && t.replace(id, &old, &next) == nil {
			changed++
		}
	}
	return len(due), changed, last
}

// replace stores a record in place of what was read. It refuses what is too large
// before it changes anything.
func (t *tables) replace(id idempotency.ID, old, next *idempotency.Record) error {
	var text []byte
	if next.State != idempotency.StateAbsent {
		var err error
		if text, err = next.MarshalBinary(); err != nil {
			return err
		}
		if len(text) > maxRecord || len(next.Result.Body) > maxBody {
			return fmt.Errorf("boltstore: %w: a record of %d bytes", idempotency.ErrTooLarge, len(text))
		}
	}
	if t.changed == nil {
		t.changed = map[idempotency.ID]struct{}{}
		t.finished.FillPercent = 1 // it grows at its end: room left in the middle would stay empty
	}
	t.changed[id] = struct{}{}
	if old.State != idempotency.StateAbsent {
		k := keyOf(old.Due(), id)
		t.fail(t.bucket(old.State).Delete(k[:]))
	}
	if next.State == idempotency.StateAbsent {
		t.delete(id)
		return nil
	}
	k := keyOf(next.Due(), id)
	t.fail(t.bucket(next.State).Put(k[:], text))
	t.set(id, next.Due())
	return nil
}

func (t *tables) bucket(s idempotency.State) *bbolt.Bucket {
	if s == idempotency.StateRunning {
		return t.running
	}
	return t.finished
}

func (t *tables) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}
