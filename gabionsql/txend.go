package gabionsql

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/sqltx"
)

// rollbackTime bounds a rollback, with drivers that honour a context there. If it is too
// short the connection is closed, which rolls back too.
const rollbackTime = 5 * time.Second

// An ending is one transaction of database/sql, of which it is known who ended it.
//
// database/sql rolls a transaction back when the context ends that it was begun with. After the
// attempt's context that could not be told from work which had committed before. So the
// transaction gets a context of its own, and the ending rolls back and sees the answer.
type ending struct {
	db   Beginner
	opts *sql.TxOptions

	end  context.CancelFunc // of the context that it was begun with
	stop func() bool        // ends the watch over the attempt's context
	how  sqltx.End          // written by the side that rolls it back

	mu       sync.Mutex // guards all below
	tx       *sql.Tx
	phase    phase
	expiring <-chan struct{} // closed once it is rolled back because of the attempt's context
}

type phase uint8

const (
	beginning phase = iota
	working
	committing
	over
)

// Begin implements sqltx.Ends.
func (e *ending) Begin(ctx context.Context) (*sql.Tx, error) {
	own, end := context.WithCancel(context.WithoutCancel(ctx))
	e.end = end
	e.stop = context.AfterFunc(ctx, e.expire)
	w := &reach{Context: own}
	tx, err := e.db.BeginTx(w, e.opts)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.phase == beginning {
		e.tx, e.phase = tx, working
		return tx, nil
	}
	e.stop()
	end()
	if err == nil {
		_ = tx.Rollback() // or database/sql did
		return nil, ctx.Err()
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, context.Canceled) {
		err = ended
	}
	if db, ok := e.db.(*sql.DB); ok {
		err = w.waited(db, err)
	}
	return nil, err
}

// expire runs when the attempt's context ends.
func (e *ending) expire() {
	e.mu.Lock()
	switch e.phase {
	case beginning:
		e.phase = over
		e.end()
	case working:
		done := make(chan struct{})
		e.phase, e.expiring = over, done
		defer close(done)
		defer e.rollback()
	case committing:
		e.end()
	}
	e.mu.Unlock()
}

// rollback is called once, without the lock.
func (e *ending) rollback() {
	timer := time.AfterFunc(rollbackTime, e.end)
	defer timer.Stop()
	e.how = sqltx.EndOf(e.tx.Rollback())
	e.end()
}

// leave moves on from the work. If the attempt's context has ended it waits until all is
// rolled back, and reports false.
func (e *ending) leave(to phase) bool {
	e.mu.Lock()
	working, expiring := e.phase == working, e.expiring
	if working {
		e.phase = to
	}
	e.mu.Unlock()
	if expiring != nil {
		<-expiring
	}
	return working
}

// Rollback implements sqltx.Ends.
func (e *ending) Rollback(context.Context, *sql.Tx) sqltx.End {
	e.stop()
	if e.leave(over) {
		e.rollback()
	}
	return e.how
}

// Commit implements sqltx.Ends.
func (e *ending) Commit(ctx context.Context, tx *sql.Tx) (sqltx.Fate, error) {
	if !e.leave(committing) {
		return sqltx.FateOf(e.how, ctx.Err()), ctx.Err() // it was rolled back before COMMIT was sent
	}
	err := tx.Commit()
	e.stop()
	e.end()
	switch ended := ctx.Err(); {
	case errors.Is(err, sql.ErrTxDone) && ended == nil:
		return sqltx.Ended, err
	case errors.Is(err, context.Canceled) && ended != nil:
		return sqltx.Unknown, ended
	}
	return sqltx.FateOfCommit(err), err
}
