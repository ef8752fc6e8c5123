package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// An Entry is a claim inside a transaction. Nothing of it is in the table before
// [Store.CompleteTx].
type Entry struct {
	idempotency.Answer
	id    idempotency.ID
	old   row
	begun time.Time // when the transaction began, by which it is known again
}

type workKey struct{}

// TxFrom returns the transaction that the work of ctx runs in, or nil. It is the store's to commit and to
// roll back: those two methods of it return [ErrNotYours]. Like any pgx.Tx it is for one goroutine at a
// time, and it ends with the work.
func TxFrom(ctx context.Context) pgx.Tx {
	if w, _ := ctx.Value(workKey{}).(*workTx); w != nil {
		return w
	}
	return nil
}

// Why a transaction is not what the store needs.
var (
	// ErrConflict says that another transaction finished the same key first. The
	// transaction must be rolled back; the next claim gets the other's result.
	ErrConflict = errors.New("pgxstore: another transaction finished the key first")

	// ErrNotYours says that work tried to end the transaction that it was given. Where it
	// did, by COMMIT or ROLLBACK in a text or past the transaction on its connection,
	// nothing is recorded, and the error is an idempotency.ErrUnknown too.
	ErrNotYours = errors.New("pgxstore: the store ends this transaction, according to how its work ends")

	errEnded = fmt.Errorf("%w: the work did, and %w", ErrNotYours, idempotency.ErrUnknown)

	errNoRetention = errors.New("pgxstore: a claim without a retention would be forgotten as soon as it is done")

	errClosed = errors.New("the connection was lost before COMMIT was sent")

	errBusy = errors.New("the work left rows open on its connection")
)

// BeginTx claims a key as the first statement of a transaction of one's own.
// Decision Run means: do the work, then CompleteTx, then commit; whatever else, roll
// back. InProgress means that another transaction has the key.
func (s *Store) BeginTx(ctx context.Context, tx pgx.Tx, c idempotency.Claim) (Entry, error) {
	e, _, err := s.enter(ctx, new(pgx.Batch), tx.SendBatch, c)
	return e, err
}

// start begins a transaction and claims a key in it.
func (s *Store) start(ctx context.Context, conn *pgx.Conn, c idempotency.Claim) (Entry, pgx.Tx, error) {
	b := new(pgx.Batch)
	b.BeginTx(pgx.TxOptions{})
	return s.enter(ctx, b, conn.SendBatch, c)
}

// enter sends the statements that claim a key, after those in b. The record is read
// after its lock was taken, by a statement of its own: under READ COMMITTED it sees
// what the lock's last holder committed.
func (s *Store) enter(ctx context.Context, b *pgx.Batch, send func(context.Context, *pgx.Batch) pgx.BatchResults, c idempotency.Claim) (Entry, pgx.Tx, error) {
	e := Entry{id: c.ID}
	if c.Retention <= 0 {
		return e, nil, errNoRetention
	}
	got := false
	b.Queue(tryLock, lockOf(c.ID)).QueryRow(func(r pgx.Row) error { return r.Scan(&got, &e.begun) })
	b.Queue(s.sql.load, c.ID[:]).QueryRow(func(r pgx.Row) error { return e.old.scan(r) })
	e.old.sent = time.Now()
	results := send(ctx, b)
	tx := results.Tx()
	if err := results.Close(); err != nil {
		return e, tx, wrap("claim", err)
	}
	if !got {
		e.Answer = idempotency.Answer{Decision: idempotency.DecisionInProgress}
		return e, tx, nil
	}
	c.Recover = false // what was lost outside of transactions is found out there
	e.Answer, _ = e.old.Record.Begin(c, e.old.Now)
	return e, tx, nil
}

