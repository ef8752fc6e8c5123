package m11

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errScoringOpen = errors.New("scoring: circuit open")

type scoreGate struct {
	mu       sync.Mutex
	fails    int
	limit    int
	cool     time.Duration
	openedAt time.Time
	probing  bool
}

func (g *scoreGate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fails < g.limit {
		return true
	}
	if g.probing || time.Since(g.openedAt) < g.cool {
		return false
	}
	g.probing = true
	return true
}

func (g *scoreGate) report(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
	if err == nil {
		g.fails = 0
		return
	}
	if g.fails++; g.fails >= g.limit {
		g.openedAt = time.Now()
	}
}

// skip gives the place back without a verdict.
func (g *scoreGate) skip() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

type scoringClient struct {
	gate *scoreGate
	// call has a limit of two seconds of its own.
	call func(ctx context.Context, customer string) (int, error)
}

func (c *scoringClient) Score(ctx context.Context, customer string) (int, error) {
	if !c.gate.enter() {
		return 0, errScoringOpen
	}
	n, err := c.call(ctx, customer)
	if errors.Is(err, context.Canceled) {
		// WRONG: when the half-open probe's caller hangs up, probing stays true and the circuit stays open until the pod is restarted
		return 0, err
	}
	c.gate.report(err)
	return n, err
}

// RIGHT
func (c *scoringClient) ScoreSettled(ctx context.Context, customer string) (int, error) {
	if !c.gate.enter() {
		return 0, errScoringOpen
	}
	settle := c.gate.skip // also when call panics
	defer func() { settle() }()
	n, err := c.call(ctx, customer)
	if errors.Is(err, context.Canceled) {
		return 0, err
	}
	settle = func() { c.gate.report(err) }
	return n, err
}
