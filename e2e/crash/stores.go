package crash

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"modernc.org/sqlite"

	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisstore"
	"github.com/gabion-go/gabion/contrib/sqlitestore"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// A storeKind is a store that rigs run on. Another store is another entry.
type storeKind struct {
	name   string
	shared bool // several processes may have it open at once
	tx     bool // it has guarantee tx

	// tick is how coarse its clock is, and lease is the shortest that makes sense.
	tick, lease time.Duration

	// start starts what the store needs, ties it to the test and returns where it is.
	start func(t testing.TB, dir string) string

	// open opens it. inCommit is called at a moment between the request for a commit
	// and its answer; what it is called for is the store's business.
	open func(ctx context.Context, where string, inCommit func()) (*opened, error)
}

// An opened store.
type opened struct {
	idempotency.Store
	db    *sql.DB // of a store with transactions
	close func() error
}

var stores = []*storeKind{
	{name: "memory", tick: time.Microsecond, lease: 200 * time.Microsecond, start: nowhere, open: openMemory},
	{name: "sqlite", shared: true, tx: true, tick: 2 * time.Millisecond, lease: 6 * time.Millisecond, start: inFile, open: openSQLite},
	{name: "postgres", shared: true, tx: true, tick: 2 * time.Microsecond, lease: 3 * time.Millisecond, start: startPostgres, open: openPostgres},
	{name: "mysql", shared: true, tx: true, tick: 2 * time.Microsecond, lease: 3 * time.Millisecond, start: startMySQL, open: openMySQL},
	{name: "bolt", tick: time.Microsecond, lease: 3 * time.Millisecond, start: inFile, open: openBolt},
	{name: "redis", shared: true, tick: 2 * time.Microsecond, lease: 2 * time.Millisecond, start: startRedis, open: openRedis},
}

func storeNamed(name string) *storeKind {
	for _, k := range stores {
		if k.name == name {
			return k
		}
	}
	return nil
}

func nowhere(testing.TB, string) string { return "" }

func openMemory(context.Context, string, func()) (*opened, error) {
	return &opened{idempotency.NewMemoryStore(0, 0), nil, func() error { return nil }}, nil
}

func inFile(_ testing.TB, dir string) string { return filepath.Join(dir, "store.db") }

// sqliteCommits is called inside every commit of this process, by SQLite's own hook:
// before anything of it is in the log.
var sqliteCommits atomic.Pointer[func()]

func init() {
	sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error { return watch(c, nil) })
}

// watch sets the hook that calls sqliteCommits. A connection has one, so it is the
// store's guard as well.
func watch(conn any, refuse func() bool) error {
	h, ok := conn.(sqlite.HookRegisterer)
	if !ok {
		return errors.New("the driver has no commit hook")
	}
	h.RegisterCommitHook(func() int32 {
		if refuse != nil && refuse() {
			return 1
		}
		if f := sqliteCommits.Load(); f != nil {
			(*f)()
		}
		return 0
	})
	return nil
}

// openSQLite opens the database as sqlitestore does, and on it a store with a guard of
// ours, for that of sqlitestore would take the hook away.
func openSQLite(ctx context.Context, where string, inCommit func()) (*opened, error) {
	db, _, err := sqlitestore.Open(ctx, where, "records")
	if err != nil {
		return nil, err
	}
	store, err := sqlstore.New(db, sqlstore.SQLite.WithGuard(watch), "records")
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	sqliteCommits.Store(&inCommit)
	return withEffects(ctx, db, store)
}

// withEffects adds the witness of transactions.
func withEffects(ctx context.Context, db *sql.DB, store *sqlstore.Store) (*opened, error) {
	if _, err := db.ExecContext(ctx, effectsTable); err != nil {
		db.Close()
		return nil, err
	}
	return &opened{store, db, db.Close}, nil
}

func startPostgres(t testing.TB, _ string) string {
	t.Helper()
	dsn := testservers.Postgres(t, "max_connections=200")
	s, err := openPostgres(t.Context(), dsn, func() {}) // CREATE TABLE IF NOT EXISTS is not safe against itself
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	return dsn
}

func openPostgres(ctx context.Context, dsn string, inCommit func()) (*opened, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	wire := &pgWire{inCommit: inCommit}
	config.Tracer = wire
	config.DialFunc = wire.dial
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(24)
	db.SetMaxIdleConns(24)
	store, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err == nil {
		err = store.Migrate(ctx)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return withEffects(ctx, db, store)
}

// A pgWire calls inCommit when the bytes that ask for a commit, or for an update
// that commits by itself, have left and no answer was read.
type pgWire struct {
	inCommit func()
}

func (w *pgWire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	return &pgConn{Conn: c, inCommit: w.inCommit}, err
}

// TraceQueryStart implements pgx.QueryTracer.
func (w *pgWire) TraceQueryStart(ctx context.Context, on *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if c, ok := on.PgConn().Conn().(*pgConn); ok {
		text := strings.ToUpper(q.SQL)
		c.due.Store(strings.HasPrefix(text, "COMMIT") || strings.HasPrefix(text, "UPDATE"))
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w *pgWire) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

type pgConn struct {
	net.Conn
	inCommit func()
	due      atomic.Bool // the next write asks for a commit
}

func (c *pgConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.due.Swap(false) {
		c.inCommit()
	}
	return n, err
}

func openBolt(_ context.Context, where string, inCommit func()) (*opened, error) {
	store, err := boltstore.Open(where, boltstore.Options{})
	if err != nil {
		return nil, err
	}
	return &opened{timed{store, inCommit}, nil, store.Close}, nil
}

// A timed store is one that can't be looked into: inCommit is called at any moment
// while it makes a change, or soon after.
type timed struct {
	idempotency.Store
	inCommit func()
}

// commitTime is about how long such a store takes.
const commitTime = 500 * time.Microsecond

// Apply implements idempotency.Store.
func (s timed) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	time.AfterFunc(rand.N(commitTime), s.inCommit)
	return s.Store.Apply(ctx, ref, c)
}

func startRedis(t testing.TB, _ string) string {
	t.Helper()
	return testservers.Redis(t)
}

// openRedis calls inCommit when the bytes of any command have left.
func openRedis(ctx context.Context, where string, inCommit func()) (*opened, error) {
	client := redis.NewClient(&redis.Options{
		Addr: where, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			c, err := d.DialContext(ctx, network, addr)
			return redisConn{c, inCommit}, err
		},
	})
	store, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &opened{store, nil, client.Close}, nil
}

type redisConn struct {
	net.Conn
	inCommit func()
}

func (c redisConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.inCommit()
	return n, err
}
