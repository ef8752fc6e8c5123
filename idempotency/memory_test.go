package idempotency

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func claimOf(n int, retention time.Duration) Claim {
	return Claim{ID: IDOf("t", strconv.Itoa(n)), Owner: [16]byte{1, byte(n), byte(n >> 8)}, Lease: time.Minute, Retention: retention}
}

func TestFullMemoryRefusesAndForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore(100, 0)
		for n := range 100 {
			a, err := s.Begin(t.Context(), claimOf(n, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if n%2 == 0 {
				s.Apply(t.Context(), Ref{claimOf(n, 0).ID, a.Record.Token}, Change{State: StateDone})
			}
		}
		if _, err := s.Begin(t.Context(), claimOf(100, time.Hour)); !errors.Is(err, ErrFull) {
			t.Errorf("the 101st of 100: %v", err)
		}
		again := claimOf(0, time.Hour)
		again.Owner[0]++
		if a, err := s.Begin(t.Context(), again); err != nil || a.Decision != DecisionReplay {
			t.Errorf("a known key in a full store: %v, %v", a.Decision, err)
		}
		pass(time.Hour) // the done ones expire; the running ones do not
		made := 0
		for n := 200; n < 300; n++ {
			if _, err := s.Begin(t.Context(), claimOf(n, time.Hour)); err == nil {
				made++
			}
		}
		if made == 0 || made > 50 || s.live.Load() > 100 {
			t.Errorf("room for %d after 50 expired; %d records", made, s.live.Load())
		}
	})
}

// Headers are what a caller can make long too: a Location that repeats its query.
func TestMemoryBoundsHeaders(t *testing.T) {
	s := newMemoryStore(0, 100)
	line := func(size int) []Field { return []Field{{"N", strings.Repeat("x", size-1)}} }
	for n, c := range []struct {
		result Result
		err    error
	}{
		{Result{Header: line(30), Trailer: line(30), Body: make([]byte, 30)}, nil},
		{Result{Header: line(11)}, ErrTooLarge},
		{Result{Trailer: line(11)}, ErrTooLarge},
		{Result{Header: line(10)}, nil},
		{Result{Status: 201, Omitted: true}, nil},
	} {
		a, err := s.Begin(t.Context(), claimOf(n, time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(t.Context(), Ref{claimOf(n, 0).ID, a.Record.Token}, Change{State: StateDone, Result: c.result}); !errors.Is(err, c.err) {
			t.Errorf("result %d: %v", n, err)
		}
	}
}

func TestMemoryBoundsBodies(t *testing.T) {
	s := newMemoryStore(0, 100)
	put := func(n, size int) error {
		a, err := s.Begin(t.Context(), claimOf(n, time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return s.Apply(t.Context(), Ref{claimOf(n, 0).ID, a.Record.Token}, Change{State: StateDone, Result: Result{Body: make([]byte, size)}})
	}
	if err := put(1, 60); err != nil {
		t.Error(err)
	}
	if err := put(2, 60); !errors.Is(err, ErrTooLarge) {
		t.Errorf("120 bytes of 100: %v", err)
	}
	if err := put(3, 40); err != nil {
		t.Error(err)
	}
}

// A store in use stays as small as what has not expired, without anybody sweeping.
func TestMemorySweepsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemoryStore(0, 0)
		for n := range 20_000 {
			a, _ := s.Begin(t.Context(), claimOf(n, time.Second))
			s.Apply(t.Context(), Ref{claimOf(n, 0).ID, a.Record.Token}, Change{State: StateDone, Result: Result{Body: []byte("x")}})
			if n%100 == 0 {
				pass(time.Second)
			}
		}
		if s.live.Load() > 4000 {
			t.Errorf("%d records, of which 100 have not expired", s.live.Load())
		}
		pass(time.Hour)
		for range 1000 {
			s.Sweep(context.Background(), 1000)
		}
		if s.live.Load() != 0 || s.kept.Load() != 0 {
			t.Errorf("%d records with %d bytes are left", s.live.Load(), s.kept.Load())
		}
	})
}
