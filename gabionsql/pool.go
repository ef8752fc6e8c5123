package gabionsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// Open is [sql.OpenDB] of a [Connector], with a pool that fits: at most as many connections
// as dep's bulkhead has slots (bulkhead.limit, or bulkhead.max where the limit is learned),
// all of which may stay idle. Calls of [Query], [Exec], [QueryRow] and [RunTx] then wait for
// a slot, in a queue that is bounded and seen, and find a connection free once they have
// one. What is called on the DB directly waits for a connection, in the queue of
// database/sql, which is neither. Once it has one, it takes a slot if one is free and waits
// for none.
//
// The pool does not follow a reload of the policy: call SetMaxOpenConns then. [CheckPool]
// says whether it still fits. Open connects to nothing. It is an error, and one that is
// [policy.Invalid], if base or dep is nil, or if the bulkhead is off, because then there is
// no size for the pool.
func Open(base driver.Connector, dep *gabion.Dependency, opts ...gabion.CallOption) (*sql.DB, error) {
	c := newConnector(base, dep, opts)
	if err := c.problem(); err != nil {
		return nil, err
	}
	size := slots(c.seen.PolicyInForce())
	if size == 0 {
		return nil, invalid(dep, errNoBulkhead)
	}
	for op, all := range c.calls {
		c.calls[op] = append(all[:len(all):len(all)], adapter.NoQueue.(gabion.CallOption))
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	know(db)
	return db, nil
}

var errNoBulkhead = errors.New("gabionsql: the policy has no bulkhead, so the pool has no size: set bulkhead.limit to the most connections, or call sql.OpenDB(gabionsql.Connector(…)) and SetMaxOpenConns")

// slots is the most slots that the policy's bulkhead may have; zero means no bound.
func slots(p *policy.Policy) int {
	b := &p.Bulkhead
	switch {
	case b.Off:
		return 0
	case b.Limit == policy.Learned:
		return b.Max
	}
	return b.Limit
}

func invalid(dep *gabion.Dependency, err error) error {
	return &gabion.Error{Dependency: dep.Name(), Reason: policy.Invalid, Err: err}
}

// CheckPool says what is wrong with the size of db's pool, where dep's calls use it. It is
// an error, and one that is [policy.Invalid], if the pool has fewer connections than the
// bulkhead has slots: calls that were let in then wait once more, in a queue of
// database/sql's that is neither bounded nor seen. A pool without a bound is fine where the
// bulkhead has one. Call it after SetMaxOpenConns and after a reload. Afterwards calls of
// this package on db, whose connector must be a [Connector], end as
// [policy.PoolExhausted] when no connection came free in time.
func CheckPool(db *sql.DB, dep *gabion.Dependency) error {
	switch {
	case dep == nil:
		return &gabion.Error{Dependency: "gabionsql", Reason: policy.Invalid, Err: errNoDependency}
	case db == nil:
		return invalid(dep, errNoPool)
	}
	know(db)
	limit, size := slots(adapter.Of(dep).PolicyInForce()), db.Stats().MaxOpenConnections
	switch {
	case limit == 0 && size <= 0:
		return invalid(dep, errors.New("gabionsql: neither the pool nor the bulkhead has a bound: set bulkhead.limit and SetMaxOpenConns"))
	case size > 0 && (limit == 0 || limit > size):
		return invalid(dep, fmt.Errorf("gabionsql: the bulkhead lets in %s calls, and the pool has %d connections: "+
			"those without one wait in a queue of database/sql's that is neither bounded nor seen; set bulkhead.limit to at most %d, or SetMaxOpenConns to more",
			orAny(limit), size, size))
	}
	return nil
}

var errNoPool = errors.New("gabionsql: the database is nil")

func orAny(limit int) string {
	if limit == 0 {
		return "any number of"
	}
	return fmt.Sprint(limit)
}

// pools are those whose connectors tell when a call has a connection. They hold none of
// them alive, so that the program's own databases bound them.
var pools sync.Map // of weak.Pointer[sql.DB]: struct{}

func know(db *sql.DB) {
	w := weak.Make(db)
	if _, known := pools.LoadOrStore(w, struct{}{}); !known {
		runtime.AddCleanup(db, func(w weak.Pointer[sql.DB]) { pools.Delete(w) }, w)
	}
}

// waited returns err, or what it means if the call's time was over before it had a
// connection: database/sql has no error for that. A caller who left is no such end.
func (r *reach) waited(db *sql.DB, err error) error {
	if err == nil {
		return nil
	}
	if err = r.meant(err); r.has.Load() || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, tells := pools.Load(weak.Make(db)); !tells {
		return err
	}
	s := db.Stats()
	if s.MaxOpenConnections <= 0 {
		return err
	}
	return &exhausted{err: err, size: s.MaxOpenConnections, used: s.InUse}
}

// exhausted is the end of a call that never had a connection.
type exhausted struct {
	err        error
	size, used int
}

func (e *exhausted) Error() string {
	return fmt.Sprintf("no connection of the pool came free in time (%d of %d in use): %v", e.used, e.size, e.err)
}

func (e *exhausted) Unwrap() error { return e.err }

// Outcome says that the database was not asked.
func (e *exhausted) Outcome() policy.Outcome {
	return policy.Outcome{Class: policy.ClassRejected, NeverSent: true, Exhausted: true}
}
