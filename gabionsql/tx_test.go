package gabionsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/policy"
)

// sqlState is an error of PostgreSQL.
type sqlState string

func (s sqlState) Error() string    { return "state " + string(s) }
func (s sqlState) SQLState() string { return string(s) }

// rpcErr is an error of gRPC's.
type rpcErr struct{}

func (rpcErr) Error() string          { return "unavailable" }
func (rpcErr) GRPCStatus() *rpcStatus { return new(rpcStatus) }

type rpcStatus struct{}

func (*rpcStatus) Code() uint32 { return 14 }

var errPoor = errors.New("not enough money")

// series returns a function that answers with one error after the other, and then nil.
func series(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// end returns an error as gabion's of a call in the work.
func end(effect policy.Effect) error {
	return &gabion.Error{Dependency: "payments", Reason: policy.AttemptsExhausted, Effect: effect, Attempts: 3, Err: syscall.ECONNRESET}
}

func TestRunTx(t *testing.T) {
	for _, c := range []struct {
		name    string
		begin   []error // of BEGIN, and then nil
		work    []error
		commit  []error
		gone    bool // the connection: ROLLBACK is not answered
		refused bool // ROLLBACK is, for there is no transaction
		works   int  // how often work ran
		commits int
		is      error // nil for a success
		effect  policy.Effect
	}{
		{name: "what goes well is committed once", works: 1, commits: 1},
		{name: "a serialization failure is repeated", work: []error{sqlState("40001"), sqlState("40001")}, works: 3, commits: 1},
		{name: "a deadlock is repeated", work: []error{sqlState("40P01")}, works: 2, commits: 1},
		{name: "a lock that was not to be had is repeated", work: []error{sqlState("55P03")}, works: 2, commits: 1},
		{name: "a conflict that is wrapped is repeated", work: []error{fmt.Errorf("withdraw: %w", sqlState("40001"))}, works: 2, commits: 1},
		{name: "a conflict at COMMIT is repeated", commit: []error{sqlState("40001")}, works: 2, commits: 1},
		{name: "an error of the work's is its own", work: []error{errPoor}, works: 1, is: errPoor},
		{name: "a constraint is not repeated", work: []error{sqlState("23505")}, works: 1, is: sqlState("23505")},
		{name: "a deferred constraint neither", commit: []error{sqlState("23505")}, works: 1, is: sqlState("23505")},
		{name: "nor a statement that was cancelled", work: []error{sqlState("57014")}, works: 1, is: sqlState("57014")},
		{name: "an error that is marked transient is", work: []error{classify.Transient(errPoor)}, works: 2, commits: 1},
		{name: "a server that shuts down is repeated", work: []error{sqlState("57P01")}, gone: true, works: 2, commits: 1},
		{name: "BEGIN that was refused is repeated", begin: []error{sqlState("57P03")}, works: 1, commits: 1},
		{name: "BEGIN that was not answered was not begun", begin: []error{syscall.ECONNRESET}, works: 1, commits: 1},
		{name: "BEGIN with wrong options is not repeated", begin: []error{sqlState("42601")}, is: sqlState("42601")},
		{name: "a connection that breaks in the work is repeated", work: []error{io.ErrUnexpectedEOF}, gone: true, works: 2, commits: 1},
		{name: "a bad connection too", work: []error{driver.ErrBadConn}, gone: true, works: 2, commits: 1},
		{name: "MySQL's driver has no type for it", work: []error{errors.New("invalid connection")}, gone: true, works: 2, commits: 1},
		{name: "one that breaks while the database's holds is another's", work: []error{syscall.ECONNRESET}, works: 1, is: syscall.ECONNRESET, effect: policy.UnknownEffect},
		{name: "an HTTP error is another's", work: []error{&url.Error{Op: "Post", Err: syscall.ECONNRESET}}, gone: true, works: 1, is: syscall.ECONNRESET, effect: policy.UnknownEffect},
		{name: "an error of gRPC's is another's", work: []error{fmt.Errorf("charge: %w", rpcErr{})}, gone: true, works: 1, is: rpcErr{}, effect: policy.UnknownEffect},
		{name: "a rollback that is refused proves nothing", work: []error{sqlState("40001")}, refused: true, works: 1, is: gabionsql.ErrEnded, effect: policy.UnknownEffect},
		{name: "a call of gabion's that may have happened may have", work: []error{end(policy.UnknownEffect)}, gone: true, works: 1, is: syscall.ECONNRESET, effect: policy.UnknownEffect},
		{name: "one that did not happen is not repeated", work: []error{end(policy.NoEffect)}, works: 1, is: policy.DoNotRetry},
		{name: "a COMMIT without an answer is unknown", commit: []error{syscall.ECONNRESET}, works: 1, is: gabionsql.ErrCommitUnknown, effect: policy.UnknownEffect},
		{name: "also when the driver says that the connection is bad", commit: []error{driver.ErrBadConn}, works: 1, is: gabionsql.ErrCommitUnknown, effect: policy.UnknownEffect},
		{name: "also when the server shuts down", commit: []error{sqlState("57P01")}, works: 1, is: policy.OutcomeUnknown, effect: policy.UnknownEffect},
		{name: "also when the database does not know", commit: []error{sqlState("40003")}, works: 1, is: gabionsql.ErrCommitUnknown, effect: policy.UnknownEffect},
		{name: "also when the error is marked as transient", commit: []error{classify.Transient(io.EOF)}, works: 1, is: gabionsql.ErrCommitUnknown, effect: policy.UnknownEffect},
		{name: "work that hides the error of a statement", commit: []error{errors.New("commit unexpectedly resulted in rollback")}, works: 1, is: gabionsql.ErrFailedBefore},
	} {
		for _, p := range []policy.Policy{{}, {Safe: true}} {
			if p.Safe && (errors.Is(c.is, syscall.ECONNRESET) || c.is == rpcErr{} || c.is == nil) {
				continue // it is repeated if all work is declared safe
			}
			t.Run(fmt.Sprintf("%s, safe %v", c.name, p.Safe), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fakeDB{begin: series(c.begin...), commit: series(c.commit...)}
					if c.gone {
						f.rollback = func(context.Context) error { return driver.ErrBadConn }
					}
					if c.refused {
						f.rollback = func(context.Context) error { return errors.New("no transaction is active") }
					}
					db := openFake(t, f)
					works, work := 0, series(c.work...)
					err := gabionsql.RunTx(t.Context(), gabion.New("db", p), db, func(ctx context.Context, tx *sql.Tx) error {
						works++
						return work(ctx)
					})
					if works != c.works || f.committed != c.commits || !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
						t.Errorf("%d runs, %d commits: %v", works, f.committed, err)
					}
					if e := new(gabion.Error); errors.As(err, &e) && e.Effect != c.effect {
						t.Errorf("effect %v: %v", e.Effect, err)
					}
					f.wantClean(t, db)
				})
			})
		}
	}
}

