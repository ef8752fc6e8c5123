package natsmsg

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/deadletter"
	"github.com/gabion-go/gabion/idempotency/inbox"
	"github.com/gabion-go/gabion/message"
)

// What the broker is told about a message.
var (
	ack        = []byte("+ACK")
	nak        = []byte("-NAK")
	term       = []byte("+TERM")
	inProgress = []byte("+WPI")
)

// worker works on a message, and then on others. It stays for those that come later, since a
// new goroutine has to grow its stack for each.
func (s *subscription) worker(it *item) {
	defer s.workers.Done()
	defer func() {
		if it != nil { // the work ended this goroutine
			s.tell(it, nak)
			s.mu.Lock()
			s.over(it)
			s.working--
			s.begin()
			s.mu.Unlock()
		}
	}()
	for it != nil {
		begun := time.Now()
		work := s.handle(it)
		if it = s.following(work, time.Since(begun)); it == nil {
			it = <-s.idle
		}
	}
}

// following returns the next message for a worker, nil if there is none. The last one took so
// long, with what was told to the broker.
func (s *subscription) following(work, all time.Duration) *item {
	s.mu.Lock()
	s.took += (work - s.took) / 16
	s.takes += (all - s.takes) / 16
	it := s.take(s.working - 1)
	if it == nil {
		s.working--
	}
	r := s.want(time.Now())
	s.mu.Unlock()
	s.send(r)
	return it
}

// handle handles a message, tells the broker what became of it, and returns how long it was
// handled.
func (s *subscription) handle(it *item) (took time.Duration) {
	if time.Since(it.kept) > s.visibility/4 {
		s.tell(it, inProgress)
	}
	m := s.message(it)
	begun := time.Now()
	d := s.c.Handle(s.base, m, s.work)
	took = time.Since(begun)
	if d.Verb == inbox.Retry && s.again(it, &d) {
		return took
	}
	switch d.Verb {
	case inbox.Ack:
		s.answer(it, ack)
	case inbox.DeadLetter:
		if !s.c.KeepsLetters() {
			if err := s.bury(it, &d); err != nil {
				s.o.Logger.Warn("a dead letter can't be published: its message comes again", slog.String("subject", s.o.DeadSubject), slog.Any("error", err))
				s.later(it, unburied)
				break
			}
		}
		s.answer(it, append(append(term[:len(term):len(term)], ' '), d.Reason...))
	default:
		s.later(it, d.After)
	}
	s.mu.Lock()
	s.over(it)
	s.mu.Unlock()
	return took
}

// unburied is the wait of a message whose dead letter was not stored.
const unburied = 5 * time.Second

// again keeps a message in this process that is to be tried again here: since others of its
// order must not overtake it, or since the breaker refused it between being asked and the
// work.
func (s *subscription) again(it *item, d *inbox.Disposition) bool {
	refused := d.Reason == inbox.ReasonRefused && d.Attempt == 0
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	if it.line == nil {
		if room, _ := s.c.Room(0); !refused || room > 0 {
			return false
		}
	}
	if !refused {
		it.tries++
	}
	s.hold(it, d.After)
	return true
}

// later has the broker deliver a message again after a while.
func (s *subscription) later(it *item, after time.Duration) {
	text, err := json.Marshal(struct {
		Delay time.Duration `json:"delay"`
	}{max(after, time.Millisecond)})
	if err != nil {
		s.tell(it, nak)
		return
	}
	s.tell(it, append(append(nak[:len(nak):len(nak)], ' '), text...))
}

// answer tells the broker that a message is over.
func (s *subscription) answer(it *item, what []byte) {
	if s.o.SingleAck {
		s.tell(it, what)
		return
	}
	_, _ = s.nc.Request(it.raw.Reply, what, min(s.visibility, flushTime)) // else it comes again, and is recognized
}

// confirmed tells the broker something and waits until it has heard it.
func (s *subscription) confirmed(ctx context.Context, reply string, what []byte) error {
	_, err := s.nc.RequestWithContext(ctx, reply, what)
	return err
}

// What the headers of published dead letters say beside their own.
const (
	DeadPrefix   = "Gabion-Dead-" // what their names begin with
	DeadReason   = DeadPrefix + "Reason"
	DeadError    = DeadPrefix + "Error"
	DeadAttempts = DeadPrefix + "Attempts"
	DeadGroup    = DeadPrefix + "Group"
	DeadSource   = DeadPrefix + "Source"
	DeadPosition = DeadPrefix + "Position"
)

// bury publishes a dead letter, under an id that is the same each time.
func (s *subscription) bury(it *item, d *inbox.Disposition) error {
	m := s.message(it)
	key := m.ID
	if key == "" {
		key = "\x00" + m.Source + "\x00" + m.Position
	}
	h := natsHeaders(m.Headers)
	if m.ID != "" {
		h.Set(message.Key, m.ID)
	}
	for name, value := range map[string]string{
		DeadReason: string(d.Reason), DeadAttempts: strconv.Itoa(d.Attempt), DeadGroup: s.c.Group(), DeadSource: m.Source, DeadPosition: m.Position,
	} {
		h.Set(name, value)
	}
	if d.Err != nil {
		h.Set(DeadError, oneLine(d.Err.Error()))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.base), s.o.Grace+flushTime)
	defer cancel()
	_, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: s.o.DeadSubject, Header: h, Data: m.Payload}, jetstream.WithMsgID("dead/"+string(deadletter.IDOf(s.c.Group(), key, m.Payload))))
	return err
}
