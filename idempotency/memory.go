package idempotency

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	memoryShards     = 16        // enough that locks are rarely contended
	memoryRecords    = 1 << 18   // default bound on records: some 100 MB of small ones
	memoryBytes      = 256 << 20 // default bound on kept bodies and headers
	memorySweepEvery = 32        // claims of new keys between two looks at a shard
	memorySweepLook  = 64        // records looked at: twice what was added, so that at most half of a busy store is expired
	memorySweepRest  = 16        // after looks that found nothing, up to this factor more claims pass until the next
)

// A memoryStore is what NewMemoryStore returns.
type memoryStore struct {
	origin  time.Time
	records int64
	bytes   int64
	live    atomic.Int64 // records
	kept    atomic.Int64 // bytes of results and points
	shards  [memoryShards]memoryShard
}

type memoryShard struct {
	mu      sync.Mutex // guards all below
	records map[ID]*Record
	due     Moment   // before this, none of them has expired or was lost
	added   int      // since the last look
	rest    int      // how many times as many claims pass until the next look
	_       [64]byte // a cache line of its own
}

// NewMemoryStore returns a store in this process's memory: for tests, and for a single process
// whose restart may forget. It holds up to the given number of records, with up to the given
// bytes of bodies and headers together; zero means 262,144 records and 256 MiB. A full store
// refuses new keys with [ErrFull]; it never drops a record that has not expired. It sweeps
// itself as it is used.
func NewMemoryStore(records int, bytes int64) Store { return newMemoryStore(records, bytes) }

func newMemoryStore(records int, bytes int64) *memoryStore {
	records = cmp.Or(records, memoryRecords)
	bytes = cmp.Or(bytes, memoryBytes)
	s := &memoryStore{origin: time.Now(), records: int64(records), bytes: bytes}
	for i := range s.shards {
		s.shards[i].records, s.shards[i].due, s.shards[i].rest = map[ID]*Record{}, notDue, 1
	}
	return s
}

// notDue is when a shard is due that has no records.
const notDue = Moment(math.MaxInt64)

// now is the wall clock as it was when the store was made plus what the monotonic
// clock has counted since: setting the machine's clock ends no lease.
func (s *memoryStore) now() Moment {
	return Moment(s.origin.UnixNano()).Add(time.Since(s.origin))
}

func (s *memoryStore) shard(id ID) *memoryShard { return &s.shards[id[0]%memoryShards] }

var noRecord Record

// Begin implements [Store].
func (s *memoryStore) Begin(_ context.Context, c Claim) (Answer, error) {
	now := s.now()
	for {
		if a, ok := s.begin(c, now); ok {
			return a, nil
		}
		if !s.reclaim(c.ID, now) {
			return Answer{}, ErrFull
		}
	}
}

