package pgxstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/idempotencytest"
	"github.com/gabion-go/gabion/internal/sqltable"
	"github.com/gabion-go/gabion/internal/testservers"
)

// The suite: at the isolation levels that differ, over the protocol that needs least of
// a pooler, and without what the store remembers.
func TestConformance(t *testing.T) {
	gabiontest.NoLeaks(t)
	dsn := testservers.Postgres(t)
	for n, c := range []struct {
		name, level string
		mode        pgx.QueryExecMode
		wrap        func(*Store) idempotency.Store
	}{
		{"read committed", "read committed", pgx.QueryExecModeCacheStatement, itself},
		{"serializable", "serializable", pgx.QueryExecModeCacheStatement, itself},
		{"simple protocol, forgetful", "read committed", pgx.QueryExecModeSimpleProtocol, func(s *Store) idempotency.Store { return forgetful{s} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := fmt.Sprint("records", n)
			store := open(t, connectMode(t, dsn, c.mode, c.level), table)
			other := open(t, connectMode(t, dsn, c.mode, c.level), table)
			t.Parallel() // it waits for leases
			idempotencytest.Run(t, idempotencytest.Config{
				Open:  func(testing.TB) idempotency.Store { return c.wrap(store) },
				Again: func(testing.TB, idempotency.Store, time.Duration) idempotency.Store { return c.wrap(other) },
			})
		})
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			store := open(t, connectMode(t, dsn, mode, "read committed"), "records")
			a := begin(t, store, hold(mode.String()), idempotency.DecisionRun)
			if err := store.Apply(t.Context(), idempotency.Ref{ID: hold(mode.String()).ID, Token: a.Record.Token}, complete); err != nil {
				t.Error(err)
			}
			begin(t, store, hold(mode.String()), idempotency.DecisionReplay)
			for _, want := range []idempotency.Decision{idempotency.DecisionRun, idempotency.DecisionReplay} {
				a, err := store.Do(t.Context(), claimOf("tx"+mode.String()), func(context.Context, pgx.Tx) (idempotency.Result, error) {
					return complete.Result, nil
				})
				if err != nil || a.Decision != want || string(a.Record.Result.Body) != "body" {
					t.Errorf("%v, want %v: %v", a.Decision, want, err)
				}
			}
		})
	}
}

func itself(s *Store) idempotency.Store { return s }

func connectMode(t *testing.T, dsn string, mode pgx.QueryExecMode, level string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 16
	config.ConnConfig.DefaultQueryExecMode = mode
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
	return connectTo(t, config)
}

// A forgetful store has what it knows from the table alone, and decides the same.
type forgetful struct{ *Store }

func (s forgetful) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	s.held.take(ref)
	return s.Store.Apply(ctx, ref, c)
}

func TestStore(t *testing.T) {
	dsn := testservers.Postgres(t)
	pool := connect(t, dsn, 16)
	for _, c := range []struct {
		name string
		run  func(*testing.T, *Store)
	}{
		{"a key deleted and made anew is another record", madeAnew},
		{"what is remembered is bounded", bounded},
		{"a remembered record is written by the database's clock", databaseClock},
		{"a run past its lease is looked up", pastLease},
		{"a newer program's records are left alone", newerRecords},
		{"sqlstore and pgxstore share a table", func(t *testing.T, s *Store) { sharedTable(t, dsn, s) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := pool.Exec(t.Context(), "DROP TABLE IF EXISTS records"); err != nil {
				t.Fatal(err)
			}
			c.run(t, open(t, pool, "records"))
		})
	}
}

func hold(key string) idempotency.Claim {
	c := claimOf(key)
	c.Guarantee = idempotency.GuaranteeHold
	return c
}

func begin(t *testing.T, s idempotency.Store, c idempotency.Claim, want idempotency.Decision) idempotency.Answer {
	t.Helper()
	a, err := s.Begin(t.Context(), c)
	if err != nil || a.Decision != want {
		t.Fatalf("%v, want %v: %v", a.Decision, want, err)
	}
	return a
}

var complete = idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: []byte("body")}}

