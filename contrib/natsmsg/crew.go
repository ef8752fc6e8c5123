package natsmsg

import (
	"sync"
	"time"

	"github.com/gabion-go/gabion/messages/consumer"
)

// A crew is the goroutines that work on messages: at most as many as there are slots. One that has
// nothing to do stays for messages that come later, since a new goroutine has to grow its stack.
type crew struct {
	c       *consumer.Consumer
	workers int // slots where the policy's bulkhead is off
	hand    *hand
	work    func(*item)    // is a goroutine's work until no more comes; it ends with gone
	idle    chan *item     // to those that have nothing to do; closed when no more comes
	all     sync.WaitGroup // of the goroutines

	mu      sync.Mutex // guards all below; it is taken before the hand's
	working int
	took    time.Duration // by the work of a message lately, on average; it begins with a second
	takes   time.Duration // the same, with the messages to the broker
}

// slots is how many messages are worked on at once.
func (w *crew) slots() int { return w.c.Slots(w.workers) }

// take returns the next message to work on if there is room for it. mu is held.
func (w *crew) take() *item {
	slots := w.slots()
	if w.working >= slots {
		return nil
	}
	it := w.hand.next(slots, func() bool {
		room, _ := w.c.Room(w.working)
		return room > 0
	})
	if it != nil {
		w.working++
	}
	return it
}

// begin begins to work on as many messages as there is room for.
func (w *crew) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start()
}

// start is begin. mu is held: close comes before what is taken is started, or after that.
func (w *crew) start() {
	for it := w.take(); it != nil; it = w.take() {
		select {
		case w.idle <- it:
		default:
			w.all.Add(1)
			go w.work(it)
		}
	}
}

// Messages whose work is over in an instant are worked on by few goroutines, one after the
// other, since to wake one for each takes longer. If these get stuck, others begin within often.
const (
	instant = 100 * time.Microsecond
	few     = 8
)

// came begins to work on a message that came.
func (w *crew) came() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.takes > instant || w.working < few {
		w.start()
	}
}

// following returns the next message for a worker, or nil. work is the time that the work of the last
// one took, and all that with the replies to the broker.
func (w *crew) following(work, all time.Duration) *item {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.took += (work - w.took) / 16
	w.takes += (all - w.takes) / 16
	w.working--
	return w.take()
}

// gone notes that the work of a message ended its goroutine.
func (w *crew) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working--
	w.start()
}

// quick is work for which the way to the broker matters: as many messages are fetched ahead as
// are worked on at once. Of longer work none is, so that other processes get it.
const quick = 20 * time.Millisecond

// limit is how many messages this process may have now.
func (w *crew) limit() int {
	slots := w.slots()
	switch open, _ := w.c.Room(0); {
	case open <= 0: // the breaker refuses
		return 0
	case open < slots: // it tries
		return open
	case w.hand.ordered:
		return slots + w.hand.ahead
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.took < quick {
		return 2 * slots
	}
	return slots
}

// busy is how many messages are worked on.
func (w *crew) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.working
}

// close sends those away that have nothing to do. The hand is closed before.
func (w *crew) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.idle)
}
