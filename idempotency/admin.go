package idempotency

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// An Admin is what an operator can do with the records of a Store, also while the store
// is in use: no change is made to a record that somebody else changed meanwhile. It is
// safe for concurrent use.
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

// Resolve settles a record whose outcome is unknown with what somebody found out:
// StateDone with the Result that is to be replayed, or StateRetryable, after which the key
// runs again. Nothing else of found counts. It returns [ErrRefused] if the outcome is
// known, if somebody runs the record or changed it meanwhile, and if there is none.
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
// returns [ErrRefused] if somebody runs the record or changed it meanwhile, and if there
// is none.
func (a Admin) Forget(ctx context.Context, id ID) error {
	r, _, err := a.look(ctx, id)
	if err != nil {
		return err
	}
	return a.apply(ctx, Ref{id, r.Token}, Change{State: StateAbsent})
}

// look reads a record that nobody runs.
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
		return fmt.Errorf("%w: the record was changed meanwhile", ErrRefused)
	}
	return err
}
