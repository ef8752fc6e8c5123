package drivers

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

func TestIssue10_TypesOfDrivers(t *testing.T) {
	undone := policy.Refused(policy.ClassContention)
	tests := []struct {
		name string
		err  error
		want policy.Outcome
	}{
		{"pgx finds no rows", pgx.ErrNoRows, policy.Outcome{Class: policy.ClassBusiness}},
		{"lib/pq: serialization", &pq.Error{Code: "40001"}, coded(undone, "40001")},
		{"lib/pq: lock not available", &pq.Error{Code: "55P03"}, coded(undone, "55P03")},
		{"MySQL: deadlock", &mysql.MySQLError{Number: 1213, SQLState: [5]byte{'4', '0', '0', '0', '1'}}, coded(undone, "1213")},
		{"MySQL: lock wait timeout", &mysql.MySQLError{Number: 1205}, policy.Outcome{Class: policy.ClassContention, Code: "1205"}},
		{"MySQL: NOWAIT", &mysql.MySQLError{Number: 3572}, policy.Outcome{Class: policy.ClassContention, Code: "3572"}},
		{"MySQL: too many connections", &mysql.MySQLError{Number: 1040}, policy.Outcome{Class: policy.ClassServer, NeverSent: true, Busy: true, Code: "1040"}},
		{"MySQL: the connection broke before", mysql.ErrInvalidConn, policy.Failed(policy.ClassUnclassified)},
		{"gRPC: not found", status.Error(codes.NotFound, ""), policy.Outcome{Class: policy.ClassBusiness, Code: "NOT_FOUND"}},
		{"gRPC: aborted", status.Error(codes.Aborted, ""), policy.Failed(policy.ClassContention).WithCode("ABORTED")},
		{"gRPC: exhausted, which may be an answer that is too large", status.Error(codes.ResourceExhausted, ""), policy.Failed(policy.ClassClient).WithCode("RESOURCE_EXHAUSTED")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := classify.Error(tt.err); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// coded is o with the dependency's own word.
func coded(o policy.Outcome, code string) policy.Outcome {
	o.Code = code
	return o
}

func TestIssue10_SQLiteIsBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	open := func() *sql.DB {
		db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	first, second := open(), open()
	if _, err := first.Exec("CREATE TABLE t (n)"); err != nil {
		t.Fatal(err)
	}
	tx, err := first.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = second.Begin()
	if got, want := classify.Error(err), (policy.Outcome{Class: policy.ClassContention, Code: "SQLITE_BUSY"}); got != want {
		t.Errorf("%v is %+v, want %+v", err, got, want)
	}
}

func TestIssue10_PostgreSQLsOwnConflicts(t *testing.T) {
	pool := pooled(t, testservers.Postgres(t, "deadlock_timeout=50ms"))
	ctx := t.Context()
	reset(t, pool)
	hold := func() pgx.Tx {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tx.Rollback(context.Background()) })
		return tx
	}
	a, b := hold(), hold()
	if _, err := a.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Exec(ctx, "SELECT n FROM counters WHERE id = 1 FOR UPDATE NOWAIT")
	if got, want := classify.Error(err), (policy.Outcome{Class: policy.ClassContention, Undone: true, Code: "55P03"}); got != want {
		t.Errorf("NOWAIT: %v is %+v, want %+v", err, got, want)
	}
	c := hold()
	if _, err := c.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	other := make(chan error, 1)
	go func() { _, err := a.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = 2"); other <- err }()
	_, err = c.Exec(ctx, "UPDATE counters SET n = n + 1 WHERE id = 1")
	if err == nil {
		c.Rollback(ctx)
	}
	if err = errors.Join(err, <-other); classify.Error(err) != (policy.Outcome{Class: policy.ClassContention, Undone: true, Code: "40P01"}) {
		t.Errorf("deadlock: %v is %+v", err, classify.Error(err))
	}
}

// A statement that was carried out and whose answer was lost is in doubt. By pgx's simple
// protocol, which it takes for what has no arguments, it says "conn closed", and that
// repeating is safe.
func TestIssue10_AnAnswerThatIsLostIsInDoubt(t *testing.T) {
	dsn := testservers.Postgres(t)
	pool := pooled(t, dsn)
	reset(t, pool)
	const with, without = "UPDATE counters SET n = n + 1 WHERE id = $1", "UPDATE counters SET n = n + 1 WHERE id = 3"
	bare := func(ctx context.Context, c *pgx.Conn) (pgconn.CommandTag, error) { return c.Exec(ctx, without) }
	args := func(ctx context.Context, c *pgx.Conn) (pgconn.CommandTag, error) { return c.Exec(ctx, with, 3) }
	for _, tt := range []struct {
		name, mode string
		exec       func(context.Context, *pgx.Conn) (pgconn.CommandTag, error)
	}{
		{"no arguments", "cache_statement", bare},
		{"prepared", "cache_statement", args},
		{"described", "cache_describe", args},
		{"exec", "exec", args},
		{"simple protocol", "simple_protocol", args},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cut atomic.Bool
			conn := through(t, dsn, tt.mode, &cut)
			ctx := t.Context()
			if _, err := conn.Exec(ctx, with, -1); err != nil { // so that it is prepared
				t.Fatal(err)
			}
			before := total(t, pool)
			cut.Store(true)
			_, err := tt.exec(ctx, conn)
			o := classify.Error(err)
			if err == nil || o.NeverSent || o.Undone || o.Effect != policy.UnknownEffect {
				t.Errorf("%T %v is %+v; the counter moved by %d", err, err, o, total(t, pool)-before)
			}
		})
	}
}

// through connects by way of a proxy that forwards what the client says, and once cut
// is true lets the server act and drops its answer and the connection.
func through(t *testing.T, dsn, mode string, cut *atomic.Bool) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(dsn + "&default_query_exec_mode=" + mode)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		up, err := net.Dial(network, addr)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		go io.Copy(up, far)
		go func() {
			defer near.Close()
			defer far.Close()
			defer up.Close()
			for buf := make([]byte, 1<<16); ; {
				n, err := up.Read(buf)
				if err != nil || cut.Load() {
					return
				}
				if _, err := far.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
		return near, nil
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
