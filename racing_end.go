package gabion

import (
	"runtime"

	"github.com/gabion-go/gabion/internal/machine"
)

// answer is the caller's last act. It is called with the lock. Until it says that it
// has answered, an observer may leave by runtime.Goexit, and the call is abandoned.
func (x *racing[T]) answer(answered *bool) (v T, had bool, _ *Attempt, err error) {
	if crash := x.crash; crash != nil {
		x.unlock()
		crash.rise()
	}
	x.endAll()
	err = x.err
	if x.kept != nil {
		v, had = x.kept.value, x.kept.have && err == nil
	}
	spare, well, verdict := x.reusable(), x.run.call.Succeeded(), x.run.call.End()
	if spare && well {
		*answered = true
		x.run.finish()
		x.reuse()
		return v, had, nil, err
	}
	if !spare {
		x.stop()
	}
	x.unlock()
	if !well {
		err = x.run.failed(verdict, err)
	}
	*answered = true
	if x.kept != nil && x.kept.open {
		k := x.kept
		return v, had, live(x, k.seen, k.at, k.watch, err == nil), err
	}
	x.run.finish()
	if spare {
		x.lock()
		x.reuse()
	}
	return v, had, nil, err
}

// reuse unlocks the racer and hands it to the next call. A wake-up that was not heard
// goes with it: it makes that call look once more.
func (x *racing[T]) reuse() {
	d := x.run.d
	x.round = round[T]{}
	x.mu.Unlock()
	d.spares.Put(x)
}

// stop is for a call that nobody drives any more.
func (x *racing[T]) stop() {
	x.left = true
	if x.timer != nil {
		x.timer.Stop()
	}
}

// rise makes the caller's goroutine leave as the other one did.
func (c *crash) rise() {
	if c.goexit {
		runtime.Goexit()
	}
	panic(c.value)
}

// abandon is the caller's last act when a user's code left its goroutine: work,
// Discard, an observer. Nobody gets what a hedge may have brought.
func (x *racing[T]) abandon() {
	x.lock()
	x.stop()
	if !x.run.call.Over() { // Discard panicked between two attempts
		x.run.call.Cancel(x.run.d.now())
	}
	lost := x.kept
	x.kept = nil
	if lost != nil && lost.open {
		x.run.call.Release(x.run.d.now(), lost.ticket, false)
	}
	x.endAll()
	defer x.discard(lost)
	defer x.run.finish()
	x.unlock()
}

func (x *racing[T]) machine() (*runner, *machine.Ticket) { return &x.run, &x.kept.ticket }

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
