package gabionsql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/sqltx"
	"github.com/gabion-go/gabion/policy"
)

// A Once makes a transaction of [RunTx] happen once for a key: it is claimed as the first
// thing in the transaction and commits with it. So a COMMIT whose answer was lost is found
// out, here or by a later call with the same key.
//
// A Once is for one call at a time. All fields but Result and Replayed have to be set. A
// key that is past its Retention is done again, so that has to be longer than callers repeat
// a request.
type Once struct {
	Store     *sqlstore.Store // in the database of the transaction
	ID        idempotency.ID  // of the key: idempotency.IDOf(scope, key)
	Retention time.Duration   // how long the key is remembered; positive

	// Fingerprint is of what is asked for, such as a hash of amount and account. The zero
	// value is a fingerprint like any other. A key that comes with another one is refused
	// with [ErrMismatch].
	Fingerprint [32]byte

	// Result is what work leaves there, and is stored with the transaction. If the work had
	// been done before, RunTx puts there what was stored.
	Result idempotency.Result

	// Replayed says that the work had been done before, by another call, and that this one
	// did nothing.
	Replayed bool
}

// What errors of [RunTx] with a record are, for errors.Is.
var (
	// ErrMismatch says that the key of a record belongs to another request. Nothing is done.
	ErrMismatch = errors.New("gabionsql: the key of the record belongs to another request")

	// ErrInProgress says that another transaction had the key all the time. This one did
	// nothing, and what the other one does is not known.
	ErrInProgress error = inProgress{}

	errNoStore     = errors.New("gabionsql: the record has no store")
	errNoID        = errors.New("gabionsql: the record has no ID: idempotency.IDOf(scope, key)")
	errNoRetention = errors.New("gabionsql: the record has no retention: it would be forgotten as soon as it is written")
	errReplayed    = errors.New("gabionsql: the record is there")
	errUnrecorded  = errors.New("gabionsql: the record was not written")
)

// inProgress is soon over, and then the next try finds out.
type inProgress struct{}

func (inProgress) Error() string {
	return "gabionsql: another transaction works on the key of the record"
}

// Outcome makes it a conflict of which the effect is not known.
func (inProgress) Outcome() policy.Outcome {
	return policy.Failed(policy.ClassContention)
}

// WithOnce commits the transaction together with the record of a key in the same
// database. If the key's work was done before, RunTx returns nil without running work, and
// r.Result is that of the first time. The call's work is safe to repeat with it.
func WithOnce(r *Once) TxOption { return TxOption{record: r} }

func (r *Once) problem() error {
	switch {
	case r.Store == nil:
		return errNoStore
	case r.ID == idempotency.ID{}:
		return errNoID
	case r.Retention <= 0:
		return errNoRetention
	}
	return nil
}

// A recorded is a call of RunTx with a record.
type recorded struct {
	*txCall
	*Once
	claim idempotency.Claim
	at    context.Context // of the last attempt
	lost  bool            // what became of an earlier attempt's COMMIT was not found out
}

func (c *txCall) runRecorded(d *gabion.Dependency) error {
	r := &recorded{txCall: c, Once: c.o.record}
	r.Replayed = false
	r.claim = idempotency.Claim{ID: r.ID, Fingerprint: r.Fingerprint, Guarantee: idempotency.GuaranteeTx, Lease: time.Minute, Retention: r.Retention}
	_, _ = rand.Read(r.claim.Owner[:]) // never fails
	n := len(c.o.calls)
	return r.settle(d.Run(c.ctx, r.try, append(c.o.calls[:n:n], txClassifier[0], gabion.WithIdempotent())...))
}

// try is one attempt.
func (r *recorded) try(ctx context.Context) error {
	err := r.once(ctx)
	if f, ok := errors.AsType[*sqltx.Failure](err); !ok || !f.Recorded {
		r.note(err)
	}
	return err
}

func (r *recorded) once(ctx context.Context) error {
	r.at = ctx
	err := sqltx.Try(ctx, &ending{db: r.db, opts: r.o.begin}, r.run)
	f, failed := errors.AsType[*sqltx.Failure](err)
	switch {
	case !failed:
		return nil
	case errors.Is(err, errReplayed):
		return nil
	case errors.Is(f.Err, errUnrecorded):
		f.Fate = sqltx.Ended
	case errors.Is(f.Err, ErrInProgress):
		f.Fate = sqltx.RolledBack
	case f.Fate == sqltx.Unknown:
		return r.resolve(f)
	}
	return err
}

