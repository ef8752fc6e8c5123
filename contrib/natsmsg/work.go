package natsmsg

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"strings"
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

// work works on a message, and then on others until there are no more.
func (s *subscription) work(it *item) {
	defer s.crew.all.Done()
	defer func() {
		if it != nil { // the work ended this goroutine
			s.tell(it, nak)
			s.hand.over(it)
			s.crew.gone()
		}
	}()
	for it != nil {
		begun := time.Now()
		work := s.handle(it, begun)
		now := time.Now()
		it = s.crew.following(work, now.Sub(begun))
		s.request(now)
		if it == nil {
			it = <-s.crew.idle
		}
	}
}

// handle handles a message, tells the broker what became of it, and returns how long it was
// handled.
func (s *subscription) handle(it *item, now time.Time) (took time.Duration) {
	if now.Sub(it.kept) > s.visibility/4 {
		s.tell(it, inProgress)
	}
	d := s.c.Handle(s.base, s.message(it), s.do)
	took = time.Since(now)
	if d.Verb == inbox.DeadLetter && !s.buried(it, &d) {
		d.Verb, d.After = inbox.Retry, unburied
	}
	switch {
	case d.Verb == inbox.Ack:
		s.answer(it, ack)
	case d.Verb == inbox.DeadLetter:
		s.answer(it, termination(s.nc.ConnectedServerVersion(), d.Cause))
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
	refused := d.Cause == inbox.CauseRefused && d.Attempt == 0
	if it.line == nil {
		if room, _ := s.c.Room(0); !refused || room > 0 {
			return false
		}
	}
	return s.hand.hold(it, d.After, !refused)
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
	s.hand.over(it)
}

// answer tells the broker that a message is over. It does not wait until the broker has confirmed
// that: the message stays in this process until then.
func (s *subscription) answer(it *item, what []byte) {
	if s.o.SingleAck {
		s.tell(it, what)
		s.hand.over(it)
		return
	}
	s.ends.add(it, what)
	s.hand.ended(it)
	s.ends.tell(it, what)
}

// confirm gets the broker's confirmation of a message's end.
func (s *subscription) confirm(m *nats.Msg) {
	if seq, was := s.ends.confirmed(m); was {
		s.hand.forget(seq)
		s.request(time.Now())
	}
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

// bury publishes a dead letter, under an id that is the same each time. One that is larger than the server takes is published without its
// payload and headers.
func (s *subscription) bury(it *item, d *inbox.Disposition) error {
	m := s.message(it)
	key := m.ID
	if key == "" {
		key = "\x00" + m.Source + "\x00" + m.Position
	}
	h := natsHeaders(m.Headers)
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !sendable(name) })
	says := map[string]string{
		DeadReason: string(d.Cause), DeadAttempts: strconv.Itoa(d.Attempt), DeadGroup: s.c.Group(), DeadSource: m.Source, DeadPosition: m.Position,
	}
	if m.ID != "" {
		says[message.Key] = m.ID
	}
	if d.Err != nil {
		text := d.Err.Error()
		says[DeadError] = oneLine(strings.ToValidUTF8(text[:min(len(text), longestError)], ""))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.base), max(s.o.Grace, 0)+flushTime)
	defer cancel()
	send := func(data []byte) error {
		for name, value := range says {
			h.Set(name, value)
		}
		_, err := s.js.PublishMsg(ctx, &nats.Msg{Subject: s.o.DeadSubject, Header: h, Data: data}, jetstream.WithMsgID("dead/"+string(deadletter.LetterID(s.c.Group(), key, m.Payload))))
		return err
	}
	err := send(m.Payload)
	if errors.Is(err, nats.ErrMaxPayload) { // for what a letter has beside the message
		h, says[DeadReason] = nats.Header{}, deadletter.PayloadMissing
		err = send(nil)
	}
	return err
}

// longestError is how much of an error is sent with a dead letter, in bytes.
const longestError = 1024
