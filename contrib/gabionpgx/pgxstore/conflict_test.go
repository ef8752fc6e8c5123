package pgxstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// In serializable transactions the database may ask to repeat a statement that only reads, too.
// Here it does so for one that looks at the record.
func TestWhatTheDatabaseWantsRepeatedIsRepeated(t *testing.T) {
	gabiontest.NoLeaks(t)
	dsn := testservers.Postgres(t)
	pool := connect(t, dsn, 4)
	open(t, pool, "records")
	for _, text := range []string{
		"CREATE SEQUENCE looks",
		`CREATE FUNCTION fine() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN
			IF nextval('looks') % 10 = 0 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF; RETURN true; END $$`,
		"CREATE VIEW busy AS SELECT * FROM records WHERE fine()",
	} {
		execute(t, pool, text)
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ours, err := New(pool, "busy")
	theirs, err2 := sqlstore.New(db, sqlstore.Postgres, "busy")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]idempotency.Store{"pgxstore": ours, "sqlstore": theirs} {
		for look := 1; look <= 4; look++ {
			t.Run(fmt.Sprintf("%s, look %d", name, look), func(t *testing.T) { throughConflicts(t, pool, s, look) })
		}
	}
}

func execute(t *testing.T, pool *pgxpool.Pool, text string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// throughConflicts uses every method of a store, each of which has a conflict when it looks
// at the record so often.
func throughConflicts(t *testing.T, pool *pgxpool.Pool, s idempotency.Store, look int) {
	execute(t, pool, "DELETE FROM records")
	ref := idempotency.Ref{ID: hold("k").ID}
	claim := func() error {
		a, err := s.Begin(t.Context(), hold("k"))
		ref.Token = a.Record.Token
		return err
	}
	apply := func(to idempotency.State) func() error {
		return func() error {
			return s.Apply(t.Context(), ref, idempotency.Change{State: to, Operator: to == idempotency.StateAbsent, Lease: hold("k").Lease})
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"claim", claim},
		{"claim again", claim},
		{"get", func() error { _, err := s.Get(t.Context(), ref.ID); return err }},
		{"extend", apply(idempotency.StateRunning)},
		{"release", apply(idempotency.StateRetryable)},
		{"release again", apply(idempotency.StateRetryable)},
		{"claim what was released", claim},
		{"complete", apply(idempotency.StateDone)},
		{"list", func() error { _, _, err := s.List(t.Context(), "", 10); return err }},
		{"forget", apply(idempotency.StateAbsent)},
		{"claim what was forgotten", claim},
		{"release it", apply(idempotency.StateRetryable)},
		{"sweep", func() error {
			execute(t, pool, "UPDATE records SET due = 0, expires = 0")
			for range 4 { // one that was undone says that it changed nothing
				if n, err := s.Sweep(t.Context(), 10); n > 0 || err != nil {
					return err
				}
			}
			return errors.New("nothing is swept")
		}},
	} {
		execute(t, pool, fmt.Sprintf("SELECT setval('looks', %d)", 20-look))
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}

// A lock that is not to be had, at once or in time, ends the transaction as a deadlock does.
func TestLockThatIsNotHadIsRepeated(t *testing.T) {
	gabiontest.NoLeaks(t)
	dsn := testservers.Postgres(t)
	pool := connect(t, dsn, 4)
	store := open(t, pool, "records")
	execute(t, pool, "CREATE TABLE effects (key text)")
	execute(t, pool, "CREATE TABLE stock (n int)")
	execute(t, pool, "INSERT INTO stock VALUES (1)")
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "UPDATE stock SET n = 2"); err != nil {
		t.Fatal(err)
	}
	runs := 0
	_, err = store.Do(t.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		runs++
		_, err := tx.Exec(ctx, "SELECT n FROM stock FOR UPDATE NOWAIT")
		if err := holder.Rollback(ctx); runs == 1 && err != nil {
			t.Error(err)
		}
		if err != nil {
			return idempotency.Result{}, err
		}
		return idempotency.Result{Status: 201}, add(ctx, tx)
	})
	if runs != 2 || err != nil {
		t.Errorf("%d runs, %v", runs, err)
	}
}
