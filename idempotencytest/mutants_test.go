package idempotencytest

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// A disk is what the handles of a made-up store share.
type disk struct {
	mu      sync.Mutex // guards records
	records map[idempotency.ID]idempotency.Record
	meet    chan struct{} // two that are about to write
}

func (d *disk) load(id idempotency.ID) idempotency.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[id]
}

func (d *disk) save(id idempotency.ID, r idempotency.Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.State == idempotency.StateAbsent {
		delete(d.records, id)
		return
	}
	d.records[id] = r
}

func (d *disk) ids() (all []idempotency.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.records {
		all = append(all, id)
	}
	return all
}

// A fault is what is wrong with a store.
type fault string

const (
	noFault      fault = "none"
	ownLock      fault = "a lock of the process in place of compare-and-set"
	ownClock     fault = "each process has its own clock"
	blindSweep   fault = "a sweep deletes what has expired when it looked"
	lostAttempt  fault = "the attempt is not kept"
	lostAttempt2 fault = "the attempt is not kept when a run is released"
	lostCreated  fault = "when the first run began is not kept"
	overflow     fault = "durations overflow"
	tombstone    fault = "a record that was forgotten stays, and is empty"
)

// A handle is one process's on a disk. Without a fault one lock stands for the
// compare-and-set of a database, and one clock for its own.
type handle struct {
	*disk
	fault fault
	lock  *sync.Mutex
	ahead time.Duration
}

var oneLock sync.Mutex

func openHandle(d *disk, f fault, ahead time.Duration) *handle {
	h := &handle{disk: d, fault: f, lock: &oneLock}
	if f == ownLock {
		h.lock = new(sync.Mutex)
	}
	if f == ownClock {
		h.ahead = ahead
	}
	return h
}

func (h *handle) now() idempotency.Moment { return now().Add(h.ahead) }

// write stores what the machine said, but for what is lost.
func (h *handle) write(id idempotency.ID, old, next idempotency.Record) {
	if h.fault == ownLock {
		h.await()
	}
	switch {
	case h.fault == tombstone && next.State == idempotency.StateAbsent:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.records[id] = next
		return
	case h.fault == lostAttempt, h.fault == lostAttempt2 && next.State == idempotency.StateRetryable:
		next.Attempt = min(next.Attempt, 1)
	case h.fault == lostCreated && old.State != idempotency.StateAbsent:
		next.Created = h.now()
	case h.fault == overflow && next.State != idempotency.StateRunning:
		next.Expires = next.Finished + idempotency.Moment(next.Retention)
	}
	h.save(id, next)
}

// await lets another handle come to the same point: both have read, and neither has written.
// Without it the gap is so narrow that a busy machine hardly ever has two in it.
func (h *handle) await() {
	select {
	case h.meet <- struct{}{}:
	case <-h.meet:
	case <-time.After(10 * time.Second): // this handle is the only one
	}
}

func (h *handle) Begin(_ context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	h.lock.Lock()
	defer h.lock.Unlock()
	old := h.load(c.ID)
	a, changed := old.Begin(c, h.now())
	if changed {
		h.write(c.ID, old, a.Record)
	}
	return a, nil
}

func (h *handle) Apply(_ context.Context, ref idempotency.Ref, c idempotency.Change) error {
	h.lock.Lock()
	defer h.lock.Unlock()
	old := h.load(ref.ID)
	next, changed, err := old.Apply(ref, c, h.now())
	if changed {
		h.write(ref.ID, old, next)
	}
	return err
}

func (h *handle) Now(context.Context) (idempotency.Moment, error) { return h.now(), nil }

func (h *handle) List(context.Context, string, int) (all []idempotency.Entry, next string, err error) {
	for _, id := range h.ids() {
		all = append(all, idempotency.Entry{ID: id, Record: h.load(id).Bare()})
	}
	return all, "", nil
}

func (h *handle) Get(_ context.Context, id idempotency.ID) (idempotency.Record, error) {
	return h.load(id), nil
}

func (h *handle) Sweep(_ context.Context, limit int) (n int, err error) {
	for _, id := range h.ids() {
		if n == limit {
			break
		}
		if h.sweep(id) {
			n++
		}
	}
	return n, nil
}

func (h *handle) sweep(id idempotency.ID) bool {
	if h.fault != blindSweep {
		h.lock.Lock()
		defer h.lock.Unlock()
	}
	old := h.load(id)
	next, changed := old.Sweep(h.now())
	if h.fault == blindSweep {
		runtime.Gosched() // a database would take far longer
	}
	if changed {
		h.save(id, next)
	}
	return changed
}

func (h *handle) Caps() idempotency.Caps { return idempotency.Caps{ServerClock: true} }

// on returns how the suite opens such stores.
func on(f fault) Config {
	d := &disk{records: map[idempotency.ID]idempotency.Record{}, meet: make(chan struct{})}
	return Config{
		Open: func(testing.TB) idempotency.Store { return openHandle(d, f, 0) },
		Again: func(_ testing.TB, _ idempotency.Store, ahead time.Duration) idempotency.Store {
			return openHandle(d, f, ahead)
		},
	}
}

func TestStoreWithTwoHandles(t *testing.T) {
	if testing.Short() {
		t.Skip("long: leases end in real time")
	}
	Run(t, on(noFault))
}

// try runs a case and reports whether it failed.
func try(t *testing.T, c Config, run func(*bench)) bool {
	j := &judged{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends it
		defer close(done)
		run(&bench{TB: j, store: c.Open(j), again: c.Again})
	}()
	<-done
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// Each fault is found each time by the case that is there for it.
func TestFaultyStoresAreFound(t *testing.T) {
	times := 3
	if testing.Short() {
		times = 1
	}
	if os.Getenv("GABION_SOAK") == "1" {
		times = 20
	}
	for f, run := range map[fault]func(*bench){
		ownLock: twoHandles, ownClock: clocks, blindSweep: sweepRaces,
		lostAttempt: kept, lostAttempt2: kept, lostCreated: kept, overflow: forEver, tombstone: administered,
	} {
		t.Run(string(f), func(t *testing.T) {
			for n := range times {
				if !try(t, on(f), run) {
					t.Errorf("try %d: it was not found", n)
				}
			}
			if try(t, on(noFault), run) {
				t.Error("the same case fails a store without a fault")
			}
		})
	}
}