// completion returns the statement that stores the result.
func (s *Store) completion(e Entry, res idempotency.Result) (text string, args []any, err error) {
	at := e.old.Now.Add(time.Since(e.old.sent))
	ref := idempotency.Ref{ID: e.id, Token: e.Record.Token}
	done, _, err := e.Record.Apply(ref, idempotency.Change{State: idempotency.StateDone, Result: res}, at)
	if err != nil {
		return "", nil, err
	}
	args, err = values(e.id, e.old, done, at)
	args = append(args, e.begun)
	if e.old.Rev == 0 {
		return s.sql.insert, args, err
	}
	return s.sql.updateTx, args, err
}

// CompleteTx stores the result in the transaction in which the key was claimed. It
// returns ErrConflict when another's result is there.
func (s *Store) CompleteTx(ctx context.Context, tx pgx.Tx, e Entry, res idempotency.Result) error {
	text, args, err := s.completion(e, res)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, text, args...)
	if err == nil && tag.RowsAffected() != 1 {
		return ErrConflict
	}
	return wrap("complete", taken(err))
}

// taken makes ErrConflict of a record that was there before ours.
func taken(err error) error {
	if stateOf(err) == "23505" {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}

// Do runs work in a transaction with its record: its effects happen exactly once
// for a key. If the answer's decision is Run, work ran and was committed; if it is
// Replay, the record has the earlier result. An error of work rolls back. work may
// run up to three times, when the database reports a serialization failure, a
// deadlock or a lock that was not to be had, and only its last run counts.
func (s *Store) Do(ctx context.Context, c idempotency.Claim, work func(context.Context, pgx.Tx) (idempotency.Result, error)) (idempotency.Answer, error) {
	return s.Tx(ctx, c, func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		res, err := work(ctx, TxFrom(ctx))
		return res, idempotency.EndingSucceeded, err
	})
}

// Tx implements [idempotency.TxStore]. Work whose transaction the database ended with a
// serialization failure or a deadlock is repeated also when it made an answer of that
// error and did not return it.
func (s *Store) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	var a idempotency.Answer
	err := sqltx.Repeat(ctx, repeatable, func(last bool) (err error) {
		a, err = s.once(ctx, c, run, last)
		return err
	})
	return a, err
}

func (s *Store) once(ctx context.Context, c idempotency.Claim, run idempotency.Work, last bool) (idempotency.Answer, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return idempotency.Answer{}, wrap("begin", err)
	}
	defer conn.Release() // closes a connection that is still in a transaction
	e, tx, err := s.start(ctx, conn.Conn(), c)
	cut := false
	defer func() {
		if !cut {
			rollback(ctx, tx) // also when run panics; does nothing after a commit
		}
	}()
	if err != nil || e.Decision != idempotency.DecisionRun {
		return e.Answer, err
	}
	w := &workTx{Tx: tx}
	res, how, err := w.run(ctx, run, e.Record)
	if cut = how == idempotency.EndingAbandoned; cut {
		sever(ctx, conn.Hijack().PgConn())
		return e.Answer, err
	}
	lost := w.lost()
	if err != nil || how != idempotency.EndingSucceeded {
		if end := undo(ctx, tx, e); errors.Is(end, errEnded) || err == nil && how == idempotency.EndingRejected && end != nil {
			return idempotency.Answer{}, errors.Join(end, err)
		}
	} else if tx.Conn().PgConn().TxStatus() == idle {
		return idempotency.Answer{}, errEnded
	}
	if err != nil {
		return idempotency.Answer{}, err
	}
	if lost != nil && how != idempotency.EndingSucceeded && (how == idempotency.EndingRejected || !last) {
		return idempotency.Answer{}, lost // an answer that comes of it is neither kept nor, while there are tries left, sent
	}
	switch how {
	case idempotency.EndingSucceeded:
		if err = s.commit(ctx, tx, e, res); sqltx.Aborted(err) && w.failed != nil {
			err = w.failed
		}
	case idempotency.EndingRejected:
		err = s.keep(ctx, conn.Conn(), c, res)
	}
	e.Record.Result = res
	return e.Answer, err
}

