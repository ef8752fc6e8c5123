// Package testfleet lets stores of fleets be without their server while they are used.
package testfleet

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/fleet"
)

// patience is how long a test waits for what a machine that works would bring.
const patience = time.Minute

// timeout is that of one batch. It is shorter than any outage.
const timeout = 500 * time.Millisecond

// A sum is what many add one to under compare-and-set, while the server comes and goes.
type sum struct {
	testing.TB
	key     string
	made    atomic.Int64 // swaps that were answered
	unclear atomic.Int64 // those that were not
	batches atomic.Int64 // that were answered
}

// Outages lets sixteen use a store on several handles, and breaks its server: each fault does so for some
// seconds, and returns when the server is there again. What was answered is there at the end, and what was not answered
// happened once or not at all.
func Outages(t *testing.T, open func(testing.TB) fleet.Store, faults ...func()) {
	const workers, between = 16, 200
	s := &sum{TB: t, key: fmt.Sprintf("outages-%d/sum", time.Now().UnixNano())}
	handles := []fleet.Store{open(t), open(t), open(t)}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for w := range workers {
		all.Go(func() { s.work(ctx, handles[w%len(handles)], w) })
	}
	s.until(between)
	for _, fault := range faults {
		fault()
		s.until(between)
	}
	stop()
	all.Wait()
	r, err := open(t).Do(t.Context(), fleet.Batch{Get: []string{s.key}})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := strconv.ParseInt(string(r.Items[s.key].Value), 10, 64)
	if made, unclear := s.made.Load(), s.unclear.Load(); got < made || got > made+unclear {
		t.Errorf("the sum is %d: %d swaps were made, and %d had no answer", got, made, unclear)
	} else {
		t.Logf("the sum is %d: %d swaps were made, and %d had no answer", got, made, unclear)
	}
}

// until waits for more batches to be answered.
func (s *sum) until(more int64) {
	s.Helper()
	goal := s.batches.Load() + more
	for limit := time.Now().Add(patience); s.batches.Load() < goal; <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			s.Fatalf("%d batches were answered, want %d", s.batches.Load(), goal)
		}
	}
}

// work adds, and reports itself beside, as a member does.
func (s *sum) work(ctx context.Context, store fleet.Store, w int) {
	pod := fleet.Put{Key: fmt.Sprint(s.key[:len(s.key)-len("sum")], "pods/", w), Value: []byte("here"), Lasts: time.Hour}
	do := func(b fleet.Batch) (fleet.Result, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		r, err := store.Do(ctx, b)
		if err == nil {
			s.batches.Add(1)
		}
		return r, err
	}
	for ctx.Err() == nil {
		r, err := do(fleet.Batch{Puts: []fleet.Put{pod}, Get: []string{s.key}})
		if err != nil {
			<-time.After(10 * time.Millisecond)
			continue
		}
		old := r.Items[s.key]
		n, _ := strconv.Atoi(string(old.Value))
		r, err = do(fleet.Batch{Swap: &fleet.Put{Key: s.key, Version: old.Version, Value: fmt.Append(nil, n+1)}})
		switch {
		case err != nil:
			s.unclear.Add(1)
		case r.Swapped:
			s.made.Add(1)
		}
	}
}
