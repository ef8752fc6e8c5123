package deadletter

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// A Stored is a letter as a store keeps it, with its lease. Its methods decide what
// becomes of it, by the time that they are given; they change nothing and return what to
// keep. The zero value is no letter. It is for those who write stores.
type Stored struct {
	Letter
	Token int64     // of the last taking, with its taker in the lowest bits; zero if there was none
	Until time.Time // when the lease of a letter that is taken ends
}

// Errors about letters that can't be one.
var (
	errID    = errors.New("deadletter: an ID has 32 hexadecimal digits in lower case")
	errGroup = errors.New("deadletter: the group is missing")
)

// Validate returns what is wrong with an ID.
func (id ID) Validate() error {
	if len(id) != 32 {
		return fmt.Errorf("%w: %.40q", errID, string(id))
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%w: %q", errID, string(id))
		}
	}
	return nil
}

// Live reports whether there is a letter that an operator or a consumer may still have to deal
// with.
func (r Stored) Live() bool { return r.ID != "" && r.State <= Taken }

// Held reports whether the letter wants a Resolution before it may be redriven.
func (r Stored) Held() bool { return r.Live() && r.Reason == Unknown && r.Resolved == Unresolved }

// Size returns what the letter counts for, in bytes.
func (l *Letter) Size() int64 {
	n := int64(len(l.ID)+len(l.Group)+len(l.Key)+len(l.Source)+len(l.Position)+len(l.Order)+len(l.Reason)) + int64(len(l.Payload))
	for _, h := range l.Headers {
		n += int64(len(h.Name) + len(h.Value))
	}
	return n
}

// Stripped returns the letter without payload and headers, with PayloadMissing as its Reason and
// why as its last failure: for a letter that its store refused with ErrTooLarge. Its ID stays.
func (l Letter) Stripped(why error) Letter {
	f := Failure{
		At: l.Last, Attempt: l.Attempts, Reason: PayloadMissing,
		Message: fmt.Sprintf("the payload of %d bytes and %d headers were not kept: %v", len(l.Payload), len(l.Headers), why),
	}
	l.Failures, l.Reason, l.Payload, l.Headers = append(slices.Clone(l.Failures), f), PayloadMissing, nil, nil
	return l
}

// Bytes returns what the record counts for: the letter's Size and its failures.
func (r Stored) Bytes() int64 {
	n := r.Size()
	for _, f := range r.Failures {
		n += f.size()
	}
	return n
}

// Put returns the record once the letter is put away. Noted are the failures that were
// written before there was one.
func (r Stored) Put(l Letter, noted []Failure, now time.Time) (Stored, error) {
	if err := l.ID.Validate(); err != nil {
		return r, err
	}
	if l.Group == "" {
		return r, errGroup
	}
	l.Reason = cut(l.Reason, maxName)
	l.First, l.Last = moment(l.First), moment(l.Last)
	l.Attempts = max(l.Attempts, 0)
	failures := AddFailures(AddFailures(r.Failures, noted...), l.Failures...)
	if !r.Live() {
		l.State, l.Since, l.Kept = Waiting, moment(now), moment(now)
		l.Redriven, l.Resolved, l.Drive, l.By, l.Note = r.Redriven, Unresolved, "", "", ""
		r.Letter = l
		r.Headers, r.Payload = slices.Clone(l.Headers), slices.Clone(l.Payload)
	} else {
		if l.Reason == Unknown && l.Last.After(r.Last) {
			r.Resolved = Unresolved // it is another run than what was found out about
		}
		r.Reason = l.Reason
		r.Attempts = max(r.Attempts, l.Attempts)
		r.spans(l.First)
		r.spans(l.Last)
	}
	r.fail(failures)
	return r, nil
}

// fail takes failures in the place of those that there are.
func (r *Stored) fail(all []Failure) {
	r.Failures = all
	for _, f := range all {
		r.Attempts = max(r.Attempts, f.Attempt)
		r.spans(f.At)
	}
}

// spans widens the time from the first to the last failure.
func (r *Stored) spans(t time.Time) {
	if t.IsZero() {
		return
	}
	if r.First.IsZero() || t.Before(r.First) {
		r.First = t
	}
	if r.Last.IsZero() || t.After(r.Last) {
		r.Last = t
	}
}

// Fail returns the record with one more failure.
func (r Stored) Fail(f Failure) Stored {
	r.fail(AddFailures(r.Failures, f))
	return r
}

// move changes the state.
func (r Stored) move(to State, now time.Time) Stored {
	r.State, r.Since, r.Until = to, moment(now), time.Time{}
	return r
}

// Lapsed reports whether the lease of a letter that is taken is over. If the clock was set back by
// more than a second since the letter was taken, the lease's end is unknown, and it counts as over.
func (r Stored) Lapsed(now time.Time) bool {
	return r.State == Taken && (!now.Before(r.Until) || r.Since.After(now.Add(setBack)))
}

// lostBefore reports whether the last thing that happened to a letter is that its consumer was gone.
func lostBefore(all []Failure) bool { return len(all) > 0 && all[len(all)-1].Reason == LeaseLost }

// Lost returns the record as one that waits since the consumer that took it is gone, and whether
// its redrive may take it again: not after a second time in a row, and not if it wants a Resolution.
// What was found out about its work is void: what became of that run is unknown.
func (r Stored) Lost(now time.Time) (next Stored, again bool) {
	again = !lostBefore(r.Failures)
	r.Resolved = Unresolved
	r.Token += 1 << takerBits // what the consumer says later is too late
	r = r.Fail(Failure{At: now, Class: policy.ClassCrashed.String(), Reason: LeaseLost, Message: "the consumer that took it was gone before it said how that came out"}).move(Waiting, now)
	return r, again && !r.Held()
}

