package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// An Entry is a claim inside a transaction. Nothing of it is in the table before
// [Store.CompleteTx].
type Entry struct {
	idempotency.Answer
	id    idempotency.ID
	old   row
	begun mark
}

type workKey struct{}

// A work is what the context of a run carries. It belongs to the run's goroutine, as
// its transaction does.
type work struct {
	tx     *sql.Tx
	group  *group // which waits until it ends, nil if none does
	failed error  // what Failed was told
}

// TxFrom returns the transaction that the work of ctx runs in, or nil.
// It must be neither committed nor rolled back: see [Store.Tx].
func TxFrom(ctx context.Context) *sql.Tx {
	if w, _ := ctx.Value(workKey{}).(*work); w != nil {
		return w.tx
	}
	return nil
}

// Failed tells the store of an error of the transaction that the work of ctx runs in.
// An http.Handler should call it before it answers with an error of its own: if the
// database asked for the transaction again (serialization failure, deadlock), that
// answer is dropped and the handler runs anew, up to three times together. Other
// errors change nothing. Work that returns its error to [Store.Do] need not call it.
func Failed(ctx context.Context, err error) {
	if w, _ := ctx.Value(workKey{}).(*work); w != nil && repeatable(err) {
		w.failed = err
	}
}

// ErrConflict says that another transaction finished the same key first. The
// transaction must be rolled back; the next claim gets the other's result.
var ErrConflict = errors.New("sqlstore: another transaction finished the key first")

// errEnded says that the transaction is not the one in which the key was claimed.
var errEnded = fmt.Errorf("sqlstore: the work ended the transaction that it was given, and %w", idempotency.ErrUnknown)

var errNoRetention = errors.New("sqlstore: a claim without a retention would be forgotten as soon as it is done")

// BeginTx claims a key as the first statement of a transaction of one's own.
// Decision Run means: do the work, then CompleteTx, then commit; whatever else, roll
// back. InProgress means that another transaction has the key.
func (s *Store) BeginTx(ctx context.Context, tx *sql.Tx, c idempotency.Claim) (Entry, error) {
	if c.Retention <= 0 {
		return Entry{}, errNoRetention
	}
	got, begun, err := s.lock(ctx, tx, c.ID)
	if err != nil {
		return Entry{}, wrap("lock", err)
	}
	if !got {
		return Entry{Answer: idempotency.Answer{Decision: idempotency.DecisionInProgress}, id: c.ID}, nil
	}
	old, err := s.loadBy(ctx, tx, s.sql.lockOne, c.ID)
	if err != nil {
		return Entry{}, err
	}
	c.Recover = false // what was lost outside of transactions is found out there
	a, _ := old.Record.Begin(c, old.Now)
	return Entry{a, c.ID, old, begun}, nil
}

// A mark is by which a transaction is known again.
type mark struct {
	time      int64  // when it began, by the database's clock
	savepoint string // the name of one that was made at its start, instead
}

// lock takes the key, or the database's write lock, and marks the transaction.
func (s *Store) lock(ctx context.Context, tx *sql.Tx, id idempotency.ID) (got bool, m mark, err error) {
	if s.dialect.tryKey {
		err = tx.QueryRowContext(ctx, s.sql.lock, int64(binary.BigEndian.Uint64(id[:]))).Scan(&got, &m.time)
		return got, m, err
	}
	if s.dialect.mysql {
		if got, err = s.lockRow(ctx, tx, id); !got || err != nil {
			return false, m, err
		}
	} else if _, err = tx.ExecContext(ctx, s.sql.lock); err != nil {
		return false, m, err
	}
	m.savepoint = "gabion_" + strings.ToLower(rand.Text()) // a name that work can't have chosen
	_, err = tx.ExecContext(ctx, "SAVEPOINT "+m.savepoint)
	return err == nil, m, err
}