// Work that ends its transaction itself may have left half of it.
func TestWorkEndsItsTransaction(t *testing.T) {
	commit := func(tx *sql.Tx) error { return tx.Commit() }
	rollback := func(tx *sql.Tx) error { return tx.Rollback() }
	for _, c := range []struct {
		name   string
		end    func(*sql.Tx) error
		err    error         // of the work
		ctx    time.Duration // that the work outlives, 0 if it does not
		commit error
	}{
		{"by COMMIT", commit, nil, 0, nil},
		{"by ROLLBACK", rollback, nil, 0, nil},
		{"by COMMIT and fails", commit, errPoor, 0, nil},
		{"by COMMIT, which has a conflict", commit, nil, 0, sqlState("40001")},
		{"by COMMIT and meets a conflict", commit, sqlState("40001"), 0, nil},
		{"by COMMIT and takes too long", commit, nil, time.Minute, nil},
		{"by COMMIT, fails and takes too long", commit, errPoor, time.Minute, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeDB{commit: series(c.commit)}
				db := openFake(t, f)
				runs := 0
				d := gabion.New("db", policy.Policy{Safe: true})
				err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
					runs++
					err := errors.Join(c.end(tx), c.err)
					if c.ctx > 0 {
						<-ctx.Done()
						synctest.Wait()
					}
					return err
				})
				if e := new(gabion.Error); runs != 1 || !errors.Is(err, gabionsql.ErrEnded) || !errors.As(err, &e) || e.Effect != policy.UnknownEffect {
					t.Errorf("%d runs: %v", runs, err)
				}
				f.wantClean(t, db)
			})
		})
	}
}

