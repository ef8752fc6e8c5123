package idempotency

import (
	"fmt"
	"slices"
	"time"
)

// A situation is a State with what the time says about it.
type situation uint8

const (
	absent       situation = iota
	running                // the lease is live
	lapsed                 // the lease is over and the run must not be repeated
	lapsedRepeat           // the lease is over and the run may be repeated
	retryable
	done
	unknown
	situations
)

// An event is what can happen to a record.
type event uint8

const (
	begin event = iota + 1
	beginRecover
	extend
	save
	complete
	release
	abandon
	resolveDone
	resolveNothing
	forget
	sweep
	events
)

// event returns what the change is to the machine, zero if it is not a valid one.
func (c *Change) event() event {
	switch {
	case c.Operator && c.State == StateDone:
		return resolveDone
	case c.Operator && c.State == StateRetryable:
		return resolveNothing
	case c.Operator && c.State == StateAbsent:
		return forget
	case c.Operator:
		return 0
	case c.State == StateRunning && c.Point != nil:
		return save
	case c.State == StateRunning:
		return extend
	case c.State == StateDone:
		return complete
	case c.State == StateRetryable:
		return release
	case c.State == StateUnknown:
		return abandon
	}
	return 0
}

// A move is one line of the state machine. A situation and event that have no line leave the
// record as it is: a holder gets ErrLeaseLost.
type move struct {
	from situation
	on   event
	to   State
	says Decision // the answer, for those who begin
}

// moves is the whole machine. Two rules come before it: a claim for another
// request than the record's is a Mismatch, also while the first runs, unless the record
// belongs to none any more (Free); and a change by another token than the record's is
// refused.
var moves = [...]move{
	{absent, begin, StateRunning, DecisionRun},
	{running, begin, StateRunning, DecisionInProgress},
	{lapsedRepeat, begin, StateRunning, DecisionRun},
	{lapsed, begin, StateUnknown, DecisionUnknown},
	{retryable, begin, StateRunning, DecisionRun},
	{done, begin, StateDone, DecisionReplay},
	{unknown, begin, StateUnknown, DecisionUnknown},

	{absent, beginRecover, StateRunning, DecisionRun},
	{running, beginRecover, StateRunning, DecisionInProgress},
	{lapsedRepeat, beginRecover, StateRunning, DecisionRun},
	{lapsed, beginRecover, StateRunning, DecisionRecover},
	{retryable, beginRecover, StateRunning, DecisionRun},
	{done, beginRecover, StateDone, DecisionReplay},
	{unknown, beginRecover, StateRunning, DecisionRecover},

	// The lease was over, but no claim came since, so the run is still the only one.
	{running, extend, StateRunning, 0},
	{lapsed, extend, StateRunning, 0},
	{lapsedRepeat, extend, StateRunning, 0},
	{running, save, StateRunning, 0},
	{lapsed, save, StateRunning, 0},
	{lapsedRepeat, save, StateRunning, 0},
	{running, complete, StateDone, 0},
	{lapsed, complete, StateDone, 0},
	{lapsedRepeat, complete, StateDone, 0},
	{running, release, StateRetryable, 0},
	{lapsed, release, StateRetryable, 0},
	{lapsedRepeat, release, StateRetryable, 0},
	{running, abandon, StateUnknown, 0},
	{lapsed, abandon, StateUnknown, 0},
	{lapsedRepeat, abandon, StateUnknown, 0},

	{unknown, resolveDone, StateDone, 0},
	{unknown, resolveNothing, StateRetryable, 0},
	{lapsed, resolveDone, StateDone, 0}, // as if a sweeper had come before
	{lapsed, resolveNothing, StateRetryable, 0},

	{lapsed, forget, StateAbsent, 0},
	{lapsedRepeat, forget, StateAbsent, 0},
	{retryable, forget, StateAbsent, 0},
	{done, forget, StateAbsent, 0},
	{unknown, forget, StateAbsent, 0},

	{absent, sweep, StateAbsent, 0},
	{lapsed, sweep, StateUnknown, 0},
}