// same returns the time. errEnded says that this no longer is the transaction that was
// marked. A savepoint is there until its transaction ends, however it does, and is used up
// here.
func (s *Store) same(ctx context.Context, tx *sql.Tx, m mark) (now idempotency.Moment, err error) {
	var gone error
	if m.savepoint != "" {
		_, gone = tx.ExecContext(ctx, "RELEASE SAVEPOINT "+m.savepoint)
	}
	var begun int64
	if err := tx.QueryRowContext(ctx, s.sql.selectTx).Scan(&now, &begun); err != nil && (gone == nil || s.dialect.mysql) {
		return 0, wrap("complete", err) // the connection's: it says nothing of the savepoint
	}
	if gone != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("%w: %w", errEnded, gone)
	}
	if begun != m.time {
		return 0, errEnded
	}
	return now, nil
}

// ended returns errEnded if work ended its transaction where nothing refuses that, so that
// a rollback may not undo its effects. A transaction that has failed can't be asked.
func (s *Store) ended(ctx context.Context, tx *sql.Tx, m mark) error {
	if s.dialect.guard != nil {
		return nil
	}
	if _, err := s.same(ctx, tx, m); errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// CompleteTx stores the result in the transaction in which the key was claimed. It
// returns ErrConflict when another's result is there.
func (s *Store) CompleteTx(ctx context.Context, tx *sql.Tx, e Entry, res idempotency.Result) error {
	now, err := s.same(ctx, tx, e.begun)
	if err != nil {
		return err
	}
	ref := idempotency.Ref{ID: e.id, Token: e.Record.Token}
	done, _, err := e.Record.Apply(ref, idempotency.Change{State: idempotency.StateDone, Result: res}, now)
	if err != nil {
		return err
	}
	written, err := s.write(ctx, tx, e.id, e.old, done)
	if err == nil && !written {
		err = ErrConflict
	}
	return err
}

// Do runs work in a transaction with its record: its effects happen exactly once
// for a key. If the answer's decision is Run, work ran and was committed; if it is
// Replay, the record has the earlier result. An error of work rolls back. work may
// run up to three times, when the database reports a serialization failure or a
// deadlock, and only its last run counts.
func (s *Store) Do(ctx context.Context, c idempotency.Claim, work func(context.Context, *sql.Tx) (idempotency.Result, error)) (idempotency.Answer, error) {
	return s.Tx(ctx, c, func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		res, err := work(ctx, TxFrom(ctx))
		return res, idempotency.EndingSucceeded, err
	})
}

// Tx implements [idempotency.TxStore].
//
// Work must not end its transaction itself, not even to begin another one in its place.
// Where it did, nothing is recorded and the caller gets an error that is an
// idempotency.ErrUnknown. What it committed stands, unless the driver can refuse
// that (see [Dialect.WithGuard]), and the next claim of the key runs the work again. It is
// not found out where the work failed, its last transaction too, and PostgreSQL thus
// answers no more questions.
func (s *Store) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	if s.group != nil {
		leave, err := s.group.enter(ctx)
		if err != nil {
			return idempotency.Answer{}, err
		}
		defer leave()
	}
	var a idempotency.Answer
	err := sqltx.Repeat(ctx, repeatable, func(last bool) (err error) {
		a, err = s.once(ctx, c, run, last)
		if s.group != nil {
			_ = s.group.Check(err)
		}
		return err
	})
	return a, err
}

