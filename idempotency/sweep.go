package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
)

// SweepConfig is how [Sweep] works. The zero value is sound.
type SweepConfig struct {
	// Every is the time from one round to the next, give or take a tenth. Zero or less
	// means one minute.
	Every time.Duration

	// Batch is how many records the store is asked to look at in one step. Requests
	// may wait for a step, so it should be short. Zero or less means 256.
	Batch int

	// Observer receives an event for each round: "sweep", or "sweep_fail" if it failed.
	// Nil means none.
	Observer Observer
}

const (
	sweepEvery   = time.Minute
	sweepBatch   = 256
	sweepTimeout = time.Minute // of a step: a server that hangs must not end the sweeping
	sweepDoubles = 4           // times that the pause is doubled after failures: sixteen times as long
)

// Sweep sweeps a store in rounds until ctx ends, and returns then: it marks lost runs
// and deletes expired records. Call it in a goroutine, once in each process; processes
// that share a store don't disturb each other, and the first round comes after a
// random part of [SweepConfig].Every so that they don't meet. While much is due a round
// goes on, at half the store's time at most. After a failure the next round comes
// later, up to sixteen times Every, until one succeeds.
func Sweep(ctx context.Context, store Store, c SweepConfig) {
	s := sweeper{store: store, batch: c.Batch, observer: c.Observer}
	if s.batch <= 0 {
		s.batch = sweepBatch
	}
	every := c.Every
	if every <= 0 {
		every = sweepEvery
	}
	seed := randomSeed()
	failures := 0
	pause := time.Duration(float64(every) * chance.U(seed, 0, 0, chance.Backoff))
	for n := uint64(1); sleep(ctx, pause) && ctx.Err() == nil; n++ {
		if s.round(ctx) {
			failures = 0
		} else {
			failures = min(failures+1, sweepDoubles)
		}
		spread := 0.9 + 0.2*chance.U(seed, n, 0, chance.Backoff)
		pause = time.Duration(float64(every<<failures) * spread)
	}
}

func randomSeed() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:])
}

type sweeper struct {
	store    Store
	batch    int
	observer Observer
}

// round takes steps for as long as they find much, and reports whether the store
// answered. Between two it pauses as long as the last one took.
func (s *sweeper) round(ctx context.Context) bool {
	begun, records := time.Now(), 0
	for {
		at := time.Now()
		n, err := s.step(ctx)
		records += n
		if err != nil && ctx.Err() == nil {
			s.tell(ctx, Event{Kind: eventSweepFailed, Records: records, Took: time.Since(begun), Err: err})
			return false
		}
		if err != nil || n <= s.batch/2 || !sleep(ctx, time.Since(at)) {
			s.tell(ctx, Event{Kind: eventSwept, Records: records, Took: time.Since(begun)})
			return true
		}
	}
}

func (s *sweeper) step(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return s.store.Sweep(ctx, s.batch)
}

func (s *sweeper) tell(ctx context.Context, n Event) {
	if s.observer != nil {
		defer func() { _ = recover() }()
		s.observer.Observe(ctx, n)
	}
}
