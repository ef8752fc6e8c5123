package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/mysqlstore"
	"github.com/gabion-go/gabion/gabionsql"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/policy"
)

// MySQL's driver tells of each connection that breaks.
func init() { mysql.SetLogger(log.New(io.Discard, "", 0)) }

// A bank is accounts in MariaDB, or MySQL, and the transfers between them. What is in the
// database is counted by another pool than the one that is under test.
type bank struct {
	*testing.T
	server  *testservers.Server
	db      *sql.DB
	store   *sqlstore.Store
	witness *sql.DB
	d       *gabion.Dependency
}

const (
	accounts = 4
	balance  = 1000 // what an account has at first
)

func newBank(t *testing.T, p policy.Policy, settings ...string) *bank {
	t.Helper()
	b := &bank{T: t, server: testservers.StartMariaDB(t, settings...)}
	b.d = gabion.New("bank", p)
	b.db, b.store = b.open(b.server.Addr)
	b.witness, _ = b.open(b.server.Addr)
	b.exec("CREATE TABLE accounts (id integer PRIMARY KEY, amount integer NOT NULL) ENGINE=InnoDB")
	b.exec("CREATE TABLE transfers (id varchar(40) PRIMARY KEY) ENGINE=InnoDB")
	for id := range accounts {
		b.exec(fmt.Sprintf("INSERT INTO accounts VALUES (%d, %d)", id, balance))
	}
	return b
}

// open opens the database at an address, as mysqlstore does it.
func (b *bank) open(addr string) (*sql.DB, *sqlstore.Store) {
	b.Helper()
	db, store, err := mysqlstore.Open(b.Context(), strings.Replace(b.server.DSN, b.server.Addr, addr, 1), "records")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if n := db.Stats().InUse; n != 0 {
			b.Errorf("%d connections were not given back", n)
		}
		db.Close()
	})
	return db, store
}

func (b *bank) exec(text string) {
	b.Helper()
	if _, err := b.witness.ExecContext(b.Context(), text); err != nil {
		b.Fatalf("%s: %v", text, err)
	}
}

func (b *bank) number(text string, args ...any) (n int) {
	b.Helper()
	if err := b.witness.QueryRowContext(b.Context(), text, args...).Scan(&n); err != nil {
		b.Fatalf("%s: %v", text, err)
	}
	return n
}

// transfer moves one from an account to another, in two statements and a note.
func transfer(ctx context.Context, tx *sql.Tx, id string, from, to int) error {
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount - 1 WHERE id = ?", from); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO transfers VALUES (?)", id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount + 1 WHERE id = ?", to)
	return err
}

// wantTransfers says how many there are, and that no money was made or lost.
func (b *bank) wantTransfers(want int) {
	b.Helper()
	if n := b.number("SELECT count(*) FROM transfers"); n != want {
		b.Errorf("%d transfers, want %d", n, want)
	}
	if n := b.number("SELECT sum(amount) FROM accounts"); n != accounts*balance {
		b.Errorf("the accounts have %d, want %d", n, accounts*balance)
	}
}

// outlasting repeats conflicts until the storm is over.
func outlasting() policy.Policy {
	return policy.Policy{
		Retry:   policy.Retry{Attempts: 4, Budget: policy.Budget{Off: true}, Contention: policy.ContentionRetry{Attempts: 48, Repeats: policy.Off}},
		Timeout: policy.Timeout{Attempt: 30 * time.Second, Call: time.Minute},
		Breaker: policy.Breaker{Off: true},
	}
}

