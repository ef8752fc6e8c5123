package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/sqlgroup"
)

// errNested says that work would wait for itself: SQLite has one writer.
var errNested = errors.New("sqlstore: work in a transaction of a SQLite database can't claim or change another key of it")

// A group makes changes of many callers in one transaction, unless they come from work
// that has the write lock.
type group struct{ *sqlgroup.Group }

func newGroup(db *sql.DB, s statements) *group {
	return &group{sqlgroup.New(db, sqlgroup.Texts{
		Store: "sqlstore", Lock: s.lock,
		Prepared: []string{s.insertNew, s.selectOne, s.selectNow, s.insertOne, s.updateOne, s.deleteOne, s.selectDue},
	}, refusal)}
}

// do makes a change, as sqlgroup's Do does.
func (g *group) do(ctx context.Context, do func(context.Context, queryer) error) error {
	if g.holds(ctx) {
		return errNested
	}
	return g.Do(ctx, do)
}

// refusal reports whether the store itself refused: the transaction goes on.
func refusal(err error) bool {
	return errors.Is(err, idempotency.ErrLeaseLost) || errors.Is(err, idempotency.ErrTooLarge) || errors.Is(err, idempotency.ErrUnreadable)
}

// enter lets a transaction of the program's own work wait for its turn.
func (g *group) enter(ctx context.Context) (leave func(), err error) {
	if g.holds(ctx) {
		return nil, errNested
	}
	return g.Enter(ctx)
}

// holds reports whether ctx is that of work which has the write lock.
func (g *group) holds(ctx context.Context) bool {
	w, _ := ctx.Value(workKey{}).(*work)
	return w != nil && w.group == g
}
