package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// memory is the store of [NewMemory].
type memory struct {
	options Options
	room    *Room

	mu      sync.Mutex // guards all below
	letters map[ID]*Stored
	list    []*Stored // the same, in the order of their places
	noted   map[ID]*note
	courses map[string]Course // by group
	bytes   int64
	put     map[string]int64 // by group
	taker   uint32           // who takes its letters: this process
}

// A note is what was written of a message that is no letter.
type note struct {
	failures []Failure
	last     time.Time
}

// NewMemory returns an empty store that keeps letters in this process's memory: for tests, and for a single process whose
// restart may forget. It looks at every letter for most of what it does, so it is for some
// ten thousand of them. The error says everything that is wrong with the options.
func NewMemory(o Options) (Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("deadletter: memory: %w", err)
	}
	o.MaxLetters = cmp.Or(o.MaxLetters, 10_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &memory{options: o.Resolved(), room: NewRoom(o), letters: map[ID]*Stored{}, noted: map[ID]*note{}, courses: map[string]Course{}, put: map[string]int64{}, taker: NewTaker()}, nil
}

// Fail implements [Store].
func (m *memory) Fail(ctx context.Context, id ID, f Failure) error {
	if err := cmp.Or(ctx.Err(), id.Validate()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.letters[id]; r != nil && r.Live() {
		m.keep(r, r.Fail(f))
		return nil
	}
	n := m.noted[id]
	if n == nil {
		if len(m.noted) >= m.options.MaxLetters {
			m.forgetOldest()
		}
		n = &note{}
		m.noted[id] = n
	}
	n.failures, n.last = AddFailures(n.failures, f), m.options.Clock()
	return nil
}

func (m *memory) forgetOldest() {
	var oldest ID
	for id, n := range m.noted {
		if oldest == "" || n.last.Before(m.noted[oldest].last) {
			oldest = id
		}
	}
	delete(m.noted, oldest)
}

// Forget implements [Store].
func (m *memory) Forget(ctx context.Context, id ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.noted, id)
	return nil
}

// Put implements [Store].
func (m *memory) Put(ctx context.Context, l Letter) error {
	if n := l.Size(); n > min(m.options.MaxPayload, m.options.MaxBytes) {
		return fmt.Errorf("%w: it has %d bytes, and the bound is %d", ErrTooLarge, n, min(m.options.MaxPayload, m.options.MaxBytes))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return m.room.Put(ctx, func() (*Notice, error) { return m.tryPut(&l) }, m.removeWaiting)
}

// tryPut puts a letter away, unless waiting ones have to go before.
func (m *memory) tryPut(l *Letter) (*Notice, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var old Stored
	if r := m.letters[l.ID]; r != nil {
		old = *r
	}
	var noted []Failure
	if n := m.noted[l.ID]; n != nil {
		noted = n.failures
	}
	now := m.options.Clock()
	next, err := old.Put(*l, noted, now)
	if err != nil {
		return nil, err
	}
	if !old.Live() {
		if notice, err := m.lack(&old, &next); notice != nil || err != nil {
			return notice, err
		}
		m.put[l.Group]++
	}
	delete(m.noted, l.ID)
	m.keep(m.letters[l.ID], next)
	return nil, nil
}

// lack removes what is done or dropped until there is room for a letter. If that is not
// enough, it says which waiting ones have to go.
func (m *memory) lack(old, next *Stored) (*Notice, error) {
	need, more := next.Bytes(), 1
	if old.ID != "" {
		need, more = need-old.Bytes(), 0
	}
	lacks := func(letters int, bytes int64) bool {
		return len(m.letters)-letters+more > m.options.MaxLetters || m.bytes-bytes+need > m.options.MaxBytes
	}
	for lacks(0, 0) {
		r := m.oldest(func(r *Stored) bool { return !r.Live() && r.ID != next.ID })
		if r == nil {
			break
		}
		m.remove(r)
	}
	if !lacks(0, 0) {
		return nil, nil
	}
	full := fmt.Errorf("%w: it has %d letters with %d bytes, and the bounds are %d and %d", ErrFull, len(m.letters), m.bytes, m.options.MaxLetters, m.options.MaxBytes)
	if m.options.Overflow == Refuse {
		return nil, full
	}
	n := &Notice{}
	for _, r := range m.list {
		if r.State == Waiting {
			n.Add(r.Group, r.Bytes(), PlaceOf(&r.Letter))
		}
		if !lacks(n.Letters, n.Bytes) {
			return n, nil
		}
	}
	return nil, full
}

// oldest returns the one that came into its state first.
func (m *memory) oldest(of func(*Stored) bool) (first *Stored) {
	for _, r := range m.list {
		if of(r) && (first == nil || r.Since.Before(first.Since)) {
			first = r
		}
	}
	return first
}

// removeWaiting removes the letters that were told of.
func (m *memory) removeWaiting(told Notice) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range slices.Clone(m.list) {
		if told.Letters == 0 || byPlace(r, told.Last) > 0 {
			break
		}
		if r.State == Waiting {
			m.remove(r)
			told.Letters--
		}
	}
	return nil
}