// resolve finds out what became of a COMMIT that was not answered. If it can't, the next
// attempt does, for it claims the key before it does anything.
func (r *recorded) resolve(f *sqltx.Failure) error {
	there, known := r.find()
	switch {
	case there:
		return nil
	case known:
		f.Fate = sqltx.Undone
	default:
		f.Recorded, r.lost = true, true
	}
	return f
}

// settle looks once more if the call ended before anybody had found out. What can't be found
// out stays in doubt, whatever the attempts that followed the lost COMMIT came to.
func (r *recorded) settle(err error) error {
	if err == nil || !r.lost {
		return err
	}
	there, known := r.find()
	switch {
	case !known:
		r.doubt = true
		return inDoubt(err)
	case there && !r.doubt:
		return nil
	}
	return err
}

// inDoubt makes an error say that a COMMIT was sent whose outcome is not known.
func inDoubt(err error) error {
	if errors.Is(err, ErrCommitUnknown) {
		return err
	}
	e, ok := errors.AsType[*gabion.Error](err)
	if !ok {
		return &sqltx.Failure{Fate: sqltx.Unknown, Err: err}
	}
	e.Effect, e.Err = policy.UnknownEffect, &sqltx.Failure{Fate: sqltx.Unknown, Err: e.Err}
	return err
}

// run claims the key, does the work and writes the record.
func (r *recorded) run(ctx context.Context, tx *sql.Tx) error {
	e, err := r.Store.BeginTx(ctx, tx, r.claim)
	if err != nil {
		return err
	}
	switch e.Decision {
	case idempotency.DecisionRun:
	case idempotency.DecisionReplay:
		r.replay(e.Record)
		return errReplayed
	case idempotency.DecisionInProgress:
		return ErrInProgress
	case idempotency.DecisionMismatch:
		return classify.Permanent(ErrMismatch)
	default:
		return classify.DoNotRetry(fmt.Errorf("gabionsql: the record says %v: %w", e.Decision, idempotency.ErrUnknown))
	}
	if err := r.txCall.run(ctx, tx); err != nil {
		return err
	}
	err = r.Store.CompleteTx(ctx, tx, e, r.Result)
	switch {
	case errors.Is(err, sqlstore.ErrConflict):
		return classify.Contention(err) // the next try gets the other's result
	case errors.Is(err, idempotency.ErrUnknown): // the transaction is not the one that was begun
		return fmt.Errorf("%w: %w", errUnrecorded, err)
	}
	return err
}

func (r *recorded) replay(done idempotency.Record) {
	r.Result, r.Replayed = done.Result, done.Owner != r.claim.Owner
}

// findTime bounds how long RunTx looks for a record, beyond the time of an attempt.
const findTime = 2 * time.Second

// find looks for the record of the key until the database says whether it is there, or time
// is over. That is part of the attempt, over a [Connector] too: there may be no other slot,
// and the COMMIT may be why the breaker opened. Only the caller can end it.
func (r *recorded) find() (there, known bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.at), findTime)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	for n := 1; ; n++ {
		record, err := r.ask(ctx)
		if err == nil {
			there = record.State == idempotency.StateDone
			if there {
				r.replay(record)
			}
			return there, true
		}
		if !sqltx.Pause(ctx, n) {
			return false, false
		}
	}
}

// ask reads the record under the key's lock, when no transaction with the key can be open any
// more. Only a read that begins after that sees all that was committed, whatever the isolation.
// A record of another claim that does not answer this one is past its retention, or was written
// since, so that it says nothing of this transaction.
func (r *recorded) ask(ctx context.Context) (idempotency.Record, error) {
	var none idempotency.Record
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return none, err
	}
	defer tx.Rollback()
	e, err := r.Store.BeginTx(ctx, tx, r.claim)
	switch {
	case err != nil:
		return none, err
	case e.Decision == idempotency.DecisionReplay:
		return e.Record, nil
	case e.Decision != idempotency.DecisionRun:
		return none, ErrInProgress
	}
	if err := tx.Rollback(); err != nil {
		return none, err
	}
	record, err := r.Store.Get(ctx, r.ID)
	if record.Owner != r.claim.Owner {
		return none, err
	}
	return record, err
}
