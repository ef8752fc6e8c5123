package gabion

import (
	"sync"

	"github.com/gabion-go/gabion/internal/machine"
)

// gate guards the machine of a call that several goroutines use. It tells the observer
// what was decided, in the order of the decisions. No code of a user's runs under its
// lock. A call that one goroutine drives has a nil gate.
type gate struct {
	mu      sync.Mutex // guards the machine, the log and what follows
	said    []Event    // decided, and not told yet
	telling bool       // a goroutine is telling the observer
}

// holder keeps the machine of a call for an [Attempt] that the caller has.
type holder interface {
	parts() (*gate, *runner, *machine.Ticket) // the ticket is the attempt's
	retire()                                  // the attempt is closed, and its parts are not used any more
}

func (g *gate) lock() {
	if g != nil {
		g.mu.Lock()
	}
}

// unlock unlocks, and then tells the observer. One goroutine tells at a time, and also tells what
// others decide while it does.
func (g *gate) unlock(r *runner) {
	switch {
	case g == nil:
		r.publish()
		return
	case r.log == nil:
		g.mu.Unlock()
		return
	}
	defer r.d.deliver(r.told) // what happened to the dependency; without the lock
	g.said = append(g.said, r.log.Drain()...)
	if g.telling {
		g.mu.Unlock()
		return
	}
	g.telling = true
	for len(g.said) > 0 {
		batch := g.said
		g.said = nil
		g.tell(r, batch)
	}
	g.telling = false
	g.mu.Unlock()
}

// tell is called with the lock, tells without it, and takes it again. If an observer
// leaves by runtime.Goexit, the next goroutine that unlocks goes on telling.
func (g *gate) tell(r *runner, batch []Event) {
	g.mu.Unlock()
	done := false
	defer func() {
		g.mu.Lock()
		if !done {
			g.telling = false
			g.mu.Unlock()
		}
	}()
	for i := range batch {
		r.tell(&batch[i])
	}
	done = true
}
