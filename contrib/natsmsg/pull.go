package natsmsg

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
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

// A pull is the one request for messages that is out. No more is asked for than there is room:
// a message is in the hand before it is no longer counted here.
type pull struct {
	nc    *nats.Conn
	next  string        // where messages are asked for
	inbox string        // what the subjects of answers begin with
	lasts time.Duration // for which the broker keeps a request
	most  int           // messages that the broker lets one request have; zero means any number

	mu      sync.Mutex // guards all below
	n       uint64     // its number
	left    int        // messages that it may still bring; zero when none is out
	heard   time.Time  // when there last was a sign of it
	until   time.Time  // when the broker has forgotten it
	failed  int        // requests that failed one after the other
	resume  time.Time  // when to ask again after that
	why     error      // it failed last
	verify  bool       // whether the consumer is there is to be asked
	returns uint64     // of the connection, when the request was made
	closed  bool       // nothing is asked for any more
}

// ask asks for messages unless a request is out. room is how many, if any: it is called under the
// lock.
func (p *pull) ask(now time.Time, room func() int) {
	n, batch := p.begin(now, room)
	if batch == 0 {
		return
	}
	text, err := json.Marshal(map[string]any{"expires": p.lasts, "batch": batch, "idle_heartbeat": min(beats, p.lasts/3)})
	if err == nil {
		err = p.nc.PublishRequest(p.next, p.inbox+strconv.FormatUint(n, 10), text)
	}
	if err != nil {
		p.mu.Lock()
		p.refused(n, err)
		p.mu.Unlock()
	}
}

// begin returns the number of a request that is to be sent, and for how many messages; zero is none.
func (p *pull) begin(now time.Time, room func() int) (n uint64, batch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.left > 0 || now.Before(p.resume) {
		return 0, 0
	}
	if batch = room(); batch <= 0 {
		return 0, 0
	}
	if p.most > 0 {
		batch = min(batch, p.most)
	}
	p.n++
	p.left, p.heard, p.until = batch, now, now.Add(p.lasts+time.Second)
	p.returns = p.nc.Stats().Reconnects
	return p.n, batch
}

// came notes that a message came, and reports whether it was the last of the request.
func (p *pull) came(now time.Time) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.left--
		last = p.left == 0
	}
	p.heard, p.failed = now, 0
	return last
}

// refused notes that a request failed: the next waits. mu is held.
func (p *pull) refused(n uint64, err error) {
	if n != p.n {
		return
	}
	p.left, p.verify, p.why = 0, true, err
	p.resume = time.Now().Add(pauses.Delay(p.failed+1, 0, rand.Float64()))
	p.failed++
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

// status reads what the broker says of a request. The error is that the consumer is deleted.
func (p *pull) status(m *nats.Msg) error {
	n, err := strconv.ParseUint(m.Subject[len(p.inbox):], 10, 64)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != p.n {
		return nil
	}
	p.heard = time.Now()
	switch code, text := m.Header.Get("Status"), m.Header.Get("Description"); {
	case code == statusBeat:
		p.failed = 0
	case code == statusNothing, code == statusExpired:
		p.left, p.failed = 0, 0
	case code == statusConflict && text == consumerDeleted:
		return jetstream.ErrConsumerDeleted
	case code == statusNobody:
		p.refused(n, nats.ErrNoResponders)
	default:
		p.refused(n, errors.New("the broker says "+code+" "+text))
	}
	return nil
}

// lost ends a request of which nothing was heard for too long, or that an earlier connection made.
func (p *pull) lost(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left == 0:
	case p.returns != p.nc.Stats().Reconnects:
		p.left = 0
	case now.After(p.until):
		p.left = 0
	case now.Sub(p.heard) > 3*beats:
		p.refused(p.n, errors.New("nothing is heard of the broker"))
	}
}

// doubtful reports, once after each failure, that the consumer may be gone, and why.
func (p *pull) doubtful() (why error, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	yes, p.verify = p.verify, false
	return p.why, yes
}

// close lets nothing be asked for any more.
func (p *pull) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}
