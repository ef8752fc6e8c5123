package pgxstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// In serializable transactions a statement that only reads may be told to try again, too.
// Here every third that looks at the record is.
func TestWhatTheDatabaseWantsRepeatedIsRepeated(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	open(t, pool, "records")
	exec := func(text string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE SEQUENCE asked")
	exec(`CREATE FUNCTION fine() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN
		IF nextval('asked') % 3 = 0 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF; RETURN true; END $$`)
	exec("CREATE VIEW busy AS SELECT * FROM records WHERE fine()")
	s, err := New(pool, "busy")
	if err != nil {
		t.Fatal(err)
	}
	for before, key := range []string{"the third look", "the second look", "the first look"} {
		t.Run(key, func(t *testing.T) {
			exec("DELETE FROM records")
			ref := idempotency.Ref{ID: hold(key).ID}
			claim := func() error {
				a, err := s.Begin(t.Context(), hold(key))
				ref.Token = a.Record.Token
				return err
			}
			apply := func(e idempotency.Event) func() error {
				return func() error {
					return s.Apply(t.Context(), ref, idempotency.Change{Event: e, Lease: hold(key).Lease})
				}
			}
			for _, step := range []struct {
				name string
				do   func() error
			}{
				{"claim", claim},
				{"claim again", claim},
				{"get", func() error { _, err := s.Get(t.Context(), ref.ID); return err }},
				{"extend", apply(idempotency.Extend)},
				{"release", apply(idempotency.Release)},
				{"release again", apply(idempotency.Release)},
				{"claim what was released", claim},
				{"complete", apply(idempotency.Complete)},
				{"list", func() error { _, err := s.List(t.Context(), "", 10); return err }},
				{"forget", func() error { return s.Forget(t.Context(), ref) }},
				{"claim what was forgotten", claim},
				{"release it", apply(idempotency.Release)},
				{"sweep", func() error {
					exec("UPDATE records SET due = 0, expires = 0")
					for range 4 { // one that was undone says that it changed nothing
						if n, err := s.Sweep(t.Context(), 10); n > 0 || err != nil {
							return err
						}
					}
					return errors.New("nothing is swept")
				}},
			} {
				exec(fmt.Sprintf("SELECT setval('asked', %d)", 3+before))
				if err := step.do(); err != nil {
					t.Errorf("%s: %v", step.name, err)
				}
			}
		})
	}
}