// table finds a move by situation and event.
var table = func() (t [situations][events]*move) {
	for i := range moves {
		t[moves[i].from][moves[i].on] = &moves[i]
	}
	return t
}()

func (r *Record) at(now Moment) situation {
	switch {
	case r.State == StateAbsent, r.State != StateRunning && now >= r.Expires:
		return absent
	case r.State == StateRetryable:
		return retryable
	case r.State == StateDone:
		return done
	case r.State == StateUnknown:
		return unknown
	case now < r.LeaseUntil:
		return running
	case r.Guarantee != GuaranteeReexecute:
		return lapsed
	case now >= r.Due():
		return absent
	}
	return lapsedRepeat
}

// StateAt returns where the record stands at a moment of its store's clock, before anybody
// has noticed: a run under Hold or Tx whose lease is over is unknown, one under Reexecute
// is retryable, and what has expired is absent.
func (r *Record) StateAt(now Moment) State {
	switch r.at(now) {
	case absent:
		return StateAbsent
	case lapsed:
		return StateUnknown
	case lapsedRepeat:
		return StateRetryable
	}
	return r.State
}

// Due returns when [Record.Sweep] has something to do: at the end of the lease under
// Hold, and of the retention otherwise.
func (r *Record) Due() Moment {
	switch {
	case r.State != StateRunning:
		return r.Expires
	case r.Guarantee == GuaranteeReexecute:
		return r.LeaseUntil.Add(r.Retention)
	}
	return r.LeaseUntil
}

// Begin decides a claim on the record; the zero Record means that the key has no record. If
// changed is true, store the answer's record under a compare-and-set on what was read. r is left
// as it is.
func (r *Record) Begin(c Claim, now Moment) (a Answer, changed bool) {
	at := r.at(now)
	if at != absent && r.Fingerprint != c.Fingerprint && !(at == retryable && r.free()) {
		return Answer{Decision: DecisionMismatch, Record: *r}, false
	}
	if at == running && c.Owner != [16]byte{} { // the claim's first answer was lost on its way
		switch r.Owner {
		case c.Owner:
			return Answer{Decision: DecisionRun, Record: *r}, false
		case finder(c.Owner):
			return Answer{Decision: DecisionRecover, Record: *r}, false
		}
	}
	if at == lapsedRepeat && c.Guarantee != GuaranteeReexecute {
		at = lapsed // the route was declared anew: the stricter word counts
	}
	on := begin
	if c.Recover {
		on = beginRecover
	}
	m := table[at][on]
	switch m.says {
	case DecisionRun:
		return Answer{Decision: DecisionRun, Record: r.claimed(c, now, at)}, true
	case DecisionRecover:
		return Answer{Decision: DecisionRecover, Record: r.recovering(c, now)}, true
	case DecisionInProgress:
		return Answer{Decision: DecisionInProgress, Record: *r, Left: r.LeaseUntil.Sub(now)}, false
	}
	a = Answer{Decision: m.says, Record: *r}
	if changed = m.to != r.State; changed {
		a.Record.finish(m.to, now)
	}
	return a, changed
}

// claimed returns the record of a new run.
func (r *Record) claimed(c Claim, now Moment, at situation) Record {
	next := Record{
		State: StateRunning, Guarantee: c.Guarantee, Token: nextToken(r.Token, now), Attempt: 1,
		Fingerprint: c.Fingerprint, Owner: c.Owner,
		LeaseUntil: now.Add(c.Lease), Created: now, Retention: c.Retention,
	}
	if at != absent {
		next.Attempt, next.Created, next.Points = r.Attempt+1, r.Created, r.Points
	}
	return next
}

// recovering returns the record of a run that finds out what a lost run did. If that one is lost
// too, the outcome is as unknown as before.
func (r *Record) recovering(c Claim, now Moment) Record {
	next := *r
	next.State, next.Guarantee, next.Owner = StateRunning, GuaranteeHold, finder(c.Owner)
	next.Token, next.LeaseUntil = nextToken(r.Token, now), now.Add(c.Lease)
	next.Finished, next.Expires = 0, 0
	return next
}