// The revision counts from 1 again: only the token tells the two apart.
func madeAnew(t *testing.T, s *Store) {
	c := hold("k")
	first := begin(t, s, c, idempotency.DecisionRun)
	if _, err := s.pool.Exec(t.Context(), "DELETE FROM records"); err != nil {
		t.Fatal(err)
	}
	c.Owner[0]++
	second := begin(t, s, c, idempotency.DecisionRun)
	if first.Record.Token == second.Record.Token {
		t.Fatal("the same token")
	}
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: first.Record.Token}, complete); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("the first run: %v", err)
	}
	begin(t, s, hold("k"), idempotency.DecisionInProgress)
}

func bounded(t *testing.T, s *Store) {
	for n := range maxHeld + 100 {
		s.held.put(idempotency.ID{byte(n), byte(n >> 8)}, row{Row: sqltable.Row{Rev: 1}})
	}
	if n := len(s.held.rows); n != maxHeld {
		t.Errorf("%d records are remembered, want %d", n, maxHeld)
	}
}

// Our idea of the time is wrong by an hour here; what is written must not be.
func databaseClock(t *testing.T, s *Store) {
	c := hold("k")
	c.Lease = 3 * time.Hour
	ref := idempotency.Ref{ID: c.ID, Token: begin(t, s, c, idempotency.DecisionRun).Record.Token}
	wrong := func() {
		x, found := s.held.take(ref)
		if !found {
			t.Fatal("the granted record is not remembered")
		}
		x.Now = x.Now.Add(time.Hour)
		s.held.put(c.ID, x)
	}
	get := func() (idempotency.Record, idempotency.Record) {
		x, err := s.load(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		now := x.Now.Add(-time.Minute)
		return x.Record, idempotency.Record{LeaseUntil: now, Finished: now, Expires: now}
	}
	wrong()
	if err := s.Apply(t.Context(), ref, idempotency.Change{State: idempotency.StateRunning, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if r, old := get(); r.LeaseUntil.Sub(old.LeaseUntil) > 2*time.Minute || r.LeaseUntil < old.LeaseUntil {
		t.Errorf("extended to %v", r.LeaseUntil.Sub(old.LeaseUntil))
	}
	x, _ := s.held.take(ref)
	x.Now = x.Now.Add(-time.Hour) // right again, or the lease would seem over
	s.held.put(c.ID, x)
	if r, _ := get(); x.Record.LeaseUntil != r.LeaseUntil {
		t.Errorf("remembered %v, stored %v", x.Record.LeaseUntil, r.LeaseUntil)
	}
	x.Now = x.Now.Add(-time.Hour) // late by an hour
	s.held.put(c.ID, x)
	if err := s.Apply(t.Context(), ref, complete); err != nil {
		t.Fatal(err)
	}
	r, old := get()
	if d := r.Finished.Sub(old.Finished); d < 0 || d > 2*time.Minute {
		t.Errorf("finished %v off", d)
	}
	if r.Expires.Sub(r.Finished) != c.Retention || r.LeaseUntil != 0 {
		t.Errorf("%+v", r)
	}
	var due int64
	if err := s.pool.QueryRow(t.Context(), "SELECT due FROM records").Scan(&due); err != nil || due != int64(r.Expires) {
		t.Errorf("due %d, expires %d: %v", due, r.Expires, err)
	}
}

func pastLease(t *testing.T, s *Store) {
	c := hold("k")
	c.Lease = 30 * time.Millisecond
	a := begin(t, s, c, idempotency.DecisionRun)
	time.Sleep(2 * c.Lease) // the database's clock can't be set
	c.Owner[0]++
	begin(t, s, c, idempotency.DecisionUnknown)
	if err := s.Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, complete); !errors.Is(err, idempotency.ErrLeaseLost) {
		t.Errorf("%v", err)
	}
}

func newerRecords(t *testing.T, s *Store) {
	begin(t, s, hold("k"), idempotency.DecisionRun)
	if _, err := s.pool.Exec(t.Context(), "UPDATE records SET version = 2, due = 0"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), hold("k")); !errors.Is(err, idempotency.ErrUnreadable) {
		t.Errorf("begin: %v", err)
	}
	if _, err := s.Tx(t.Context(), claimOf("k"), nil); !errors.Is(err, idempotency.ErrUnreadable) {
		t.Errorf("tx: %v", err)
	}
	begin(t, s, hold("lost"), idempotency.DecisionRun)
	if _, err := s.pool.Exec(t.Context(), "UPDATE records SET due = 1, lease_until = 1 WHERE version = 1"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} { // they are not in the way of what can be swept
		if n, err := s.Sweep(t.Context(), 1); err != nil || n != want {
			t.Errorf("sweep: %d, %v, want %d", n, err, want)
		}
	}
}

func sharedTable(t *testing.T, dsn string, ours *Store) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	theirs, err := sqlstore.New(db, sqlstore.Postgres, "records")
	if err == nil {
		err = theirs.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, pair := range [][2]idempotency.TxStore{{ours, theirs}, {theirs, ours}} {
		c := hold(strings.Repeat("k", n+1))
		a := begin(t, pair[0], c, idempotency.DecisionRun)
		other := c
		other.Owner[0]++
		begin(t, pair[1], other, idempotency.DecisionInProgress)
		if err := pair[1].Apply(t.Context(), idempotency.Ref{ID: c.ID, Token: a.Record.Token}, complete); err != nil {
			t.Error(err)
		}
		if r := begin(t, pair[0], other, idempotency.DecisionReplay).Record; string(r.Result.Body) != "body" {
			t.Errorf("%q", r.Result.Body)
		}
		c = claimOf(strings.Repeat("t", n+1))
		outer, err := pair[0].Tx(t.Context(), c, func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
			if a, err := pair[1].Tx(ctx, c, nil); err != nil || a.Decision != idempotency.DecisionInProgress {
				t.Errorf("the other store: %v, %v", a.Decision, err)
			}
			return complete.Result, idempotency.EndingSucceeded, nil
		})
		if err != nil || outer.Decision != idempotency.DecisionRun {
			t.Errorf("%v, %v", outer.Decision, err)
		}
		if a, err := pair[1].Tx(t.Context(), c, nil); err != nil || a.Decision != idempotency.DecisionReplay {
			t.Errorf("the other store, afterwards: %v, %v", a.Decision, err)
		}
	}
}