// Many clients move money between few accounts in both directions, so that they meet in
// deadlocks all the time. Each transfer that was reported is there, once.
func TestDeadlockStormEndsExact(t *testing.T) {
	b := newBank(t, outlasting())
	var conflicts, done atomic.Int64
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for i := range 25 {
				id := fmt.Sprint(n, "-", i)
				from := rand.IntN(accounts)
				to := (from + 1 + rand.IntN(accounts-1)) % accounts
				runs := 0
				err := gabionsql.RunTx(t.Context(), b.d, b.db, func(ctx context.Context, tx *sql.Tx) error {
					if runs++; runs > 1 {
						conflicts.Add(1)
					}
					return transfer(ctx, tx, id, from, to)
				})
				if err != nil {
					t.Errorf("%s: %v", id, err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	b.wantTransfers(int(done.Load()))
	if conflicts.Load() == 0 {
		t.Error("there was no conflict: nothing was tested")
	}
	t.Logf("%d transfers, %d conflicts", done.Load(), conflicts.Load())
}

// After 1205 the server keeps what the transaction did before. RunTx must not.
func TestLockWaitUndoesTheWholeTransaction(t *testing.T) {
	b := newBank(t, outlasting(), "innodb-lock-wait-timeout=1")
	other, err := b.witness.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	if _, err := other.ExecContext(t.Context(), "UPDATE accounts SET amount = amount WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	runs := 0
	err = gabionsql.RunTx(t.Context(), b.d, b.db, func(ctx context.Context, tx *sql.Tx) error {
		if runs++; runs == 2 {
			other.Rollback()
		}
		err := transfer(ctx, tx, fmt.Sprint("run", runs), 0, 1)
		var e *mysql.MySQLError
		if runs == 1 && (!errors.As(err, &e) || e.Number != 1205) {
			t.Errorf("no wait in vain: %v", err)
		}
		return err
	})
	if err != nil || runs != 2 {
		t.Errorf("%v after %d runs", err, runs)
	}
	b.wantTransfers(1)
	if n := b.number("SELECT amount FROM accounts WHERE id = 0"); n != balance-1 {
		t.Errorf("the first account has %d", n)
	}
}

// The connection is cut while COMMIT is under way. Without a record RunTx says that it does
// not know, and does not repeat; with one it finds out.
func TestCommitIsCut(t *testing.T) {
	b := newBank(t, outlasting())
	for _, c := range []struct {
		name      string
		fault     testproxy.Fault
		committed bool
	}{
		{"before the server", testproxy.Fault{Requests: testproxy.Break, Match: "COMMIT", Once: true}, false},
		{"after the server", testproxy.Fault{Requests: testproxy.PassBreak, Match: "COMMIT", Once: true}, true},
	} {
		for _, recorded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, with a record: %v", c.name, recorded), func(t *testing.T) {
				b.T = t
				b.exec("DELETE FROM transfers")
				p := testproxy.New(t, b.server.Addr)
				db, store := b.open(p.Addr)
				runs := 0
				record := &gabionsql.Once{Store: store, ID: idempotency.IDOf("bank", c.name), Retention: time.Hour, Result: idempotency.Result{Body: []byte("ok")}}
				var opts []gabionsql.TxOption
				if recorded {
					opts = append(opts, gabionsql.WithOnce(record))
				}
				err := gabionsql.RunTx(t.Context(), b.d, db, func(ctx context.Context, tx *sql.Tx) error {
					if runs++; runs == 1 {
						p.Set(c.fault)
					}
					return transfer(ctx, tx, c.name, 0, 1)
				}, opts...)
				if n := p.Struck(); n != 1 {
					t.Errorf("%d faults, want 1", n)
				}
				switch {
				case !recorded:
					if !errors.Is(err, gabionsql.ErrCommitUnknown) || !errors.Is(err, policy.OutcomeUnknown) || runs != 1 {
						t.Errorf("%v after %d runs", err, runs)
					}
					b.settle()
					b.wantTransfers(map[bool]int{true: 1}[c.committed])
				case err != nil, (runs == 1) != c.committed, string(record.Result.Body) != "ok":
					t.Errorf("%v after %d runs: %q", err, runs, record.Result.Body)
				default:
					b.wantTransfers(1)
				}
			})
		}
	}
}

// settle waits until no transaction of a client that has gone is under way.
func (b *bank) settle() {
	b.Helper()
	b.exec("SET innodb_lock_wait_timeout = 50")
	b.exec("UPDATE accounts SET amount = amount")
}

// The server is killed and started again under load. Every transfer has a record, so that
// in the end each was done once, whatever became of its first COMMIT.
func TestServerGone(t *testing.T) {
	b := newBank(t, outlasting(), "innodb-flush-log-at-trx-commit=1")
	const clients, transfers = 8, 40
	var done, failed atomic.Int64
	var all sync.WaitGroup
	kill := make(chan struct{}, 3)
	for n := range clients {
		all.Go(func() {
			for i := range transfers {
				id := fmt.Sprint(n, "-", i)
				for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); {
					record := &gabionsql.Once{Store: b.store, ID: idempotency.IDOf("bank", id), Retention: time.Hour}
					err := gabionsql.RunTx(t.Context(), b.d, b.db, func(ctx context.Context, tx *sql.Tx) error {
						return transfer(ctx, tx, id, n%accounts, (n+1)%accounts)
					}, gabionsql.WithOnce(record))
					if err == nil {
						break
					}
					failed.Add(1)
				}
				if done.Add(1)%(clients*transfers/4) == 0 {
					select {
					case kill <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range 2 {
		<-kill
		b.server.Kill()
		b.server.Restart()
	}
	all.Wait()
	b.wantTransfers(clients * transfers)
	if n := b.number("SELECT count(*) FROM records WHERE state = 3"); n != clients*transfers {
		t.Errorf("%d records, want %d", n, clients*transfers)
	}
	t.Logf("%d calls failed while the server was away", failed.Load())
}

// After a deadlock MySQL has rolled back the transaction, and makes each further statement
// one of its own. Work that hides the error of a statement loses the first half of what it
// did; nothing but a record finds that out.
func TestHiddenDeadlockIsFoundOutByARecord(t *testing.T) {
	b := newBank(t, outlasting())
	for _, recorded := range []bool{false, true} {
		b.exec("DELETE FROM transfers")
		var opts []gabionsql.TxOption
		if recorded {
			opts = append(opts, gabionsql.WithOnce(&gabionsql.Once{Store: b.store, ID: idempotency.IDOf("bank", "hidden"), Retention: time.Hour}))
		}
		err := gabionsql.RunTx(t.Context(), b.d, b.db, func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO transfers VALUES ('before')"); err != nil {
				return err
			}
			b.deadlock(ctx, tx)
			_, err := tx.ExecContext(ctx, "INSERT INTO transfers VALUES ('after')")
			return err
		}, opts...)
		if recorded != errors.Is(err, gabionsql.ErrEnded) || recorded == (err == nil) {
			t.Errorf("with a record %v: %v", recorded, err)
		}
		if n := b.number("SELECT count(*) FROM transfers WHERE id = 'before'"); n != 0 {
			t.Errorf("what was before the deadlock is there")
		}
	}
}

// deadlock makes tx the one that the server rolls back: the other one has changed more.
func (b *bank) deadlock(ctx context.Context, tx *sql.Tx) {
	other, err := b.witness.BeginTx(ctx, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer other.Rollback()
	for n := range 50 {
		if _, err := other.ExecContext(ctx, "INSERT INTO accounts VALUES (?, 0)", 100+n); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := other.ExecContext(ctx, "UPDATE accounts SET amount = amount WHERE id = 1"); err != nil {
		b.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET amount = amount - 1 WHERE id = 2"); err != nil {
		b.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := other.ExecContext(ctx, "UPDATE accounts SET amount = amount + 1 WHERE id = 2")
		done <- err
	}()
	_, err = tx.ExecContext(ctx, "UPDATE accounts SET amount = amount WHERE id = 1")
	var e *mysql.MySQLError
	if other := <-done; other != nil || !errors.As(err, &e) || e.Number != 1213 {
		b.Errorf("no deadlock of the work's: %v, the other: %v", err, other)
	}
}