// finder is the owner of a record while the claim's maker finds out. It differs from
// the claim's, so that the claim, when it is repeated, is not taken for one that was
// told to do the work.
func finder(owner [16]byte) [16]byte {
	if owner != [16]byte{} {
		owner[0] ^= 0x80
	}
	return owner
}

// nextToken returns a token that is larger than any earlier one of the key. The
// time in microseconds keeps that true when the record was swept in between.
func nextToken(prev int64, now Moment) int64 {
	return max(prev+1, int64(now)/int64(time.Microsecond), 1)
}

func (r *Record) finish(to State, now Moment) {
	r.State, r.LeaseUntil = to, 0
	r.Finished, r.Expires = now, now.Add(r.Retention)
}

// Apply makes a change of the run that ref names, and returns the record to be stored, if
// changed is true, under a compare-and-set on what was read. One that is returned as StateAbsent
// is to be deleted, under the same. It returns [ErrLeaseLost] when the run no longer holds the
// record, and for a change by an operator while the record is running. A change that was made
// already may be repeated. r is left as it is.
func (r *Record) Apply(ref Ref, c Change, now Moment) (next Record, changed bool, err error) {
	at, on := r.at(now), c.event()
	switch {
	case on == 0:
		return *r, false, fmt.Errorf("idempotency: no change makes a record %v", c.State)
	case at == absent || ref.Token != r.Token:
		return *r, false, ErrLeaseLost
	case r.made(on, c):
		return *r, false, nil
	}
	m := table[at][on]
	if m == nil {
		return *r, false, ErrLeaseLost
	}
	next = *r
	switch {
	case on == extend:
		next.LeaseUntil = now.Add(c.Lease)
		return next, true, nil
	case on == save:
		err = next.save(*c.Point)
		return next, err == nil, err
	case m.to == StateAbsent:
		return Record{}, true, nil
	case m.to == StateDone:
		next.Result, next.Points = c.Result, nil
	}
	if on == release && c.Unrun {
		next.Attempt = max(0, r.Attempt-1)
	}
	if on == release && c.Free {
		next.Fingerprint, next.Attempt, next.Points = [32]byte{}, 0, nil
	}
	next.finish(m.to, now)
	return next, true, nil
}

// free reports whether the record belongs to no request any more.
func (r *Record) free() bool { return r.Fingerprint == [32]byte{} }

// made reports whether the record already is what the change makes of it.
func (r *Record) made(on event, c Change) bool {
	switch on {
	case complete, resolveDone:
		return r.State == StateDone && r.Result.equal(c.Result)
	case release, resolveNothing:
		return r.State == StateRetryable && (!c.Free || r.free())
	case abandon:
		return r.State == StateUnknown
	case save:
		return r.State == StateRunning && slices.ContainsFunc(r.Points, func(p Point) bool { return p.Name == c.Point.Name })
	}
	return false
}

func (r *Record) save(p Point) error {
	size := len(p.Data)
	for _, old := range r.Points {
		size += len(old.Data)
	}
	if len(r.Points) == maxPoints || size > maxPointData {
		return fmt.Errorf("idempotency: a record keeps at most %d recovery points of %d bytes together: %w", maxPoints, maxPointData, ErrTooLarge)
	}
	r.Points = append(slices.Clip(r.Points), p) // clipped: the old record keeps its own
	return nil
}

// Sweep decides what a sweeper makes of the record: a lost run under Hold becomes
// Unknown, and an expired record, returned as Absent, is to be deleted. Both only
// under a compare-and-set on what was read.
func (r *Record) Sweep(now Moment) (next Record, changed bool) {
	m := table[r.at(now)][sweep]
	switch {
	case m == nil || r.State == StateAbsent:
		return *r, false
	case m.to == StateAbsent:
		return Record{}, true
	}
	next = *r
	next.finish(m.to, now)
	return next, true
}
