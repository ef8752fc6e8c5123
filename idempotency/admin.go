package idempotency

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// An Admin is a [Store] through which an operator sees and forgets records. All stores of
// this project are. Its methods are safe for concurrent use, also while the store is in
// use: no change is made to a record that somebody else changed meanwhile.
type Admin interface {
	Store

	// Now returns the store's time, by which leases and records end. It is near enough to
	// show; what depends on it is decided by the store itself.
	Now(ctx context.Context) (Moment, error)

	// List returns the records of about limit keys, in an order that the store chooses,
	// from where the cursor says on. The first is "". A page may be empty although it is
	// not the last. Records that come, go or change meanwhile may be left out or returned
	// as they were, and some stores may return one twice.
	List(ctx context.Context, cursor string, limit int) (Page, error)

	// Forget deletes a record, so that its key runs as new, unless somebody runs it:
	// ErrLeaseLost if that is so, or if the record has another token, or is gone.
	Forget(ctx context.Context, ref Ref) error
}

// A Page is a part of the records of a store.
type Page struct {
	Entries []Entry
	Next    string // the cursor of the next page; empty if this is the last
}

// An Entry is a record in a list: without its result and the data of its recovery points,
// for which one asks Get.
type Entry struct {
	ID     ID
	Record Record
	Err    error // why the record can't be read (ErrUnreadable); then Record says nothing
}

// listPage is how many records All asks for at once.
const listPage = 256

// All returns an iterator over all records of a store, page by page. It ends with an error
// if the store returns one.
func All(ctx context.Context, a Admin) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for cursor := ""; ; {
			page, err := a.List(ctx, cursor, listPage)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
}

// Bare returns the record as lists have it.
func (r Record) Bare() Record {
	r.Result = Result{}
	if r.Points != nil {
		points := make([]Point, len(r.Points))
		for i := range points {
			points[i].Name = r.Points[i].Name
		}
		r.Points = points
	}
	return r
}

// StateAt returns where the record stands at a moment of its store's clock, before anybody
// has noticed: a run under Hold or Tx whose lease is over is Unknown, one under Reexecute is
// Retryable, and what has expired is Absent.
func (r *Record) StateAt(now Moment) State {
	switch r.at(now) {
	case absent:
		return Absent
	case lapsed:
		return Unknown
	case lapsedRepeat:
		return Retryable
	}
	return r.State
}

// Why a record is neither resolved nor forgotten.
var (
	// ErrNoRecord: the key has none, or it has expired.
	ErrNoRecord = errors.New("idempotency: there is no record")

	// ErrRunning: somebody works on it under a lease that is not over.
	ErrRunning = errors.New("idempotency: it is running")

	// ErrKnown: its outcome is known, so there is nothing to resolve.
	ErrKnown = errors.New("idempotency: its outcome is known")

	// ErrChanged: somebody changed it meanwhile. Nothing was done.
	ErrChanged = errors.New("idempotency: it was changed meanwhile")
)

// ResolveAs settles a record whose outcome is unknown, with what somebody found out:
// [ResolveDone] and the result that is to be replayed, or [ResolveNothing], after which the
// key runs again. Of any other record it changes nothing and says why: [ErrNoRecord],
// [ErrRunning], [ErrKnown], [ErrChanged].
func ResolveAs(ctx context.Context, a Admin, id ID, found Change) error {
	if found.Event != ResolveDone && found.Event != ResolveNothing {
		return fmt.Errorf("idempotency: %v resolves nothing", found.Event)
	}
	r, state, err := look(ctx, a, id)
	if err != nil {
		return err
	}
	if state != Unknown {
		return fmt.Errorf("%w: it is %v", ErrKnown, state)
	}
	return changed(a.Apply(ctx, Ref{id, r.Token}, found))
}

// ForgetID deletes a record, whatever is known of its outcome: the key then runs as new.
// It returns [ErrNoRecord], [ErrRunning] or [ErrChanged], and then has done nothing.
func ForgetID(ctx context.Context, a Admin, id ID) error {
	r, _, err := look(ctx, a, id)
	if err != nil {
		return err
	}
	return changed(a.Forget(ctx, Ref{id, r.Token}))
}

// look reads a record that nobody runs.
func look(ctx context.Context, a Admin, id ID) (Record, State, error) {
	r, err := a.Get(ctx, id)
	if err != nil {
		return r, Absent, err
	}
	now, err := a.Now(ctx)
	if err != nil {
		return r, Absent, err
	}
	switch s := r.StateAt(now); s {
	case Absent:
		return r, s, ErrNoRecord
	case Running:
		return r, s, fmt.Errorf("%w, under a lease with %v left", ErrRunning, r.LeaseUntil.Sub(now))
	default:
		return r, s, nil
	}
}

func changed(err error) error {
	if errors.Is(err, ErrLeaseLost) {
		return ErrChanged
	}
	return err
}

// Forgettable returns ErrLeaseLost if ref may not delete the record: it has another token,
// or somebody runs it. Stores ask it, and delete only what they have read.
func (r *Record) Forgettable(ref Ref, now Moment) error {
	if r.State == Absent || r.Token != ref.Token || r.at(now) == running {
		return ErrLeaseLost
	}
	return nil
}
