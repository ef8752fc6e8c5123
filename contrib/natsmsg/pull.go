package natsmsg

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/backoff"
)

const (
	// lasts is how long a request for messages waits at the broker at most, and beats how
	// often the broker says that it still has it.
	lasts = 20 * time.Second
	beats = 2 * time.Second
)

// pauses are the waits after requests that failed.
var pauses = backoff.Equal(100*time.Millisecond, 10*time.Second)

// pulling is the one request for messages that is out, guarded by the subscription's mu.
type pulling struct {
	n       uint64    // its number
	left    int       // messages that it may still bring; zero when none is out
	heard   time.Time // when there last was a sign of it
	until   time.Time // when the broker has forgotten it
	failed  int       // requests that failed one after the other
	resume  time.Time // when to ask again after that
	verify  bool      // whether the consumer is there is to be asked
	returns uint64    // of the connection, when the request was made
}

// A request asks the broker for messages.
type request struct {
	n     uint64
	batch int
}

// want returns the request that is to be sent, if any. mu is held.
func (s *subscription) want(now time.Time) *request {
	if s.stopping || s.pull.left > 0 || now.Before(s.pull.resume) {
		return nil
	}
	limit := s.limit()
	n := limit - len(s.hand) + min(len(s.unheard), limit/2)
	if n <= 0 || n < limit/2 {
		return nil
	}
	if s.most > 0 {
		n = min(n, s.most)
	}
	s.pull.n++
	s.pull.left, s.pull.heard, s.pull.until = n, now, now.Add(s.lasts+time.Second)
	s.pull.returns = s.nc.Stats().Reconnects
	return &request{n: s.pull.n, batch: n}
}

// quick is work for which the way to the broker matters: as many messages are fetched ahead as
// are worked on at once. Of longer work none is, so that other processes get it.
const quick = 20 * time.Millisecond

// limit is how many messages this process may have now. mu is held.
func (s *subscription) limit() int {
	slots := s.c.Slots(s.o.Workers)
	switch open, _ := s.c.Room(0); {
	case open <= 0: // the breaker refuses
		return 0
	case open < slots: // it tries
		return open
	case s.o.Order != nil:
		return slots + s.o.Ahead
	case s.took < quick:
		return 2 * slots
	}
	return slots
}

// send sends a request. mu is not held.
func (s *subscription) send(r *request) {
	if r == nil {
		return
	}
	text, err := json.Marshal(map[string]any{"expires": s.lasts, "batch": r.batch, "idle_heartbeat": min(beats, s.lasts/3)})
	if err == nil {
		err = s.nc.PublishRequest(s.next, s.inbox+strconv.FormatUint(r.n, 10), text)
	}
	if err != nil {
		s.mu.Lock()
		s.refused(r.n, err)
		s.mu.Unlock()
	}
}

// refused notes that a request failed: the next waits. mu is held.
func (s *subscription) refused(n uint64, err error) {
	if n != s.pull.n {
		return
	}
	s.pull.left, s.pull.verify = 0, true
	s.pull.resume = time.Now().Add(pauses.Delay(s.pull.failed+1, 0, rand.Float64()))
	s.pull.failed++
	s.lastErr = err
}

// Why a request ends, as the server says it.
const (
	statusBeat      = "100"
	statusNothing   = "404"
	statusExpired   = "408"
	statusConflict  = "409"
	statusNobody    = "503"
	consumerDeleted = "Consumer Deleted"
)

// status reads what the broker says of a request.
func (s *subscription) status(m *nats.Msg) {
	n, err := strconv.ParseUint(m.Subject[len(s.inbox):], 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != s.pull.n {
		return
	}
	s.pull.heard = time.Now()
	switch code, text := m.Header.Get("Status"), m.Header.Get("Description"); {
	case code == statusBeat:
		s.pull.failed = 0
	case code == statusNothing, code == statusExpired:
		s.pull.left, s.pull.failed = 0, 0
	case code == statusConflict && text == consumerDeleted:
		s.fail(fmt.Errorf("%w: %s of stream %s", jetstream.ErrConsumerDeleted, s.durable, s.stream))
	case code == statusNobody:
		s.refused(n, nats.ErrNoResponders)
	default:
		s.refused(n, errors.New("the broker says "+code+" "+text))
	}
}

// lost ends a request of which nothing was heard for too long, or that an earlier connection
// made. mu is held.
func (s *subscription) lost(now time.Time) {
	p := &s.pull
	switch {
	case p.left == 0:
	case p.returns != s.nc.Stats().Reconnects:
		p.left = 0
	case now.After(p.until):
		p.left = 0
	case now.Sub(p.heard) > 3*beats:
		s.refused(p.n, errors.New("nothing is heard of the broker"))
	}
}
