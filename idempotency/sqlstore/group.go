package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/gabion-go/gabion/idempotency"
)

// Bounds of a group. A batch is one transaction: larger ones make all wait for one
// answer and win nothing over the cost of their sync.
const (
	maxBatch = 256
	maxQueue = 8192
)

// errQueue says that the database has not kept up, or that a transaction holds its
// write lock.
var errQueue = errors.New("sqlstore: too many changes wait for the database's write lock")

// errNested says that work would wait for itself: SQLite has one writer.
var errNested = errors.New("sqlstore: work in a transaction of a SQLite database can't claim or change another key of it")

// A group makes changes of many callers in one transaction: the database has one
// writer at a time, and what a commit costs is its sync. Those who come while a
// transaction is under way are the next one, so that nobody waits for company.
// Nobody is answered before the commit.
//
// Its goroutine lives as long as there is work, so there is nothing to close.
type group struct {
	db     *sql.DB
	sql    statements
	writer chan struct{} // holds a value while somebody of this process writes, and lets them in as they came

	ready map[string]*sql.Stmt // by text; whoever drains has it

	mu     sync.Mutex // guards all below
	queue  []*waiting
	busy   bool  // there is a goroutine
	broken error // the disk has failed
}

// A waiting change is one that somebody waits for.
type waiting struct {
	ctx  context.Context
	do   func(context.Context, queryer) error
	err  error
	done chan struct{} // closed when err is set
}

func newGroup(db *sql.DB, texts statements) *group {
	return &group{db: db, sql: texts, writer: make(chan struct{}, 1)}
}

// do makes a change. It returns early when ctx ends: the change may then still be made
// unless ctx ended before its transaction began.
func (g *group) do(ctx context.Context, do func(context.Context, queryer) error) error {
	if g.holds(ctx) {
		return errNested
	}
	w := &waiting{ctx: ctx, do: do, done: make(chan struct{})}
	if err := g.enqueue(w); err != nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *group) enqueue(w *waiting) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken != nil {
		return g.broken
	}
	if len(g.queue) == maxQueue {
		return errQueue
	}
	g.queue = append(g.queue, w)
	if !g.busy {
		g.busy = true
		go g.drain()
	}
	return nil
}

// drain commits what waits until nothing does.
func (g *group) drain() {
	for {
		g.writer <- struct{}{}
		batch, more := g.take()
		g.commit(batch)
		<-g.writer
		if !more {
			return
		}
	}
}

// take returns the next batch without those whose callers have gone, and whether the
// goroutine has to come again.
func (g *group) take() (batch []*waiting, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.queue), maxBatch)
	for _, w := range g.queue[:n] {
		if w.ctx.Err() == nil {
			batch = append(batch, w)
		}
	}
	rest := copy(g.queue, g.queue[n:])
	clear(g.queue[rest:])
	g.queue = g.queue[:rest]
	g.busy = n > 0
	return batch, g.busy
}

// commit makes a batch. When one of several fails, each is made alone, so that a bad
// change takes no other with it.
func (g *group) commit(batch []*waiting) {
	if len(batch) == 0 {
		return
	}
	bad, err := false, g.refuses()
	if err == nil {
		bad, err = g.transact(batch)
	}
	if broken := g.check(err); bad && broken == nil && len(batch) > 1 {
		for i := range batch {
			g.commit(batch[i : i+1])
		}
		return
	}
	for _, w := range batch {
		if err != nil {
			w.err = err
		}
		close(w.done)
	}
}

// transact makes a batch in one transaction and reports whether it was one of the
// changes that failed. It has no caller's context: the end of one must not end the
// others.
func (g *group) transact(batch []*waiting) (bad bool, err error) {
	ctx := context.Background()
	if err := g.prepare(ctx); err != nil {
		return false, wrap("prepare", err)
	}
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return false, wrap("begin", err)
	}
	defer tx.Rollback() // does nothing after a commit
	q := prepared{tx, g.ready}
	if _, err := q.ExecContext(ctx, g.sql.lock); err != nil {
		return false, wrap("lock", err)
	}
	for _, w := range batch {
		if w.err = w.do(ctx, q); w.err != nil && !refusal(w.err) {
			return true, w.err
		}
	}
	return false, wrap("commit", tx.Commit())
}

// prepare prepares the statements that changes use, the first time. They end with the
// database.
func (g *group) prepare(ctx context.Context) error {
	if g.ready != nil {
		return nil
	}
	ready := map[string]*sql.Stmt{}
	for _, text := range []string{g.sql.insertNew, g.sql.selectOne, g.sql.selectNow, g.sql.insertOne, g.sql.updateOne, g.sql.deleteOne, g.sql.selectDue, g.sql.lock} {
		stmt, err := g.db.PrepareContext(ctx, text)
		if err != nil {
			for _, stmt := range ready {
				stmt.Close()
			}
			return err
		}
		ready[text] = stmt
	}
	g.ready = ready
	return nil
}

// A prepared transaction does not have its statements parsed each time, which would be
// most of what they cost.
type prepared struct {
	tx    *sql.Tx
	ready map[string]*sql.Stmt
}

func (p prepared) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	return p.tx.StmtContext(ctx, p.ready[text]).ExecContext(ctx, args...)
}

func (p prepared) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return p.tx.StmtContext(ctx, p.ready[text]).QueryContext(ctx, args...)
}

func (p prepared) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	return p.tx.StmtContext(ctx, p.ready[text]).QueryRowContext(ctx, args...)
}

// refusal reports whether the store itself refused: the transaction goes on.
func refusal(err error) bool {
	return errors.Is(err, idempotency.ErrLeaseLost) || errors.Is(err, idempotency.ErrTooLarge) || errors.Is(err, idempotency.ErrUnreadable)
}

// check refuses all further work once the disk has failed. After a failed sync the
// system may take pages for written that are not, and acknowledge the next commit on
// top of them; only a new process that recovers the file from what the disk has is
// safe.
func (g *group) check(err error) error {
	var c code
	if !errors.As(err, &c) || c.Code()&0xff != sqliteIO {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken == nil { // without wrapping: that one COMMIT is unknown says nothing of what never began
		g.broken = fmt.Errorf("sqlstore: the disk failed, so nothing is written until the program is started anew: %v", err) //nolint:errorlint // see above
	}
	return g.broken
}

// enter lets a transaction of the program's own work wait for its turn among the
// writers, rather than for the database's busy timeout. It returns who ends it.
func (g *group) enter(ctx context.Context) (leave func(), err error) {
	if g.holds(ctx) {
		return nil, errNested
	}
	select {
	case g.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := g.refuses(); err != nil {
		<-g.writer
		return nil, err
	}
	return func() { <-g.writer }, nil
}

// refuses returns why nothing is written any more. Whoever has the write lock asks:
// those who waited for it came before they could know.
func (g *group) refuses() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

// holds reports whether ctx is that of work which has the write lock.
func (g *group) holds(ctx context.Context) bool {
	w, _ := ctx.Value(workKey{}).(*work)
	return w != nil && w.group == g
}