// begin is Begin where there is room for the record.
func (s *memoryStore) begin(c Claim, now Moment) (a Answer, ok bool) {
	h := s.shard(c.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	old, there := h.records[c.ID]
	if !there {
		if s.look(h, now); s.live.Load() >= s.records {
			return a, false
		}
		old = &noRecord
	}
	a, changed := old.Begin(c, now)
	if changed {
		s.put(h, c.ID, old, &a.Record)
	}
	return a, true
}

// reclaim drops what has expired, of the first shard that has such records from the ID's own
// on. It reports false if there are none in the whole store. Shards of which that is known
// are passed by.
func (s *memoryStore) reclaim(id ID, now Moment) (some bool) {
	for i := range s.shards {
		if s.dropDue(&s.shards[(int(id[0])+i)%memoryShards], now) {
			return true
		}
	}
	return false
}

func (s *memoryStore) dropDue(h *memoryShard, now Moment) (some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now < h.due {
		return false
	}
	before := len(h.records)
	h.due = notDue
	for id, old := range h.records {
		if next, changed := old.Sweep(now); !changed {
			h.due = min(h.due, old.Due())
		} else {
			s.swept(h, id, old, &next)
		}
	}
	return len(h.records) < before
}

// look looks for what has expired when it is time to.
func (s *memoryStore) look(h *memoryShard, now Moment) {
	if h.added++; h.added >= memorySweepEvery*h.rest {
		h.added = 0
		if s.sweepShard(h, now, memorySweepLook) > 0 {
			h.rest = 1
		} else {
			h.rest = min(2*h.rest, memorySweepRest)
		}
	}
}

// put stores a record in place of old. Readers have copies, whose slices the
// machine never changes.
func (s *memoryStore) put(h *memoryShard, id ID, old *Record, next *Record) {
	s.kept.Add(next.size() - old.size())
	h.due = min(h.due, next.Due())
	if old != &noRecord {
		*old = *next
		return
	}
	s.live.Add(1)
	kept := new(Record)
	*kept = *next
	h.records[id] = kept
}

func (s *memoryStore) drop(h *memoryShard, id ID, old *Record) {
	s.live.Add(-1)
	s.kept.Add(-old.size())
	delete(h.records, id)
}

func (r *Record) size() int64 {
	n := len(r.Result.Body) + sizeOf(r.Result.Header) + sizeOf(r.Result.Trailer)
	for _, p := range r.Points {
		n += len(p.Data)
	}
	return int64(n)
}

func sizeOf(fields []Field) (n int) {
	for i := range fields {
		n += len(fields[i].Name) + len(fields[i].Value)
	}
	return n
}

// Apply implements [Store]. It returns [ErrTooLarge] when bodies and headers together
// would be more than the store keeps.
func (s *memoryStore) Apply(_ context.Context, ref Ref, c Change) error {
	now := s.now()
	for {
		if ok, err := s.apply(ref, c, now); ok {
			return err
		}
		if !s.reclaim(ref.ID, now) {
			return ErrTooLarge
		}
	}
}

// apply is Apply where there are bytes enough.
func (s *memoryStore) apply(ref Ref, c Change, now Moment) (ok bool, err error) {
	h := s.shard(ref.ID)
	h.mu.Lock()
	defer h.mu.Unlock()
	old, there := h.records[ref.ID]
	if !there {
		return true, ErrLeaseLost
	}
	next, changed, err := old.Apply(ref, c, now)
	if err != nil || !changed {
		return true, err
	}
	if next.State == StateAbsent {
		s.drop(h, ref.ID, old)
		return true, nil
	}
	if more := next.size() - old.size(); more > 0 && s.kept.Load()+more > s.bytes {
		return false, nil
	}
	s.put(h, ref.ID, old, &next)
	return true, nil
}

// Get implements [Store].
func (s *memoryStore) Get(_ context.Context, id ID) (Record, error) {
	h := s.shard(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.records[id]; r != nil {
		return *r, nil
	}
	return Record{}, nil
}

// Now implements [Store].
func (s *memoryStore) Now(context.Context) (Moment, error) { return s.now(), nil }

// List implements [Store]. A page is a part of the store, however many records it has.
func (s *memoryStore) List(_ context.Context, cursor string, _ int) (entries []Entry, next string, err error) {
	n := 0
	if cursor != "" {
		if n, err = strconv.Atoi(cursor); err != nil || n < 0 || n >= memoryShards {
			return nil, "", fmt.Errorf("idempotency: %q is no cursor", cursor)
		}
	}
	h := &s.shards[n]
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, r := range h.records {
		entries = append(entries, Entry{ID: id, Record: r.Bare()})
	}
	if n+1 < memoryShards {
		next = strconv.Itoa(n + 1)
	}
	return entries, next, nil
}

// Sweep implements [Store]. It looks at up to limit records, whether due or not,
// from a place that differs each time.
func (s *memoryStore) Sweep(_ context.Context, limit int) (n int, err error) {
	now := s.now()
	for i := range s.shards {
		h := &s.shards[i]
		h.mu.Lock()
		look := min(limit, len(h.records))
		n += s.sweepShard(h, now, look)
		h.mu.Unlock()
		if limit -= look; limit <= 0 {
			break
		}
	}
	return n, nil
}

// sweepShard looks at up to look records. A map is read from a random place on.
func (s *memoryStore) sweepShard(h *memoryShard, now Moment, look int) (n int) {
	for id, old := range h.records {
		if look--; look < 0 {
			break
		}
		if next, changed := old.Sweep(now); changed {
			s.swept(h, id, old, &next)
			n++
		}
	}
	return n
}

// swept stores what a sweep made of a record.
func (s *memoryStore) swept(h *memoryShard, id ID, old, next *Record) {
	if next.State == StateAbsent {
		s.drop(h, id, old)
	} else {
		s.put(h, id, old, next)
	}
}

// Caps implements [Store].
func (s *memoryStore) Caps() Caps { return Caps{ServerClock: true} }
