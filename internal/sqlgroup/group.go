// Package sqlgroup makes changes of many callers in one transaction, for the stores that
// write to SQLite.
package sqlgroup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// Bounds of a group. A batch is one transaction: larger ones make all wait for one
// answer and win nothing over the cost of their sync.
const (
	maxBatch = 256
	maxQueue = 8192
)

// A Group makes changes of many callers in one transaction: the database has one
// writer at a time, and what a commit costs is its sync. Changes that come while a transaction is
// under way make up the next one, so that no change waits for others to join it. No caller is
// answered before the commit.
//
// Its goroutine lives as long as there is work, so there is nothing to close.
type Group struct {
	db      *sql.DB
	texts   Texts
	refuses func(error) bool
	writer  chan struct{} // holds a value while this process writes; it lets writers in as they came

	ready map[string]*sql.Stmt // by text; the goroutine that drains has it

	mu     sync.Mutex // guards all below
	queue  []*waiting
	busy   bool  // there is a goroutine
	broken error // the disk has failed
}

// Texts are what a group says, and to whom it belongs.
type Texts struct {
	Store    string   // stands before its errors: a package's name
	Lock     string   // the first statement of each transaction: takes the write lock
	Prepared []string // statements that changes use often. They may use others
}

// A Queryer is what changes are made with: a transaction, or a database.
type Queryer interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error) // as sql.DB has it
	QueryContext(context.Context, string, ...any) (*sql.Rows, error) // as sql.DB has it
	QueryRowContext(context.Context, string, ...any) *sql.Row        // as sql.DB has it
}

// A waiting change is one that a caller waits for.
type waiting struct {
	ctx  context.Context
	do   func(context.Context, Queryer) error
	err  error
	done chan struct{} // closed when err is set
}

// New returns a group for a database. Refusal reports whether an error of a change is the
// store's own word, after which the transaction goes on and commits.
func New(db *sql.DB, t Texts, refusal func(error) bool) *Group {
	return &Group{db: db, texts: t, refuses: refusal, writer: make(chan struct{}, 1)}
}

// Do makes a change. It returns early when ctx ends: the change may then still be made
// unless ctx ended before its transaction began. So nothing that do assigns may be read after
// an error, and do may be called again after one of its statements failed.
func (g *Group) Do(ctx context.Context, do func(context.Context, Queryer) error) error {
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

func (g *Group) enqueue(w *waiting) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken != nil {
		return g.broken
	}
	if len(g.queue) == maxQueue {
		return fmt.Errorf("%s: too many changes wait for the database's write lock", g.texts.Store)
	}
	g.queue = append(g.queue, w)
	if !g.busy {
		g.busy = true
		go g.drain()
	}
	return nil
}

// drain commits what waits until nothing does.
func (g *Group) drain() {
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
func (g *Group) take() (batch []*waiting, more bool) {
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
func (g *Group) commit(batch []*waiting) {
	if len(batch) == 0 {
		return
	}
	bad, err := false, g.failed()
	if err == nil {
		bad, err = g.transact(batch)
	}
	if broken := g.Check(err); bad && broken == nil && len(batch) > 1 {
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
func (g *Group) transact(batch []*waiting) (bad bool, err error) {
	ctx := context.Background()
	if err := g.prepare(ctx); err != nil {
		return false, g.wrap("prepare", err)
	}
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return false, g.wrap("begin", err)
	}
	defer tx.Rollback() // does nothing after a commit
	q := prepared{tx, g.ready}
	if _, err := q.ExecContext(ctx, g.texts.Lock); err != nil {
		return false, g.wrap("lock", err)
	}
	for _, w := range batch {
		if w.err = w.do(ctx, q); w.err != nil && !g.refuses(w.err) {
			return true, w.err
		}
	}
	return false, g.wrap("commit", tx.Commit())
}

// prepare prepares the statements that changes use, the first time. They end with the
// database.
func (g *Group) prepare(ctx context.Context) error {
	if g.ready != nil {
		return nil
	}
	ready := map[string]*sql.Stmt{}
	for _, text := range append(g.texts.Prepared, g.texts.Lock) {
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

// stmt returns a statement that was prepared, or nil.
func (p prepared) stmt(ctx context.Context, text string) *sql.Stmt {
	if ready := p.ready[text]; ready != nil {
		return p.tx.StmtContext(ctx, ready)
	}
	return nil
}

// ExecContext implements Queryer.
func (p prepared) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if s := p.stmt(ctx, text); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return p.tx.ExecContext(ctx, text, args...)
}

// QueryContext implements Queryer.
func (p prepared) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if s := p.stmt(ctx, text); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return p.tx.QueryContext(ctx, text, args...)
}

// QueryRowContext implements Queryer.
func (p prepared) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if s := p.stmt(ctx, text); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return p.tx.QueryRowContext(ctx, text, args...)
}

// Check refuses all further work once the disk has failed. After a failed sync the
// system may take pages for written that are not, and acknowledge the next commit on
// top of them; only a new process that recovers the file from what the disk has is
// safe.
func (g *Group) Check(err error) error {
	var c interface{ Code() int }
	if !errors.As(err, &c) || c.Code()&0xff != sqliteIO {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken == nil { // without wrapping: that one COMMIT is unknown says nothing of what never began
		g.broken = fmt.Errorf("%s: the disk failed, so nothing is written until the program is started anew: %v", g.texts.Store, err) //nolint:errorlint // see above
	}
	return g.broken
}

// Enter lets a transaction of the program's own work wait for its turn among the
// writers, rather than for the database's busy timeout. It returns who ends it.
func (g *Group) Enter(ctx context.Context) (leave func(), err error) {
	select {
	case g.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := g.failed(); err != nil {
		<-g.writer
		return nil, err
	}
	return func() { <-g.writer }, nil
}

// failed returns why nothing is written any more. A writer asks again once it has the write lock:
// the failure may have come while it waited.
func (g *Group) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.broken
}

func (g *Group) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s: %w", g.texts.Store, what, err)
}

// sqliteIO is a primary result code of SQLite.
const sqliteIO = 10
