package natsmsg

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/messages/message"
)

// Replies to the broker about a message.
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
		work := s.handle(it, begun)
		if it = s.following(work, begun); it == nil {
			it = <-s.idle
		}
	}
}

// following returns the next message for a worker, or nil. work is the time that the work of the last
// one took; with the replies to the broker it began at begun.
func (s *subscription) following(work time.Duration, begun time.Time) *item {
	now := time.Now()
	s.mu.Lock()
	s.took += (work - s.took) / 16
	s.takes += (now.Sub(begun) - s.takes) / 16
	it := s.take(s.working - 1)
	if it == nil {
		s.working--
	}
	r := s.want(now)
	s.mu.Unlock()
	s.send(r)
	return it
}

// handle handles a message, tells the broker what became of it, and returns how long it was
// handled.
func (s *subscription) handle(it *item, now time.Time) (took time.Duration) {
	if now.Sub(it.kept) > s.visibility/4 {
		s.tell(it, inProgress)
	}
	d := s.c.Handle(s.base, s.message(it), s.work)
	took = time.Since(now)
	if d.Verb == inbox.DeadLetter && !s.buried(it, &d) {
		d.Verb, d.After = inbox.Retry, unburied
	}
	switch {
	case d.Verb == inbox.Ack:
		s.answer(it, ack)
	case d.Verb == inbox.DeadLetter:
		s.answer(it, termination(s.nc.ConnectedServerVersion(), d.Reason))
	case !s.again(it, &d):
		s.later(it, d.After)
	}
	return took
}

// buried reports whether a dead letter is stored.
func (s *subscription) buried(it *item, d *inbox.Disposition) bool {
	if s.c.KeepsLetters() {
		return true
	}
	err := s.bury(it, d)
	if err != nil {
		s.o.Logger.Warn("a dead letter can't be published: its message comes again", slog.String("subject", s.o.DeadSubject), slog.Any("error", err))
	}
	return err == nil
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

// later has the broker deliver a message again after a while. At the end one that others must not
// overtake is given back at once.
func (s *subscription) later(it *item, after time.Duration) {
	what := nak
	if it.line == nil {
		text, err := json.Marshal(struct {
			Delay time.Duration `json:"delay"`
		}{max(after, time.Millisecond)})
		if err == nil {
			what = append(append(nak[:len(nak):len(nak)], ' '), text...)
		}
	}
	s.tell(it, what)
	s.mu.Lock()
	s.over(it)
	s.mu.Unlock()
}

// answer tells the broker that a message is over. It does not wait until the broker has confirmed
// that: the message stays in this process until then.
func (s *subscription) answer(it *item, what []byte) {
	if s.o.SingleAck {
		s.tell(it, what)
		s.mu.Lock()
		s.over(it)
		s.mu.Unlock()
		return
	}
	now := time.Now()
	s.mu.Lock()
	it.said, it.ended, it.asked = what, now, now
	s.unheard[it.seq] = it
	s.pass(it)
	s.mu.Unlock()
	s.ask(it, what)
}

// ask tells the broker that a message is over, and asks for an answer.
func (s *subscription) ask(it *item, what []byte) {
	_ = s.nc.PublishRequest(it.raw.Reply, s.replies+strconv.FormatUint(it.seq, 10), what) // else it is asked again
}

// plain is the reply of a message's end without a reason: in a cluster the server that has the
// message may be older than the one that is connected.
func plain(said []byte) []byte {
	if bytes.HasPrefix(said, term) {
		return term
	}
	return said
}

// confirm gets the broker's confirmation of a message's end. That the consumer is gone is an end,
// too.
func (s *subscription) confirm(m *nats.Msg) {
	seq, err := strconv.ParseUint(m.Subject[len(s.replies):], 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.forget(seq)
	r := s.want(time.Now())
	s.mu.Unlock()
	s.send(r)
}

// forget takes a message out of what this process has, of whose end the broker has heard. mu is
// held.
func (s *subscription) forget(seq uint64) {
	if s.unheard[seq] == nil {
		return
	}
	delete(s.unheard, seq)
	delete(s.hand, seq)
	if s.stopping && len(s.unheard) == 0 {
		select {
		case s.heard <- struct{}{}:
		default:
		}
	}
}

// silent returns the messages whose end has to be sent again, and forgets those that the broker
// delivers again by now: they are recognized as done. mu is held.
func (s *subscription) silent(now time.Time) (all []*item) {
	for seq, it := range s.unheard {
		switch {
		case now.Sub(it.ended) > s.visibility:
			s.forget(seq)
		case now.Sub(it.asked) > min(s.visibility/3, flushTime):
			it.asked = now
			all = append(all, it)
		}
	}
	return all
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
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !sendable(name) })
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.base), max(s.o.Grace, 0)+flushTime)
	defer cancel()
	_, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: s.o.DeadSubject, Header: h, Data: m.Payload}, jetstream.WithMsgID("dead/"+string(deadletter.IDOf(s.c.Group(), key, m.Payload))))
	return err
}