// keep replaces a record, or adds one if old is nil.
func (m *memory) keep(old *Stored, next Stored) {
	if old != nil && PlaceOf(&old.Letter) == PlaceOf(&next.Letter) {
		m.bytes += next.Bytes() - old.Bytes()
		*old = next
		return
	}
	if old != nil {
		m.remove(old)
	}
	r := &next
	at, _ := slices.BinarySearchFunc(m.list, PlaceOf(&r.Letter), byPlace)
	m.list = slices.Insert(m.list, at, r)
	m.letters[r.ID] = r
	m.bytes += r.Bytes()
}

func byPlace(r *Stored, p Place) int { return PlaceOf(&r.Letter).Compare(p) }

func (m *memory) remove(r *Stored) {
	at, _ := slices.BinarySearchFunc(m.list, PlaceOf(&r.Letter), byPlace)
	m.list = slices.Delete(m.list, at, at+1)
	delete(m.letters, r.ID)
	m.bytes -= r.Bytes()
}

// Get implements [Store].
func (m *memory) Get(ctx context.Context, id ID) (Letter, error) {
	if err := ctx.Err(); err != nil {
		return Letter{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.letters[id]
	if r == nil {
		return Letter{}, missing(id)
	}
	return r.Clone(), nil
}

func missing(id ID) error { return fmt.Errorf("%w: %.40s", ErrNotFound, strconv.Quote(string(id))) }

// List implements [Store].
func (m *memory) List(ctx context.Context, q Query, from string, limit int) (Page, error) {
	limit, err := Limit(limit)
	place, wrong := ParsePlace(from)
	if err := cmp.Or(ctx.Err(), err, wrong, q.Validate()); err != nil {
		return Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var p Page
	at, found := slices.BinarySearchFunc(m.list, place, byPlace)
	if found {
		at++
	}
	for _, r := range m.list[at:] {
		if !q.Picks(&r.Letter) {
			continue
		}
		if len(p.Letters) == limit {
			p.Next = PlaceOf(&p.Letters[limit-1]).String()
			break
		}
		p.Letters = append(p.Letters, r.Bare())
	}
	return p, nil
}

// Count implements [Store].
func (m *memory) Count(ctx context.Context, q Query) (all []Tally, err error) {
	if err := cmp.Or(ctx.Err(), q.Validate()); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.named(&q) {
		if q.Picks(&r.Letter) {
			all = AddTally(all, Tally{r.Group, r.State, r.Reason, r.Held(), 1})
		}
	}
	return all, nil
}

// named returns the letters that a query names, or all if it names none.
func (m *memory) named(q *Query) (some []*Stored) {
	if len(q.IDs) == 0 {
		return m.list
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(q.IDs))) {
		if r := m.letters[id]; r != nil {
			some = append(some, r)
		}
	}
	return some
}

// change decides about one letter and keeps what becomes of it.
func (m *memory) change(ctx context.Context, id ID, decide func(Stored, time.Time) (Stored, bool, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.letters[id]
	if r == nil {
		return missing(id)
	}
	next, changed, err := decide(*r, m.options.Clock())
	if err == nil && changed {
		m.keep(r, next)
	}
	return err
}

// Resolve implements [Store].
func (m *memory) Resolve(ctx context.Context, id ID, res Resolution, by, note string) error {
	return m.change(ctx, id, func(r Stored, now time.Time) (Stored, bool, error) { return r.Resolve(res, by, note, now) })
}

// Drop implements [Store].
func (m *memory) Drop(ctx context.Context, id ID, by, note string) error {
	return m.change(ctx, id, func(r Stored, now time.Time) (Stored, bool, error) { return r.Drop(by, note, now) })
}

// Groups implements [Store].
func (m *memory) Groups(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for group := range m.put {
		all = append(all, group)
	}
	slices.Sort(all)
	return all, nil
}

// Stats implements [Store].
func (m *memory) Stats(ctx context.Context, group string) (Stats, error) {
	if err := ctx.Err(); err != nil {
		return Stats{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var s Stats
	for of, n := range m.put {
		if group == "" || of == group {
			s.Put += n
		}
	}
	for _, r := range m.list {
		if group != "" && r.Group != group {
			continue
		}
		s.Count(r.State, r.Reason, r.Held(), 1, r.Bytes())
		s.Newest = r.Kept
		if r.State == Waiting && s.Oldest.IsZero() {
			s.Oldest = r.Kept
		}
	}
	return s, nil
}

// Sweep implements [Store].
func (m *memory) Sweep(ctx context.Context) (removed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.options.Clock().Add(-m.options.Retention)
	for id, n := range m.noted {
		if n.last.Before(before) {
			delete(m.noted, id)
			removed++
		}
	}
	for _, r := range slices.Clone(m.list) {
		if !r.Live() && r.Since.Before(before) {
			m.remove(r)
			removed++
		}
	}
	maps.DeleteFunc(m.courses, func(_ string, c Course) bool { return c.State != Driving && c.Made.Before(before) })
	return removed, nil
}