func (s *Store) once(ctx context.Context, c idempotency.Claim, run idempotency.Work, last bool) (idempotency.Answer, error) {
	from, leave, err := s.guarded(ctx)
	if err != nil {
		return idempotency.Answer{}, wrap("begin", err)
	}
	end := leave
	defer func() { end() }()
	tx, err := from.BeginTx(ctx, nil)
	if err != nil {
		return idempotency.Answer{}, wrap("begin", err)
	}
	end = func() {
		tx.Rollback() // does nothing after a commit; also when run panics
		leave()
	}
	e, err := s.BeginTx(ctx, tx, c)
	if err != nil || e.Decision != idempotency.DecisionRun {
		return e.Answer, err
	}
	if err := s.claimed(ctx, from, tx); err != nil {
		return idempotency.Answer{}, err
	}
	w := &work{tx: tx, group: s.group}
	res, how, err := run(context.WithValue(ctx, workKey{}, w), e.Record)
	if how == idempotency.EndingAbandoned {
		end = bounded(end)
		return e.Answer, err
	}
	if (err != nil || how != idempotency.EndingSucceeded) && !s.dialect.undone(errors.Join(err, w.failed)) {
		if end := s.ended(ctx, tx, e.begun); end != nil {
			return idempotency.Answer{}, errors.Join(end, err)
		}
	}
	if err == nil && w.failed != nil && how != idempotency.EndingSucceeded && (how == idempotency.EndingRejected || !last) {
		err = w.failed // an answer that comes of it is neither kept nor, while there are tries left, sent
	}
	if err != nil {
		return idempotency.Answer{}, err
	}
	switch how {
	case idempotency.EndingSucceeded:
		err = s.commit(ctx, from, tx, e, res)
		if w.failed != nil && (sqltx.Aborted(err) || s.dialect.undone(w.failed) && errors.Is(err, errEnded)) {
			err = w.failed
		}
	case idempotency.EndingRejected:
		if err = tx.Rollback(); err == nil {
			err = s.keep(ctx, from, c, res)
		}
	default:
		tx.Rollback() // if it can't be said, the end of the connection says it
	}
	e.Record.Result = res
	return e.Answer, err
}

// cutTimeout is how long the end of a transaction is waited for whose work goes on. If the work is
// in the middle of a statement, the end comes after that.
const cutTimeout = 2 * time.Second

// bounded is a function that waits for another for cutTimeout at most.
func bounded(f func()) func() {
	return func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f()
		}()
		timer := time.NewTimer(cutTimeout)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
	}
}

// A guarded is where transactions of work begin: the database, or a connection that
// commits nothing before the store does.
type guarded struct {
	beginner
	refuses   atomic.Bool
	claimed   string // what is said once the key is claimed, if anything
	committed bool
}

type beginner interface {
	BeginTx(context.Context, *sql.TxOptions) (*sql.Tx, error)
}

func (s *Store) guarded(ctx context.Context) (g *guarded, leave func(), err error) {
	if s.dialect.guard == nil && !s.dialect.mysql {
		return &guarded{beginner: s.db}, func() {}, nil
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	if s.dialect.mysql {
		return s.session(ctx, conn)
	}
	g = &guarded{beginner: conn}
	g.refuses.Store(true)
	if err := conn.Raw(func(c any) error { return s.dialect.guard(c, g.refuses.Load) }); err != nil {
		conn.Close()
		return nil, nil, err
	}
	return g, func() {
		g.refuses.Store(false)
		_ = conn.Raw(func(c any) error { return s.dialect.guard(c, nil) })
		conn.Close()
	}, nil
}

// keep stores a result whose effects were rolled back.
func (s *Store) keep(ctx context.Context, from *guarded, c idempotency.Claim, res idempotency.Result) error {
	tx, err := from.BeginTx(ctx, nil)
	if err != nil {
		return wrap("begin", err)
	}
	defer tx.Rollback()
	e, err := s.BeginTx(ctx, tx, c)
	if err != nil {
		return err
	}
	if e.Decision != idempotency.DecisionRun {
		return ErrConflict
	}
	return s.commit(ctx, from, tx, e, res)
}

func (s *Store) commit(ctx context.Context, from *guarded, tx *sql.Tx, e Entry, res idempotency.Result) error {
	if err := s.CompleteTx(ctx, tx, e, res); err != nil {
		return err
	}
	from.refuses.Store(false)
	err := tx.Commit()
	from.committed = err == nil
	if err == nil || sqltx.Answered(err) {
		return wrap("commit", err)
	}
	return fmt.Errorf("sqlstore: commit: %w: %w", idempotency.ErrUnknown, err)
}

func repeatable(err error) bool {
	if errors.Is(err, idempotency.ErrUnknown) {
		return false
	}
	return errors.Is(err, ErrConflict) || sqltx.Contended(err) // of a conflict about the key, to find the other's result
}
