package pgxfleet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/internal/sqlkit"
	"github.com/gabion-go/gabion/internal/sqltx"
)

// A Store is a [fleet.Store] in one table. Make one with [New]. Safe for concurrent use. It holds
// nothing that must be closed; the pool is the caller's.
type Store struct {
	pool *pgxpool.Pool
	sql  statements
}

var _ fleet.Store = (*Store)(nil)

// New returns a store in the given table, which [Store.Migrate] creates. It does not ask the
// database anything. The error is about the table's name, which has at most 48 bytes.
func New(pool *pgxpool.Pool, table string) (*Store, error) {
	texts, err := write(table)
	if err != nil {
		return nil, err
	}
	return &Store{pool: pool, sql: texts}, nil
}

// Migrate creates the table if it is missing. Any number of processes may do so at the same time.
// It refuses a server that is too old.
func (s *Store) Migrate(ctx context.Context) error {
	return wrap(dialect.Create(ctx, server{s.pool}, s.sql.schema))
}

// A server is where the table is made.
type server struct{ pool *pgxpool.Pool }

// Ask implements sqlkit.Server.
func (s server) Ask(ctx context.Context, query string) (text string, err error) {
	err = s.pool.QueryRow(ctx, query).Scan(&text)
	return text, err
}

// Exec implements sqlkit.Server.
func (s server) Exec(ctx context.Context, text string) error {
	_, err := s.pool.Exec(ctx, text)
	return err
}

var _ sqlkit.Server = server{}

// Do implements [fleet.Store]. It is atomic. What the database undid because of another transaction
// is repeated some times.
func (s *Store) Do(ctx context.Context, b fleet.Batch) (r fleet.Result, err error) {
	err = sqltx.UntilNoConflict(func() error {
		r, err = s.do(ctx, b)
		return err
	})
	return r, wrap(err)
}

// do sends all statements at once. What is between two synchronizations of the protocol is one transaction.
func (s *Store) do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	r := fleet.Result{Items: map[string]fleet.Item{}}
	var all pgx.Batch
	s.queuePuts(&all, b)
	read := func(rows pgx.Rows) error { return readInto(r.Items, rows) }
	if len(b.Get) > 0 {
		all.Queue(s.sql.get, b.Get).Query(read)
	}
	if b.List != "" {
		all.Queue(s.sql.list, b.List).Query(read)
	}
	all.Queue(s.sql.clock).QueryRow(func(row pgx.Row) error {
		var now int64
		err := row.Scan(&now, &r.Swapped)
		r.Now = time.Unix(0, now)
		return err
	})
	if err := s.pool.SendBatch(ctx, &all).Close(); err != nil {
		return fleet.Result{}, err
	}
	return r, nil
}

func (s *Store) queuePuts(all *pgx.Batch, b fleet.Batch) {
	if p := b.Swap; p != nil {
		version := int64(min(p.Version, math.MaxInt64))
		switch {
		case p.Value == nil && version == 0:
			all.Queue(s.sql.swapNone, p.Key)
		case p.Value == nil:
			all.Queue(s.sql.swapRemove, p.Key, version)
		case version == 0:
			all.Queue(s.sql.swapNew, p.Key, p.Value, lasts(p))
		default:
			all.Queue(s.sql.swap, p.Key, p.Value, lasts(p), version)
		}
		of, _, _ := strings.Cut(p.Key, "/")
		all.Queue(s.sql.sweep, of+"/")
	}
	for i := range b.Puts {
		if p := &b.Puts[i]; p.Value == nil {
			all.Queue(s.sql.remove, p.Key)
		} else {
			all.Queue(s.sql.put, p.Key, p.Value, lasts(p))
		}
	}
}

// farOff stands for all longer times, which would overflow when the database adds them to its clock: a century.
const farOff = 100 * 365 * 24 * time.Hour

// lasts is in nanoseconds. The database's clock has microseconds.
func lasts(p *fleet.Put) int64 {
	if p.Lasts <= 0 {
		return 0
	}
	return int64(min(p.Lasts, farOff) + time.Microsecond)
}

func readInto(items map[string]fleet.Item, rows pgx.Rows) error {
	var key string
	var version int64
	var value []byte
	_, err := pgx.ForEachRow(rows, []any{&key, &version, &value}, func() error {
		items[key] = fleet.Item{Value: append([]byte{}, value...), Version: uint64(version)}
		return nil
	})
	return err
}

// ErrNoTable says that the table is missing: [Store.Migrate] was not called.
var ErrNoTable = errors.New("there is no such table: call Migrate")

func wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case sqltx.StateOf(err) == "42P01": // undefined_table
		return fmt.Errorf("pgxfleet: %w: %w", ErrNoTable, err)
	}
	return fmt.Errorf("pgxfleet: %w", err)
}
