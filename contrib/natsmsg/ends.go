package natsmsg

import (
	"bytes"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ends are the messages whose end the broker was told and has not confirmed. Their subscription
// keeps them in its hand, so that a delivery of one is recognized as done.
type ends struct {
	nc         *nats.Conn
	replies    string        // what the subjects of confirmations begin with
	visibility time.Duration // for which the broker keeps a delivery from others

	mu      sync.Mutex // guards all below
	unheard map[uint64]*item
	awaited bool
	heard   chan struct{} // gets one when nothing is unheard while that is awaited
}

// count is how many are not confirmed.
func (e *ends) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.unheard)
}

// add notes that the broker is about to be told of a message's end.
func (e *ends) add(it *item, what []byte) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	it.said, it.ended, it.asked = what, now, now
	e.unheard[it.seq] = it
}

// tell tells the broker that a message is over, and asks for an answer.
func (e *ends) tell(it *item, what []byte) {
	_ = e.nc.PublishRequest(it.raw.Reply, e.replies+strconv.FormatUint(it.seq, 10), what) // else it is told again
}

// plain is the reply of a message's end without a reason: in a cluster the server that has the
// message may be older than the one that is connected.
func plain(said []byte) []byte {
	if bytes.HasPrefix(said, term) {
		return term
	}
	return said
}

// noResponders is the status of the answer that a server gives where no one subscribes to a request's subject.
const noResponders = "503"

// confirmed reads the broker's confirmation of a message's end, and reports whether that was open.
// That no server listens, as while a consumer has no leader, confirms nothing: the end is sent again.
func (e *ends) confirmed(m *nats.Msg) (seq uint64, was bool) {
	seq, err := strconv.ParseUint(m.Subject[len(e.replies):], 10, 64)
	if err != nil || m.Header.Get("Status") == noResponders {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return seq, e.forget(seq)
}

// forget takes out a message of whose end the broker has heard. mu is held.
func (e *ends) forget(seq uint64) (was bool) {
	if e.unheard[seq] == nil {
		return false
	}
	delete(e.unheard, seq)
	if e.awaited && len(e.unheard) == 0 {
		select {
		case e.heard <- struct{}{}:
		default:
		}
	}
	return true
}

// silent returns the messages whose end has to be told again, and takes out those that the broker
// delivers again by now.
func (e *ends) silent(now time.Time) (again []*item, gone []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for seq, it := range e.unheard {
		switch {
		case now.Sub(it.ended) > e.visibility:
			e.forget(seq)
			gone = append(gone, seq)
		case now.Sub(it.asked) > min(e.visibility/3, flushTime):
			it.asked = now
			again = append(again, it)
		}
	}
	return again, gone
}

// wait waits a little for the broker's last confirmations.
func (e *ends) wait() {
	e.mu.Lock()
	open := len(e.unheard)
	e.awaited = true
	e.mu.Unlock()
	if open == 0 || !e.nc.IsConnected() {
		return
	}
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	select {
	case <-e.heard:
	case <-timer.C:
	}
}
