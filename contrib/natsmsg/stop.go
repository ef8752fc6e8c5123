package natsmsg

import (
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/messages/consumer"
)

// stop gives back what was not begun, waits for what was, and returns the error.
func (s *subscription) stop(why error) error {
	s.pull.close()
	for _, it := range s.hand.close() {
		s.tell(it, nak)
	}
	s.leave()
	s.crew.close() // nothing is begun any more
	ended := make(chan struct{})
	go func() {
		s.crew.all.Wait()
		close(ended)
	}()
	timer := time.NewTimer(max(s.o.Grace, 0))
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		s.end(ErrStopping)
		why = s.last(why, ended)
	}
	s.ends.wait()
	s.close()
	_ = s.nc.FlushTimeout(flushTime)
	return why
}

// storeTime is how long a store may take to hear of the end of a message.
const storeTime = 10 * time.Second

// last waits for work whose context has ended, and adds to the error what goes on.
func (s *subscription) last(why error, ended <-chan struct{}) error {
	timer := time.NewTimer(s.c.Grace() + storeTime)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		why = fmt.Errorf("%w; %d messages are still handled, as a store does not answer", why, s.crew.busy())
	}
	if left := s.c.Left(); len(left) > 0 {
		return errors.Join(why, &consumer.LeftError{Runs: left})
	}
	return why
}

// close ends what open began, but for the subscription to messages.
func (s *subscription) close() {
	if s.answers != nil {
		_ = s.answers.Unsubscribe()
	}
	if s.end != nil {
		s.end(nil)
	}
}

const flushTime = 2 * time.Second

// leave ends the subscription, so that the broker forgets the request that is out. What it
// sent before comes still, and is given back.
func (s *subscription) leave() {
	drained := make(chan struct{})
	s.sub.SetClosedHandler(func(string) { close(drained) })
	if !s.nc.IsConnected() || s.sub.Drain() != nil {
		_ = s.sub.Unsubscribe()
		return
	}
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
		_ = s.sub.Unsubscribe()
	}
}

// tell tells the broker about a message, and waits for nothing. What is lost on the way makes
// the message come again.
func (s *subscription) tell(it *item, what []byte) { _ = s.nc.Publish(it.raw.Reply, what) }
