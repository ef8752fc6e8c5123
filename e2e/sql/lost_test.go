package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/policy"
)

// lossy is a database that loses the answer of the next COMMIT, which it carries out or not.
type lossy struct {
	driver driver.Driver
	dsn    string
	next   atomic.Int32
	away   atomic.Bool // it is not to be reached
}

var errAway = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

const (
	answered int32 = iota
	lostAfter
	lostBefore
	lostAndAway // it is carried out, and the database goes away
)

func (l *lossy) Driver() driver.Driver { return l.driver }

func (l *lossy) Connect(context.Context) (driver.Conn, error) {
	if l.away.Load() {
		return nil, errAway
	}
	c, err := l.driver.Open(l.dsn)
	if err != nil {
		return nil, err
	}
	return &lossyConn{fullConn: c.(fullConn), of: l}, nil
}

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type lossyConn struct {
	fullConn
	of *lossy
}

func (c *lossyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if c.of.away.Load() {
		return nil, driver.ErrBadConn
	}
	tx, err := c.fullConn.BeginTx(ctx, o)
	return &lossyTx{tx, c.of}, err
}

type lossyTx struct {
	driver.Tx
	of *lossy
}

func (t *lossyTx) Commit() error {
	switch t.of.next.Swap(answered) {
	case lostAndAway:
		t.of.away.Store(true)
		fallthrough
	case lostAfter:
		if err := t.Tx.Commit(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	case lostBefore:
		_ = t.Tx.Rollback()
		return io.ErrUnexpectedEOF
	}
	return t.Tx.Commit()
}

// lossyStore returns a database whose pool and bulkhead have one place, and a store in it.
func lossyStore(t *testing.T, p policy.Policy) (*lossy, *gabion.Dependency, *sql.DB, *sqlstore.Store) {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(1000)"
	plain := open(t, "sqlite", dsn, 2)
	execute(t, plain, "CREATE TABLE effects (k text)")
	l := &lossy{driver: plain.Driver(), dsn: dsn}
	p.Bulkhead = policy.Bulkhead{Limit: 1}
	d := gabion.New("db", p)
	db := sql.OpenDB(gabionsql.Connector(l, d))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	store, err := sqlstore.New(db, sqlstore.SQLite, "records")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return l, d, db, store
}

// A record is looked for as part of the attempt: there may be no other slot.
func TestALostCommitIsFoundOutWithoutAnotherSlot(t *testing.T) {
	gabiontest.NoLeaks(t)
	l, d, db, store := lossyStore(t, policy.Policy{Retry: policy.Retry{Attempts: 1}})
	for next, runs := range map[int32]int{lostAfter: 1, lostBefore: 1} {
		l.next.Store(next)
		ran, start := 0, time.Now()
		r := &gabionsql.Once{Store: store, ID: idempotency.IDOf("", string('a'+next)), Retention: time.Hour}
		err := gabionsql.RunTx(t.Context(), d, db, func(ctx context.Context, tx *sql.Tx) error {
			ran++
			return insert("k")(ctx, tx)
		}, gabionsql.WithOnce(r))
		want := done
		if next == lostBefore {
			want = nothing // known, and the policy allows no other attempt
		}
		if said(err) != want || ran != runs || time.Since(start) > time.Second {
			t.Errorf("COMMIT lost (%d): %d runs in %v: %v", next, ran, time.Since(start), err)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM effects"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// After a COMMIT whose answer was lost the database is away, so that no later attempt can begin
// or find out: what is returned is still that the outcome is unknown.
func TestTheDoubtOfALostCommitOutlivesLaterAttempts(t *testing.T) {
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		leaves bool // the caller does
		back   bool // the database is, for the last look
		want   ran
	}{
		{"no attempt is left", policy.Policy{Retry: policy.Retry{Attempts: 1}}, false, false, unknown},
		{"the later attempts can't begin", policy.Policy{Retry: policy.Retry{Attempts: 3}}, false, false, unknown},
		{"the breaker refuses them", policy.Policy{Retry: policy.Retry{Attempts: 3, Hold: policy.Off}, Breaker: policy.Breaker{Consecutive: 1}}, false, false, unknown},
		{"the time of the call is over", policy.Policy{Timeout: policy.Timeout{Call: 3 * time.Second}}, false, false, unknown},
		{"the caller leaves", policy.Policy{}, true, false, unknown},
		{"the database is back for the last look", policy.Policy{Retry: policy.Retry{Attempts: 1}}, false, true, done},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, d, db, store := lossyStore(t, c.policy)
				l.next.Store(lostAndAway)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if c.leaves {
					time.AfterFunc(2500*time.Millisecond, leave)
				}
				if c.back {
					time.AfterFunc(2500*time.Millisecond, func() { l.away.Store(false) })
				}
				r := &gabionsql.Once{Store: store, ID: idempotency.IDOf("", "k"), Retention: time.Hour}
				err := gabionsql.RunTx(ctx, d, db, insert("k"), gabionsql.WithOnce(r))
				if is := errors.Is(err, gabionsql.ErrCommitUnknown) && errors.Is(err, policy.OutcomeUnknown); is != (c.want == unknown) || said(err) != c.want {
					t.Errorf("ErrCommitUnknown and OutcomeUnknown are %v: %v", is, err)
				}
				db.Close()
				if n := count(t, open(t, "sqlite", l.dsn, 1), "SELECT count(*) FROM effects"); n != 1 {
					t.Errorf("%d effects", n)
				}
			})
		})
	}
}

// The record of an earlier request with the key, which is past its retention, says nothing
// of this one.
func TestAnExpiredRecordProvesNothing(t *testing.T) {
	gabiontest.NoLeaks(t)
	l, d, db, store := lossyStore(t, policy.Policy{})
	transfer := func() (*gabionsql.Once, error) {
		r := &gabionsql.Once{Store: store, ID: idempotency.IDOf("", "k"), Retention: time.Nanosecond}
		return r, gabionsql.RunTx(t.Context(), d, db, insert("k"), gabionsql.WithOnce(r))
	}
	if _, err := transfer(); err != nil {
		t.Fatal(err)
	}
	l.next.Store(lostBefore)
	r, err := transfer()
	if n := count(t, db, "SELECT count(*) FROM effects"); err != nil || n != 2 || r.Replayed {
		t.Errorf("%d effects, replayed %v: %v", n, r.Replayed, err)
	}
	l.next.Store(lostAfter) // and its own record, if past its retention already, says that it was committed
	r, err = transfer()
	if n := count(t, db, "SELECT count(*) FROM effects"); err != nil || n != 3 || r.Replayed {
		t.Errorf("%d effects, replayed %v: %v", n, r.Replayed, err)
	}
}
