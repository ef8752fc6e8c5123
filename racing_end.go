package gabion

import (
	"runtime"

	"github.com/gabion-go/gabion/policy"
)

// answer is the caller's last act. It is called with the lock.
func (x *racing[T]) answer() (T, *Attempt, error) {
	if crash := x.crash; crash != nil {
		x.unlock()
		x.abandon() // also what a hedge brought besides
		crash.rise()
	}
	err := x.run.failure(x.err)
	x.left = true
	stopped := x.armed == 0 || x.timer.Stop()
	x.endAll()
	reusable := x.reusable(stopped)
	var k kept[T]
	if x.kept != nil {
		k.open, k.value = x.kept.open, x.kept.value
	}
	x.unlock()
	if !k.open {
		x.run.finish()
	}
	switch {
	case k.open:
		return k.value, &Attempt{gate: x, ctx: x.kept.seen, at: x.kept.at, settled: true, well: err == nil}, err
	case reusable:
		x.reuse()
	}
	return k.value, nil, err
}

// rise makes the caller's goroutine leave as the other one did.
func (c *crash) rise() {
	if c.goexit {
		runtime.Goexit()
	}
	panic(c.value)
}

// abandon is the caller's last act when a user's code left its goroutine: work, or
// Discard. Nobody gets what a hedge may have brought.
func (x *racing[T]) abandon() {
	x.lock()
	x.left = true
	if x.timer != nil {
		x.timer.Stop()
	}
	if !x.run.call.Over() { // Discard panicked between two attempts
		x.run.call.Cancel(x.run.d.now())
	}
	lost := x.kept
	x.kept = nil
	if lost != nil && lost.open {
		x.run.call.Release(x.run.d.now(), lost.ticket, false)
	}
	x.endAll()
	x.unlock()
	x.run.finish()
	x.discard(lost)
}

func (x *racing[T]) machine() (*runner, *policy.Ticket) { return &x.run, &x.kept.ticket }

func (x *racing[T]) retire() {} // losers may still be out

func (x *racing[T]) lock() { x.mu.Lock() }

// unlock tells the observer what was decided, once the lock is gone. One
// goroutine tells at a time and takes along what others decide meanwhile, so that
// the order of telling is that of deciding.
func (x *racing[T]) unlock() {
	r := &x.run
	if r.log == nil {
		x.mu.Unlock()
		return
	}
	x.said = append(x.said, r.log.Drain()...)
	if x.told {
		x.mu.Unlock()
		return
	}
	x.told = true
	for len(x.said) > 0 {
		batch := x.said
		x.said = nil
		x.tell(batch)
	}
	x.told = false
	x.mu.Unlock()
}

// tell is called with the lock, tells without it and takes it again. An observer
// that leaves by runtime.Goexit leaves the telling to the next.
func (x *racing[T]) tell(batch []Event) {
	x.mu.Unlock()
	done := false
	defer func() {
		x.mu.Lock()
		if !done {
			x.told = false
			x.mu.Unlock()
		}
	}()
	for _, e := range batch {
		x.run.tell(e)
	}
	x.run.d.deliver(x.run.ctx)
	done = true
}