func TestTableNames(t *testing.T) {
	for name, ok := range map[string]bool{"records": true, "app.records": true, "": false, "a b": false, "a;b": false, "a.b.c": false} {
		if _, err := New(nil, name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCaps(t *testing.T) {
	ctx := t.Context()
	dsn := testservers.Postgres(t, "fsync=on")
	pool := connect(t, dsn, 4)
	store, err := New(pool, "records")
	if err != nil {
		t.Fatal(err)
	}
	want := func(store *Store, durable bool, words ...string) {
		t.Helper()
		caps := store.Caps()
		got := strings.Join(caps.Warnings, "\n")
		if caps.Durable != durable || len(caps.Warnings) != len(words) || !caps.ServerClock {
			t.Errorf("durable %v, warnings %q, want %v and %q", caps.Durable, caps.Warnings, durable, words)
		}
		for _, w := range words {
			if !strings.Contains(got, w) {
				t.Errorf("no warning about %s in %q", w, got)
			}
		}
	}
	if n := store.Caps().Connections; n != 4 { // package idempotency warns by that of work that shares the pool
		t.Errorf("%d connections, want 4", n)
	}
	want(store, false, "call Migrate or Check")
	if err := store.Check(ctx); !errors.Is(err, sqltable.ErrNoTable) {
		t.Errorf("without a table: %v", err)
	}
	want(store, false, "call Migrate or Check")
	if err := store.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	want(store, true)

	want(open(t, connect(t, dsn, 1, "synchronous_commit", "off"), "records"), false, "synchronous_commit")
	want(open(t, connect(t, dsn, 1, "synchronous_commit", "local"), "records"), true)
	for _, text := range []string{"ALTER TABLE records SET UNLOGGED", "ALTER SYSTEM SET full_page_writes = off", "SELECT pg_reload_conf()"} {
		if _, err := pool.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
	}
	for range 3000 { // the server reloads on its own time
		if err := store.Check(ctx); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(store.Caps().Warnings, func(w string) bool { return strings.HasPrefix(w, "full_page_writes") }) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	want(store, false, "full_page_writes", "SET LOGGED")
	want(open(t, connect(t, testservers.Postgres(t), 1), "records"), false, "fsync")
}