func TestWorkThatLeaves(t *testing.T) {
	var kept *sql.Tx
	for _, c := range []struct {
		name    string
		work    func(context.Context, *sql.Tx) error
		commits int
		left    bool // RunTx did not return
	}{
		{"with a panic", func(context.Context, *sql.Tx) error { panic("no") }, 0, true},
		{"with a panic and open rows", func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.QueryContext(ctx, "SELECT") //nolint:rowserrcheck // left open
			panic("no")
		}, 0, true},
		{"with open rows", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.QueryContext(ctx, "SELECT") //nolint:rowserrcheck // left open
			return err
		}, 1, false},
		{"with open rows and an error", func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.QueryContext(ctx, "SELECT") //nolint:rowserrcheck // left open
			return errPoor
		}, 0, false},
		{"and keeps its transaction", func(_ context.Context, tx *sql.Tx) error { kept = tx; return nil }, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := new(fakeDB)
				db := openFake(t, f)
				returned := false
				func() {
					defer func() { _ = recover() }()
					_ = gabionsql.RunTx(t.Context(), gabion.New("db", policy.Policy{}), db, c.work)
					returned = true
				}()
				synctest.Wait()
				if returned == c.left || f.committed != c.commits {
					t.Errorf("returned %v, %d commits", returned, f.committed)
				}
				f.wantClean(t, db)
			})
		})
	}
	if _, err := kept.Exec("SELECT"); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("a transaction that was kept: %v", err)
	}
}

func TestGoexitInTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeDB)
		db := openFake(t, f)
		d := gabion.New("db", policy.Policy{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = gabionsql.RunTx(context.Background(), d, db, func(context.Context, *sql.Tx) error {
				runtime.Goexit()
				return nil
			})
			t.Error("it went on")
		}()
		<-done
		synctest.Wait()
		f.wantClean(t, db)
		if f.rolled != 1 {
			t.Errorf("%d rollbacks", f.rolled)
		}
	})
}

func TestCallsThatCannotBeMeant(t *testing.T) {
	d := gabion.New("db", policy.Policy{})
	db := openFake(t, new(fakeDB))
	work := func(context.Context, *sql.Tx) error { t.Error("it ran"); return nil }
	for name, err := range map[string]error{
		"no dependency": gabionsql.RunTx(t.Context(), nil, db, work),
		"no database":   gabionsql.RunTx(t.Context(), d, nil, work),
		"a nil *sql.DB": gabionsql.RunTx(t.Context(), d, (*sql.DB)(nil), work),
		"a nil conn":    gabionsql.RunTx(t.Context(), d, (*sql.Conn)(nil), work),
		"no work":       gabionsql.RunTx(t.Context(), d, db, nil),
		"no context":    gabionsql.RunTx(nil, d, db, work), //nolint:staticcheck // on purpose
		"an empty record": gabionsql.RunTx(t.Context(), d, db, work,
			gabionsql.WithOnce(new(gabionsql.Once))),
	} {
		if gabion.ReasonOf(err) != policy.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNestedRunTxIsRefused(t *testing.T) {
	f := new(fakeDB)
	db := openFake(t, f)
	d := gabion.New("db", policy.Policy{Safe: true})
	runs := 0
	err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
		runs++
		if gabionsql.TxFrom(ctx) != tx {
			t.Error("the context has another transaction")
		}
		return gabionsql.RunTx(ctx, gabion.New("other", policy.Policy{}), db, func(context.Context, *sql.Tx) error { return nil })
	})
	if runs != 1 || f.begun != 1 || !errors.Is(err, gabionsql.ErrNested) {
		t.Errorf("%d runs, %d transactions: %v", runs, f.begun, err)
	}
	if gabionsql.TxFrom(t.Context()) != nil {
		t.Error("a transaction outside RunTx")
	}
}

// The time of an attempt, or the caller, ends at each point of a transaction.
func TestContextEnds(t *testing.T) {
	block := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, c := range []struct {
		name string
		fake *fakeDB
		work func(ctx context.Context, tx *sql.Tx) error
		is   error
		want policy.Effect
	}{
		{"in BEGIN", &fakeDB{begin: block}, nil, context.DeadlineExceeded, policy.NoEffect},
		{"in the work", &fakeDB{}, func(ctx context.Context, _ *sql.Tx) error { return block(ctx) }, context.DeadlineExceeded, policy.NoEffect},
		{"in a statement", &fakeDB{exec: func(ctx context.Context, _ string) error { return block(ctx) }}, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE")
			return err
		}, context.DeadlineExceeded, policy.NoEffect},
		{"in work that does not notice", &fakeDB{}, func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return nil }, context.DeadlineExceeded, policy.NoEffect},
		{"in work that is slow to notice", &fakeDB{}, func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); synctest.Wait(); return nil }, context.DeadlineExceeded, policy.NoEffect},
		{"in COMMIT", &fakeDB{commit: block}, nil, gabionsql.ErrCommitUnknown, policy.UnknownEffect},
		{"in a rollback that is not answered", &fakeDB{rollback: block}, func(ctx context.Context, _ *sql.Tx) error { return block(ctx) }, context.DeadlineExceeded, policy.NoEffect},
	} {
		for _, by := range []string{"deadline", "cancel"} {
			t.Run(c.name+", "+by, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := &fakeDB{begin: c.fake.begin, commit: c.fake.commit, rollback: c.fake.rollback, exec: c.fake.exec}
					db := openFake(t, f)
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					is := c.is
					if by == "cancel" {
						ctx, cancel = context.WithCancel(t.Context())
						defer time.AfterFunc(time.Second, cancel).Stop()
						if is == context.DeadlineExceeded {
							is = context.Canceled
						}
					}
					work := c.work
					if work == nil {
						work = func(context.Context, *sql.Tx) error { return nil }
					}
					begun := time.Now()
					err := gabionsql.RunTx(ctx, gabion.New("db", policy.Policy{}), db, work)
					if e := new(gabion.Error); !errors.Is(err, is) || !errors.As(err, &e) || e.Effect != c.want {
						t.Errorf("%+v", err)
					}
					if took := time.Since(begun); took > 7*time.Second {
						t.Errorf("it took %v", took)
					}
					synctest.Wait()
					f.wantClean(t, db)
				})
			})
		}
	}
}

