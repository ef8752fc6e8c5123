package idempotency

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// An Admin is what an operator can do with the records of a Store, also while the store is in
// use: a change fails if the record changed since it was read. It is safe for concurrent use.
type Admin struct {
	Store Store // must be set
}

// ErrRefused says that a record's state does not allow what an operator asked for. Nothing
// was done.
var ErrRefused = errors.New("idempotency: refused")

// listPage is how many records All asks for at once.
const listPage = 256

// All returns an iterator over all records, page by page. It ends with an error if the
// store returns one.
func (a Admin) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for cursor := ""; ; {
			entries, next, err := a.Store.List(ctx, cursor, listPage)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

// Resolve settles a record whose outcome is unknown with what the operator found out: StateDone
// with the Result that is to be replayed, or StateRetryable, after which the key runs again. It
// ignores the other fields of found. It returns [ErrRefused] if the outcome is known, if the
// record is running or has changed, and if it does not exist.
func (a Admin) Resolve(ctx context.Context, id ID, found Change) error {
	if found.State != StateDone && found.State != StateRetryable {
		return fmt.Errorf("idempotency: a record can't be resolved as %v", found.State)
	}
	r, state, err := a.look(ctx, id)
	if err != nil {
		return err
	}
	if state != StateUnknown {
		return fmt.Errorf("%w: the outcome is known, the record is %v", ErrRefused, state)
	}
	return a.apply(ctx, Ref{id, r.Token}, Change{State: found.State, Result: found.Result})
}

// Forget deletes a record, whatever is known of its outcome: the key then runs as new. It
// returns [ErrRefused] if the record is running or has changed, and if it does not exist.
func (a Admin) Forget(ctx context.Context, id ID) error {
	r, _, err := a.look(ctx, id)
	if err != nil {
		return err
	}
	return a.apply(ctx, Ref{id, r.Token}, Change{State: StateAbsent})
}

// look reads a record that is not running.
func (a Admin) look(ctx context.Context, id ID) (Record, State, error) {
	r, err := a.Store.Get(ctx, id)
	if err != nil {
		return r, StateAbsent, err
	}
	now, err := a.Store.Now(ctx)
	if err != nil {
		return r, StateAbsent, err
	}
	switch s := r.StateAt(now); s {
	case StateAbsent:
		return r, s, fmt.Errorf("%w: there is no record", ErrRefused)
	case StateRunning:
		return r, s, fmt.Errorf("%w: the record is running, with %v left of its lease", ErrRefused, r.LeaseUntil.Sub(now))
	default:
		return r, s, nil
	}
}

func (a Admin) apply(ctx context.Context, ref Ref, c Change) error {
	c.Operator = true
	err := a.Store.Apply(ctx, ref, c)
	if errors.Is(err, ErrLeaseLost) {
		return fmt.Errorf("%w: the record has changed", ErrRefused)
	}
	return err
}
