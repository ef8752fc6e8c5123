package gabion

import (
	"context"
	"sync"

	"github.com/gabion-go/gabion/internal/machine"
)

// opening is a serial call whose result may outlive it, and with the result the
// machine: it is the gate of the attempt that is handed out.
type opening[T any] struct {
	mu sync.Mutex // guards all below once the attempt is handed out
	sending[T]
}

// serialOpen is serial for results that outlive the call.
func serialOpen[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error)) (T, *Attempt, error) {
	g, ok := d.spares.Get().(*opening[T])
	if !ok {
		g = new(opening[T])
	}
	g.keep = true
	if err := prepare[T](ctx, &g.runner, d, opts); err != nil {
		g.retire()
		var zero T
		return zero, nil, err
	}
	g.o.NoHedge = true // a reload may have come since the driver was chosen
	v, err := g.drive(work)
	if !g.open() {
		g.retire()
		return v, nil, err
	}
	return v, live(g, g.seen, g.at, g.watch, g.call.Succeeded()), err
}

func (g *opening[T]) machine() (*runner, *machine.Ticket) { return &g.runner, &g.step.Ticket }

func (g *opening[T]) lock() { g.mu.Lock() }

func (g *opening[T]) unlock() { g.tellAfter(&g.mu) }

// retire makes it ready for the next call: memory that was used just now is cheaper
// than new.
func (g *opening[T]) retire() {
	d := g.d
	*g = opening[T]{}
	d.spares.Put(g)
}