// A dependency's own classifier says what an error is, and not whether it may be repeated.
func TestClassifierOfTheDependency(t *testing.T) {
	for _, c := range []struct {
		name         string
		work, commit error
		runs         int
		effect       policy.Effect
	}{
		{"an error of the work's is repeated if it says so", errPoor, nil, 2, policy.NoEffect},
		{"an unknown COMMIT is not", nil, errPoor, 1, policy.UnknownEffect},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openFake(t, &fakeDB{commit: series(c.commit)})
			d := gabion.New("db", policy.Policy{Safe: true}, gabion.WithClassify(func(_ any, err error) (o policy.Outcome) {
				if err != nil {
					o.Class = policy.ClassContention
				}
				return o
			}))
			runs, work := 0, series(c.work)
			err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, _ *sql.Tx) error { runs++; return work(ctx) })
			if e := new(gabion.Error); runs != c.runs || errors.As(err, &e) && e.Effect != c.effect {
				t.Errorf("%d runs: %v", runs, err)
			}
		})
	}
}

func TestOptionsOfTheTransaction(t *testing.T) {
	db := openFake(t, new(fakeDB))
	d := gabion.New("db", policy.Policy{})
	var seen string
	d.Observe(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) { seen = e.Operation }))
	runs := 0
	err := gabionsql.RunTx(t.Context(), d, db, func(context.Context, *sql.Tx) error { runs++; return sqlState("40001") },
		gabionsql.WithTxOptions(sql.TxOptions{Isolation: sql.LevelSerializable}),
		gabionsql.WithCallOptions(gabion.WithOperation("transfer")), gabionsql.TxOption{}, gabionsql.WithCallOptions(gabion.WithoutRetry()))
	if runs != 1 || err == nil || seen != "transfer" {
		t.Errorf("%d runs, %q: %v", runs, seen, err)
	}
}

// All connections of the pool are in use until the call's time is over.
func TestRunTxWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1}})
		db := sql.OpenDB(gabionsql.Connector(new(fakeDB), d))
		defer db.Close()
		db.SetMaxOpenConns(1)
		if err := gabionsql.CheckPool(db, d); err != nil {
			t.Fatal(err)
		}
		held, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = gabionsql.RunTx(ctx, d, db, func(context.Context, *sql.Tx) error { t.Error("it ran"); return nil })
		if e := new(gabion.Error); gabion.ReasonOf(err) != policy.PoolExhausted || !errors.As(err, &e) || e.Effect != policy.NoEffect {
			t.Errorf("%v", err)
		}
	})
}

// The transaction of a RunTx is part of its attempt, where the database's connector has the
// same dependency: one slot, and one outcome.
func TestRunTxOverAConnector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeDB{commit: series(sqlState("40001"))}
		d := gabion.New("db", policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}})
		db := sql.OpenDB(gabionsql.Connector(f, d))
		defer db.Close()
		runs := 0
		err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
			runs++
			if n := d.Stats().Bulkhead.InUse; n != 1 {
				t.Errorf("%d slots are in use", n)
			}
			_, err := tx.ExecContext(ctx, "UPDATE")
			return err
		})
		if err != nil || runs != 2 || f.committed != 1 || d.Stats().Bulkhead.InUse != 0 {
			t.Errorf("%d runs, %d commits: %v", runs, f.committed, err)
		}
		f.wantClean(t, db)
	})
}
