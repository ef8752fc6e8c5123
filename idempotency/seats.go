package idempotency

import (
	"context"
	"errors"
	"fmt"
)

// seats bounds the runs of work that uses the store's own connections, so that one is
// left for heartbeats and results: without it they wait for a run that holds a connection
// and waits for others, until its lease is over. Nil bounds nothing.
type seats chan struct{}

var errNoSeat = errors.New("idempotency: the store's connections are taken by other runs")

// newSeats returns seats for as many runs as the pool can bear, or what is wrong.
func newSeats(connections, perRun int) (seats, error) {
	if connections == 0 || perRun == 0 {
		return nil, nil
	}
	most := (connections - 1) / perRun
	if most < 1 {
		return nil, fmt.Errorf("connections per run: the store's pool has %d connections: one is kept for leases and results, and a run takes %d, so that none could begin. The pool needs %d for one run at a time, and %d more for each further",
			connections, perRun, perRun+1, perRun)
	}
	return make(seats, most), nil
}

// sharedPool is the warning about a pool that the settings do not mention.
func sharedPool(connections int) string {
	return fmt.Sprintf("the store's pool has %d connections: if the work takes its own from there, %d runs at once leave none to extend leases and to store results, and then outcomes become unknown. "+
		"Give the store a pool of its own and say so (OwnPool), or say how many connections a run takes at most (docs/idempotency.md#connections)", connections, connections)
}

// take waits for a seat until ctx ends.
func (s seats) take(ctx context.Context) bool {
	if s == nil {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	default:
	}
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s seats) leave() {
	if s != nil {
		<-s
	}
}
