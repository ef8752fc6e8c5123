package idempotency

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A waitingRoom holds duplicates until the first run has ended. Runs of this
// process wake them; of others' ends they learn by asking.
type waitingRoom struct {
	perKey, max int

	anybody atomic.Bool // whether count is not zero; written under mu

	mu    sync.Mutex // guards all below
	count int
	rooms map[ID]*room
}

type room struct {
	count int
	ended chan struct{} // closed when a run here has ended
}

// enter returns a channel that is closed when a run of the key ends, or nil when
// too many wait already.
func (w *waitingRoom) enter(id ID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rooms == nil {
		w.rooms = map[ID]*room{}
	}
	r := w.rooms[id]
	if r == nil {
		r = &room{ended: make(chan struct{})}
	}
	if w.count >= w.max || r.count >= w.perKey {
		return nil
	}
	w.rooms[id] = r
	w.count++
	w.anybody.Store(true)
	r.count++
	return r.ended
}

// next returns the channel for the next end, for a duplicate that stays in the room.
func (w *waitingRoom) next(id ID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rooms[id].ended
}

func (w *waitingRoom) leave(id ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.rooms[id]
	w.count--
	w.anybody.Store(w.count > 0)
	if r.count--; r.count == 0 {
		delete(w.rooms, id)
	}
}

// wake makes those who wait for the key ask again. A duplicate that enters later asks the store
// after entering, and finds that the run has ended.
func (w *waitingRoom) wake(id ID) {
	if !w.anybody.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.rooms[id]; r != nil {
		close(r.ended)
		r.ended = make(chan struct{})
	}
}

// Those who wait ask the store again after these times, doubling: a run of another
// process does not wake them.
const (
	firstAsk = 20 * time.Millisecond
	lastAsk  = 250 * time.Millisecond
)

// wait asks again until the first run has ended, for as long as the configuration
// and the client allow. It returns the last answer.
func (c *core) wait(ctx context.Context, id ID, a Answer, ask func() (Answer, time.Time, error)) (Answer, time.Time, error) {
	ended := c.waiting.enter(id)
	if ended == nil {
		c.tell(ctx, Event{Kind: eventWaitersFull, ID: id})
		return a, time.Time{}, nil
	}
	defer c.waiting.leave(id)
	ctx, cancel := context.WithTimeout(ctx, c.terms.Wait)
	defer cancel()
	pause := firstAsk
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		// Asked after entering: a run that ended before that sends no wake-up.
		a, begun, err := ask()
		if err != nil || a.Decision != DecisionInProgress || ctx.Err() != nil {
			return a, begun, err
		}
		select {
		case <-ctx.Done():
			return a, begun, nil
		case <-ended:
			ended = c.waiting.next(id)
		case <-timer.C:
			pause = min(2*pause, lastAsk)
		}
		timer.Reset(pause)
	}
}
