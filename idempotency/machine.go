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

// A move is one line of the state machine. A situation and event that have no
// line leave the record as it is: a holder is told ErrLeaseLost.
type move struct {
	from situation
	on   Event
	to   State
	says Decision // the answer, for those who begin
}

// moves is the whole machine. Two rules come before it: a claim for another
// request than the record's is a Mismatch, also while the first runs, unless the record
// belongs to none any more (Free); and a change by another token than the record's is
// refused.
var moves = [...]move{
	{absent, begin, Running, Run},
	{running, begin, Running, InProgress},
	{lapsedRepeat, begin, Running, Run},
	{lapsed, begin, Unknown, OutcomeUnknown},
	{retryable, begin, Running, Run},
	{done, begin, Done, Replay},
	{unknown, begin, Unknown, OutcomeUnknown},

	{absent, beginRecover, Running, Run},
	{running, beginRecover, Running, InProgress},
	{lapsedRepeat, beginRecover, Running, Run},
	{lapsed, beginRecover, Running, Recover},
	{retryable, beginRecover, Running, Run},
	{done, beginRecover, Done, Replay},
	{unknown, beginRecover, Running, Recover},

	// Nobody noticed that the lease was over, so the run is still the only one.
	{running, Extend, Running, 0},
	{lapsed, Extend, Running, 0},
	{lapsedRepeat, Extend, Running, 0},
	{running, Save, Running, 0},
	{lapsed, Save, Running, 0},
	{lapsedRepeat, Save, Running, 0},
	{running, Complete, Done, 0},
	{lapsed, Complete, Done, 0},
	{lapsedRepeat, Complete, Done, 0},
	{running, Release, Retryable, 0},
	{lapsed, Release, Retryable, 0},
	{lapsedRepeat, Release, Retryable, 0},
	{running, Abandon, Unknown, 0},
	{lapsed, Abandon, Unknown, 0},
	{lapsedRepeat, Abandon, Unknown, 0},

	{unknown, ResolveDone, Done, 0},
	{unknown, ResolveNothing, Retryable, 0},
	{lapsed, ResolveDone, Done, 0}, // as if a sweeper had come before
	{lapsed, ResolveNothing, Retryable, 0},

	{absent, sweep, Absent, 0},
	{lapsed, sweep, Unknown, 0},
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
	case r.State == Absent, r.State != Running && now >= r.Expires:
		return absent
	case r.State == Retryable:
		return retryable
	case r.State == Done:
		return done
	case r.State == Unknown:
		return unknown
	case now < r.LeaseUntil:
		return running
	case r.Guarantee != Reexecute:
		return lapsed
	case now >= r.Due():
		return absent
	}
	return lapsedRepeat
}

// Due returns when [Record.Sweep] has something to do: the end of the lease under
// Hold, and of the retention otherwise.
func (r *Record) Due() Moment {
	switch {
	case r.State != Running:
		return r.Expires
	case r.Guarantee == Reexecute:
		return r.LeaseUntil.Add(r.Retention)
	}
	return r.LeaseUntil
}

// Begin decides a claim on the record, which is the zero Record if there is none.
// The answer's record is to be stored if changed is true, under a compare-and-set
// on what was read. r is left as it is.
func (r *Record) Begin(c Claim, now Moment) (a Answer, changed bool) {
	at := r.at(now)
	if at != absent && r.Fingerprint != c.Fingerprint && !(at == retryable && r.free()) {
		return Answer{Decision: Mismatch, Record: *r}, false
	}
	if at == running && c.Owner != [16]byte{} { // the claim's first answer was lost on its way
		switch r.Owner {
		case c.Owner:
			return Answer{Decision: Run, Record: *r}, false
		case finder(c.Owner):
			return Answer{Decision: Recover, Record: *r}, false
		}
	}
	if at == lapsedRepeat && c.Guarantee != Reexecute {
		at = lapsed // the route was declared anew: the stricter word counts
	}
	on := begin
	if c.Recover {
		on = beginRecover
	}
	m := table[at][on]
	switch m.says {
	case Run:
		return Answer{Decision: Run, Record: r.claimed(c, now, at)}, true
	case Recover:
		return Answer{Decision: Recover, Record: r.recovering(c, now)}, true
	case InProgress:
		return Answer{Decision: InProgress, Record: *r, Left: r.LeaseUntil.Sub(now)}, false
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
		State: Running, Guarantee: c.Guarantee, Token: nextToken(r.Token, now), Attempt: 1,
		Fingerprint: c.Fingerprint, Owner: c.Owner,
		LeaseUntil: now.Add(c.Lease), Created: now, Retention: c.Retention,
	}
	if at != absent {
		next.Attempt, next.Created, next.Points = r.Attempt+1, r.Created, r.Points
	}
	return next
}

// recovering returns the record of somebody who finds out what a lost run did. If
// that one is lost too, the outcome is as unknown as before.
func (r *Record) recovering(c Claim, now Moment) Record {
	next := *r
	next.State, next.Guarantee, next.Owner = Running, Hold, finder(c.Owner)
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

// Apply makes a change by the run that ref names, and returns the record to be
// stored, if changed is true, under a compare-and-set on what was read. It returns
// [ErrLeaseLost] when the run no longer holds the record. A change that was made
// already may be repeated. r is left as it is.
func (r *Record) Apply(ref Ref, c Change, now Moment) (next Record, changed bool, err error) {
	at := r.at(now)
	if at == absent || ref.Token != r.Token {
		return *r, false, ErrLeaseLost
	}
	if r.made(c) {
		return *r, false, nil
	}
	if c.Event == 0 || c.Event >= begin {
		return *r, false, fmt.Errorf("idempotency: no change called %v", c.Event)
	}
	m := table[at][c.Event]
	if m == nil {
		return *r, false, ErrLeaseLost
	}
	next = *r
	switch {
	case c.Event == Extend:
		next.LeaseUntil = now.Add(c.Lease)
		return next, true, nil
	case c.Event == Save:
		err = next.save(c.Point)
		return next, err == nil, err
	case m.to == Done:
		next.Result, next.Points = c.Result, nil
	}
	if c.Unrun && c.Event == Release {
		next.Attempt = max(0, r.Attempt-1)
	}
	if c.Free && c.Event == Release {
		next.Fingerprint, next.Attempt, next.Points = [32]byte{}, 0, nil
	}
	next.finish(m.to, now)
	return next, true, nil
}

// free reports whether the record belongs to no request any more.
func (r *Record) free() bool { return r.Fingerprint == [32]byte{} }

// made reports whether the record already is what the change makes of it.
func (r *Record) made(c Change) bool {
	switch c.Event {
	case Complete, ResolveDone:
		return r.State == Done && r.Result.equal(c.Result)
	case Release, ResolveNothing:
		return r.State == Retryable && (!c.Free || r.free())
	case Abandon:
		return r.State == Unknown
	case Save:
		return r.State == Running && slices.ContainsFunc(r.Points, func(p Point) bool { return p.Name == c.Point.Name })
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
	case m == nil || r.State == Absent:
		return *r, false
	case m.to == Absent:
		return Record{}, true
	}
	next = *r
	next.finish(m.to, now)
	return next, true
}