// takerBits is how much of a token says who took the letter.
const takerBits = 20

// NewTaker returns a random number for one who takes letters: a process, as a store that it opened
// stands for it. It is for those who write stores.
func NewTaker() uint32 { return rand.Uint32N(1 << takerBits) }

// taker returns who took the letter last.
func (r Stored) taker() uint32 { return uint32(r.Token & (1<<takerBits - 1)) }

// Take returns the record as one that a taker has until then, for a redrive.
func (r Stored) Take(drive string, taker uint32, until, now time.Time) Stored {
	r.Token = max(r.Token>>takerBits+1, now.UnixMilli())<<takerBits | int64(taker) // grows also where the letter was removed and put away anew
	r.Redriven++
	r.Drive = drive
	r = r.move(Taken, now)
	r.Until = moment(until)
	return r
}

// Extend returns the record with a longer lease. A lease that is over can be extended until another
// consumer takes the letter.
func (r Stored) Extend(token int64, until time.Time) (Stored, error) {
	if r.State != Taken || r.Token != token {
		return r, ErrLost
	}
	r.Until = moment(until)
	return r, nil
}

// Settle returns the record as the consumer says that it came out, and whether that is new:
// a verdict that is given twice is one.
func (r Stored) Settle(token int64, v Verdict, now time.Time) (next Stored, changed bool, err error) {
	switch {
	case v.State != Done && v.State != Waiting:
		return r, false, fmt.Errorf("%w: a verdict is done or waiting, not %s", ErrState, v.State)
	case r.Token != token || token == 0 || r.State != Taken && r.State != v.State:
		return r, false, ErrLost
	case r.State != Taken:
		return r, false, nil
	}
	switch {
	case v.Failure != nil:
		if v.State == Waiting && v.Reason != "" {
			r.Reason, r.Resolved = cut(v.Reason, maxName), Unresolved
		}
		r = r.Fail(*v.Failure)
	case v.State == Waiting: // its redrive may take it again
		r.Drive = ""
	}
	return r.move(v.State, now), true, nil
}

// Resolve returns the record with what an operator found out about its work's effect. With
// Unresolved it takes that back.
func (r Stored) Resolve(res Resolution, by, note string, now time.Time) (next Stored, changed bool, err error) {
	said := r.Resolved != Unresolved && (r.State == Waiting && r.Resolved == ResolvedAsFailed || r.State == Done && r.Resolved == ResolvedAsDone)
	switch {
	case res > ResolvedAsFailed:
		return r, false, fmt.Errorf("%w: a resolution is done or nothing, not %s", ErrState, res)
	case r.ID == "":
		return r, false, ErrNotFound
	case res == Unresolved && said && r.Reason == Unknown:
		next = r.noted(by, note).move(Waiting, now)
		next.Resolved = Unresolved
		return next, true, nil
	case res == Unresolved:
		return r, false, fmt.Errorf("%w: there is no resolution to take back", ErrState)
	case r.Resolved == res && r.Reason == Unknown && (r.Live() || r.State == Done) && r.Live() == (res == ResolvedAsFailed):
		return r, false, nil
	case said && r.Reason == Unknown:
		return r, false, fmt.Errorf("%w: it was resolved as %s by %s: %s", ErrState, r.Resolved, cmp.Or(r.By, "an unnamed operator"), r.Note)
	case r.Reason != Unknown:
		return r, false, fmt.Errorf("%w: only letters with reason %s are resolved, this one has %q", ErrState, Unknown, r.Reason)
	case r.State != Waiting:
		return r, false, fmt.Errorf("%w: it is %s, and only letters that wait are resolved", ErrState, r.State)
	}
	r = r.noted(by, note)
	r.Resolved = res
	if res == ResolvedAsDone {
		r = r.move(Done, now)
	}
	return r, true, nil
}

// noted returns the record with what was said of it, and behind that what was said before.
func (r Stored) noted(by, note string) Stored {
	if r.Note != "" && r.Note != note {
		before := "before: "
		if r.Resolved != Unresolved {
			before += r.Resolved.String() + ", "
		}
		if r.By != "" {
			before += "by " + r.By + ", "
		}
		note += "\n" + before + r.Note
	}
	r.By, r.Note = cut(by, maxName), cut(note, MaxMessage)
	return r
}

// Drop returns the record as given up by an operator, without headers and payload. A letter that a
// consumer works on can't be dropped before its lease is over.
func (r Stored) Drop(by, note string, now time.Time) (next Stored, changed bool, err error) {
	switch {
	case r.ID == "":
		return r, false, ErrNotFound
	case r.State == Dropped:
		return r, false, nil
	case r.State == Done:
		return r, false, fmt.Errorf("%w: its work is done", ErrState)
	case r.State == Taken && now.Before(r.Until):
		return r, false, fmt.Errorf("%w: a consumer works on it until %s", ErrState, r.Until.Format(time.RFC3339))
	}
	r.By, r.Note = cut(by, maxName), cut(note, MaxMessage)
	r.Headers, r.Payload = nil, nil
	return r.move(Dropped, now), true, nil
}

// Clone returns a letter that shares nothing with this one.
func (l *Letter) Clone() Letter {
	c := *l
	c.Headers, c.Payload, c.Failures = slices.Clone(l.Headers), slices.Clone(l.Payload), slices.Clone(l.Failures)
	return c
}

// Bare returns the letter as lists have it: without payload, and with the last failure.
func (l *Letter) Bare() Letter {
	c := *l
	c.Payload, c.Headers = nil, slices.Clone(l.Headers)
	c.Failures = slices.Clone(l.Failures[max(0, len(l.Failures)-1):])
	return c
}
