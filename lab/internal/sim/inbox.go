package sim

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

// The terms of an inbox with the defaults.
const (
	inboxLease      = 30 * time.Second
	inboxRetention  = 30 * 24 * time.Hour
	inboxDeliveries = 100
)

// inboxBegins is the time of the store's clock when a run begins: zero is no moment to it.
const inboxBegins = idempotency.Moment(time.Hour)

// memory is what the inbox knows of a message, and who holds that.
type memory struct {
	record   idempotency.Record
	holder   uint32 // the delivery whose run holds it
	hgen     uint32
	heldFrom clock.Instant
	tried    clock.Instant // when its first run began; zero if none did
}

func (i Inbox) guarantee() idempotency.Guarantee {
	if i == HoldInbox {
		return idempotency.GuaranteeHold
	}
	return idempotency.GuaranteeReexecute
}

func (s *sim) moment() idempotency.Moment { return inboxBegins.Add(time.Duration(s.now)) }

// claim asks the inbox whether a message's work may run. If it may not, the message has its
// answer.
func (s *sim) claim(b *broker, d *delivery) (run bool) {
	m := d.message
	s.beat(m)
	c := idempotency.Claim{Guarantee: b.Inbox.guarantee(), Lease: inboxLease, Retention: inboxRetention}
	c.Owner[0] = 1
	binary.BigEndian.PutUint32(c.Owner[4:], d.self)
	binary.BigEndian.PutUint32(c.Owner[8:], uint32(m.times))
	a, changed := m.record.Begin(c, s.moment())
	if changed {
		m.record = a.Record
	}
	switch a.Decision {
	case idempotency.DecisionRun:
		d.claimed, d.token, d.runs = true, a.Record.Token, a.Record.Attempt
		m.holder, m.hgen, m.heldFrom = d.self, d.gen, s.now
		if m.tried == 0 {
			m.tried = s.now
		}
		return !s.hopeless(b, d)
	case idempotency.DecisionReplay:
		b.n.Duplicates++
		s.endAttempt(d, nil)
		s.acknowledge(d)
	case idempotency.DecisionInProgress:
		b.n.InProgress++
		s.endAttempt(d, nil)
		s.putOff(d, machine.AskAgain(a.Left))
	default:
		s.endAttempt(d, nil)
		s.lay(d, DeadUnknown)
	}
	return false
}

// beat extends the lease of the run that holds a message's record, as its process has done
// each third of it.
func (s *sim) beat(m *message) {
	h := s.deliveries.get(m.holder, m.hgen)
	if h == nil || h.message != m || !h.running || m.record.State != idempotency.StateRunning {
		return
	}
	const every = inboxLease / 3
	last := m.heldFrom.Add(s.now.Sub(m.heldFrom) / every * every)
	_ = s.change(m, h.token, idempotency.Change{State: idempotency.StateRunning, Lease: inboxLease}, inboxBegins.Add(time.Duration(last)))
}

// change changes a message's record, unless it is another run's.
func (s *sim) change(m *message, token int64, c idempotency.Change, now idempotency.Moment) error {
	next, changed, err := m.record.Apply(idempotency.Ref{Token: token}, c, now)
	if changed {
		m.record = next
	}
	return err
}

// hopeless puts a message away whose runs were lost too often with their processes.
func (s *sim) hopeless(b *broker, d *delivery) bool {
	m, dead := d.message, d.message.times > inboxDeliveries
	if d.runs > 1 {
		o := classify.Error(inbox.ErrNeverEnded)
		_, why := machine.Redelivery(s.retry(b, d.who), &o, d.runs-1, s.seedOf(m))
		dead = dead || why == policy.AttemptsExhausted
	}
	if dead {
		_ = s.change(m, d.token, idempotency.EndingGivenUp.Ends(b.Inbox.guarantee(), true), s.moment())
		s.endAttempt(d, nil)
		s.lay(d, DeadExhausted)
	}
	return dead
}

// fate is what becomes of a message: it is done, or a dead letter, or comes again after the
// wait.
type fate struct {
	done, dead bool
	patient    bool // its runs are used up, and it is tried on
	why        DeadReason
	wait       time.Duration
}

// fate decides what becomes of a message by how its run ended.
func (s *sim) fate(b *broker, d *delivery, ok bool) fate {
	f := fate{done: ok}
	if !ok {
		f = s.failed(b, d)
	}
	if !d.claimed {
		return f
	}
	end := idempotency.EndingUnknown
	switch {
	case ok:
		end = idempotency.EndingSucceeded
	case f.dead:
		end = idempotency.EndingGivenUp
	case d.local, f.patient: // no run, and those before count
		end = idempotency.EndingRefused
	}
	m := d.message
	err := s.change(m, d.token, end.Ends(b.Inbox.guarantee(), d.local && d.noEffect), s.moment())
	switch {
	case errors.Is(err, idempotency.ErrLeaseLost): // what it did is not on record
		return fate{wait: machine.PutOff(s.retry(b, d.who), max(d.runs, m.times), s.seedOf(m))}
	case m.record.State == idempotency.StateUnknown:
		return fate{dead: true, why: DeadUnknown}
	}
	return f
}

// failed decides about a run that failed.
func (s *sim) failed(b *broker, d *delivery) fate {
	r, seed := s.retry(b, d.who), s.seedOf(d.message)
	if d.local { // what it needs refused, which is no run
		return fate{wait: machine.PutOff(r, 1, seed) + max(d.why.After, 0)}
	}
	switch wait, why := machine.Redelivery(r, &d.why, d.runs, seed); why {
	case policy.None:
		return fate{wait: wait}
	case policy.AttemptsExhausted:
		if age := s.now.Sub(d.message.tried); b.Inbox != NoInbox && age < b.GiveUp {
			return fate{patient: true, wait: machine.TryOn(r, age, b.GiveUp, seed)}
		}
		return fate{dead: true, why: DeadExhausted}
	}
	return fate{dead: true, why: DeadPermanent}
}