// keep stores a result whose effects were rolled back.
func (s *Store) keep(ctx context.Context, conn *pgx.Conn, c idempotency.Claim, res idempotency.Result) error {
	e, tx, err := s.start(ctx, conn, c)
	defer rollback(ctx, tx)
	if err != nil {
		return err
	}
	if e.Decision != idempotency.DecisionRun {
		return ErrConflict
	}
	return s.commit(ctx, tx, e, res)
}

// endTimeout bounds a rollback whose caller has gone. If it is too short the connection
// is closed, which rolls back too.
const endTimeout = 5 * time.Second

// rollback ends a transaction that was not committed.
func rollback(ctx context.Context, tx pgx.Tx) {
	if tx == nil || tx.Conn() == nil || tx.Conn().PgConn().TxStatus() == idle {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// sever takes a connection away from work that goes on and may be using it, so nothing else
// may. The database ends the statement that runs, and rolls back.
func sever(ctx context.Context, conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	_ = conn.CancelRequest(ctx) // else a statement may keep its locks
	_ = conn.Conn().Close()
}

// undo rolls back what work did. errEnded says that it rolled back another transaction than
// the one in which the key was claimed. One that has failed can't be asked.
func undo(ctx context.Context, tx pgx.Tx, e Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	switch tx.Conn().PgConn().TxStatus() {
	case idle:
		return errEnded
	case failed:
		return tx.Rollback(ctx)
	}
	b := new(pgx.Batch)
	same := true
	b.Queue("SELECT now() = $1::timestamptz", e.begun).QueryRow(func(r pgx.Row) error { return r.Scan(&same) })
	b.Queue("rollback")
	err := tx.SendBatch(ctx, b).Close()
	if !same {
		return errEnded
	}
	return wrap("rollback", err)
}

// commit stores the result and commits. A new record goes along with COMMIT in one
// round trip: if it can't be inserted, the database skips the COMMIT. A record that was
// there has to be looked at in between, for an update of nothing is no error.
func (s *Store) commit(ctx context.Context, tx pgx.Tx, e Entry, res idempotency.Result) error {
	if err := ctx.Err(); err != nil {
		return wrap("commit", err) // nothing is sent
	}
	if tx.Conn().IsClosed() {
		return wrap("commit", errClosed)
	}
	if tx.Conn().PgConn().IsBusy() {
		return wrap("commit", errBusy)
	}
	if e.old.Rev != 0 {
		if err := s.CompleteTx(ctx, tx, e, res); err != nil {
			return err
		}
		return outcome(tx.Commit(ctx))
	}
	text, args, err := s.completion(e, res)
	if err != nil {
		return err
	}
	b := new(pgx.Batch)
	stored := false
	b.Queue(text, args...).Exec(func(tag pgconn.CommandTag) error {
		stored = true
		if tag.RowsAffected() == 0 {
			return errEnded
		}
		return nil
	})
	var end pgconn.CommandTag
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		end = tag
		return nil
	})
	err = tx.SendBatch(ctx, b).Close()
	if err == nil && end.String() == "ROLLBACK" {
		err = pgx.ErrTxCommitRollback
	}
	if !stored { // else what was there before is the work's business, and fails the COMMIT
		err = taken(err)
	}
	return outcome(err)
}

// outcome says what became of a COMMIT.
func outcome(err error) error {
	if err == nil || sqltx.Answered(err) || errors.Is(err, errEnded) {
		return wrap("commit", err)
	}
	return fmt.Errorf("pgxstore: commit: %w: %w", idempotency.ErrUnknown, err)
}

const (
	idle   = 'I' // states of a connection (ReadyForQuery)
	failed = 'E'
)

// stateOf returns the SQLSTATE of the database's answer, empty if err has none.
func stateOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

func repeatable(err error) bool {
	if errors.Is(err, idempotency.ErrUnknown) {
		return false
	}
	return errors.Is(err, ErrConflict) || sqltx.Contended(err)
}
