package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

var errRefused = errors.New("refused")

// nothing refuses all. Beside its error it returns nil pointers, which are not nil as
// interfaces: lib/pq does that.
type nothing struct{ *scriptedConn }

func none[T any]() (*T, error) { return nil, errRefused }

type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) { return none[scriptedConn]() }
func (nowhere) Driver() driver.Driver                        { return nil }

func (nothing) PrepareContext(context.Context, string) (driver.Stmt, error) {
	return none[scriptedStmt]()
}
func (nothing) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return none[scriptedRows]()
}
func (nothing) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return none[scriptedTx]()
}

// What a driver returns beside an error is not touched.
func TestNilPointersBesideAnError(t *testing.T) {
	mild := gabion.WithClassify(func(_ any, err error) policy.Outcome {
		if errors.Is(err, errRefused) {
			return policy.Succeeded()
		}
		return policy.Outcome{}
	})
	for name, d := range map[string]*gabion.Dependency{
		"by default":                          dependency(t, policy.Policy{}),
		"a classifier takes it for a success": dependency(t, policy.Policy{}, mild),
	} {
		f := &scripted{shape: func(c *scriptedConn) driver.Conn { return nothing{c} }}
		db := wrapped(t, f, d)
		down := sql.OpenDB(gabionsql.Connector(nowhere{}, d))
		defer down.Close()
		for op, do := range map[string]func(context.Context) error{
			"connect": down.PingContext,
			"prepare": func(ctx context.Context) error { _, err := db.PrepareContext(ctx, "x"); return err },
			"query":   func(ctx context.Context) error { _, err := db.QueryContext(ctx, "x"); return err }, //nolint:rowserrcheck // it is refused
			"begin":   func(ctx context.Context) error { _, err := db.BeginTx(ctx, nil); return err },
		} {
			if err := do(t.Context()); !errors.Is(err, errRefused) {
				t.Errorf("%s, %s: %v", op, name, err)
			}
			if err := d.Run(t.Context(), do); !errors.Is(err, errRefused) {
				t.Errorf("%s in an attempt, %s: %v", op, name, err)
			}
		}
		if s, n := db.Stats(), inUse(d); s.InUse != 0 || n != 0 {
			t.Errorf("%s: %d connections and %d slots are in use", name, s.InUse, n)
		}
	}
}

// COMMIT is sent even if the call of the dependency is refused, and what the database says
// of it is the answer.
func TestACommitThatIsNotACall(t *testing.T) {
	for _, want := range []error{nil, errRefused} {
		d := dependency(t, policy.Policy{})
		f := &scripted{on: func(_ context.Context, op string) error {
			if op == "commit" {
				return want
			}
			return nil
		}}
		tx, err := wrapped(t, f, d).BeginTx(t.Context(), nil)
		if err == nil {
			err = d.Reload(policy.Policy{Key: policy.KeyRequired, Safe: true})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v, want %v", err, want)
		}
		if n := inUse(d); n != 0 {
			t.Errorf("%d slots are in use", n)
		}
	}
}

// The limits of open results are not those of a transaction: drivers that keep the context
// of BEGIN, as pgx does, commit with it.
func TestATransactionOutlastsTheLimitsOfRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := policy.Timeout{Attempt: time.Second, Call: time.Second, Idle: time.Second, Body: time.Second}
		f := &scripted{on: func(ctx context.Context, _ string) error { return ctx.Err() }}
		d := dependency(t, policy.Policy{Timeout: second})
		tx, err := wrapped(t, f, d).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if n := inUse(d); n != 1 {
			t.Errorf("%d slots are in use", n)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if n := inUse(d); n != 0 {
			t.Errorf("%d slots are in use", n)
		}
	})
}
