package fleettest

import (
	"bytes"
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/gabion-go/gabion/fleet"
)

// Ahead is by how much the clock of a new [Memory] is ahead of the process's. A program that takes
// one clock for the other is then wrong by more than any lease.
const Ahead = 1000 * time.Hour

// Memory is a [fleet.Store] in memory, for tests and examples: its members are in one process. It does
// all that the suite asks for. The zero value is empty, works, and has the process's clock.
// Safe for concurrent use. In a synctest bubble its clock is the bubble's.
type Memory struct {
	mu      sync.Mutex // guards all below
	records map[string]record
	last    uint64 // version
	ahead   time.Duration
	batches int
	broken  error
	lost    error
}

type record struct {
	value   []byte
	version uint64
	until   time.Time // zero means for ever
}

var _ fleet.Store = (*Memory)(nil)

// NewMemory returns an empty store, whose clock is [Ahead] of the process's.
func NewMemory() *Memory { return &Memory{ahead: Ahead} }

// Do implements [fleet.Store]. It fails if the context is over.
func (m *Memory) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Result{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.batches++
	if m.broken != nil {
		return fleet.Result{}, m.broken
	}
	r := fleet.Result{Now: time.Now().Add(m.ahead).Round(0), Items: map[string]fleet.Item{}}
	m.expire(r.Now)
	if r.Swapped = b.Swap == nil || m.records[b.Swap.Key].version == b.Swap.Version; r.Swapped {
		m.put(b.Swap, r.Now)
		for i := range b.Puts {
			m.put(&b.Puts[i], r.Now)
		}
	}
	if m.lost != nil {
		return fleet.Result{}, m.lost
	}
	for _, key := range b.Get {
		m.read(key, r.Items)
	}
	for key := range m.records {
		if b.List != "" && strings.HasPrefix(key, b.List) {
			m.read(key, r.Items)
		}
	}
	return r, nil
}

func (m *Memory) expire(now time.Time) {
	for key, r := range m.records {
		if !r.until.IsZero() && now.After(r.until) {
			delete(m.records, key)
		}
	}
}

func (m *Memory) put(p *fleet.Put, now time.Time) {
	switch {
	case p == nil:
	case p.Value == nil:
		delete(m.records, p.Key)
	default:
		if m.records == nil {
			m.records = map[string]record{}
		}
		m.last++
		r := record{value: bytes.Clone(p.Value), version: m.last}
		if p.Lasts > 0 {
			r.until = now.Add(p.Lasts)
		}
		m.records[p.Key] = r
	}
}

func (m *Memory) read(key string, items map[string]fleet.Item) {
	if r, is := m.records[key]; is {
		items[key] = fleet.Item{Value: bytes.Clone(r.value), Version: r.version}
	}
}

// Break makes each Do fail with err and do nothing, as a store that is gone. Nil ends it.
func (m *Memory) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

// Lose makes each Do put what it has to put and then fail with err, as if the answer was lost. Nil
// ends it.
func (m *Memory) Lose(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = err
}

// Step sets the store's clock forward, or back if by is negative.
func (m *Memory) Step(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead += by
}

// Batches is how often Do was called, also in vain, with a context that was not over.
func (m *Memory) Batches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.batches
}

// Snapshot is a copy of the store as it is, with the same clock and none of its failures. A test of a
// fail-over with lost writes goes on with one that was taken before them.
func (m *Memory) Snapshot() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{ahead: m.ahead, last: m.last, records: maps.Clone(m.records)}
}
