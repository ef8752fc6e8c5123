package pgxstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
)

// Work may talk to its connection past the transaction that it was given, where the store does not see
// the database's answers. Whatever it then says of itself: what the database rolled back is never
// recorded as done.
func TestWorkThatTalksToItsConnection(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	text := func(texts ...string) func(context.Context, pgx.Tx) {
		return func(ctx context.Context, tx pgx.Tx) {
			for _, text := range texts {
				tx.Conn().PgConn().Exec(ctx, text).Close()
			}
		}
	}
	const gone, keeps = false, true
	for _, c := range []struct {
		name   string
		work   func(context.Context, pgx.Tx)
		stands bool        // what the work did is in the database
		sent   map[int]int // by what the work answers
		kept   map[int]bool
	}{
		{"an unseen failure", text(raise), gone, map[int]int{201: 503, 409: 409, 500: 500}, map[int]bool{409: keeps}},
		{"it rolled back", text("ROLLBACK"), gone, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it rolled back and began anew", text("ROLLBACK AND CHAIN"), gone, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it rolled back and began anew, by hand", text("ROLLBACK", "BEGIN"), gone, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it rolled back and began anew, in one text", text("ROLLBACK; BEGIN"), gone, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it committed and began anew", text("COMMIT AND CHAIN"), true, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it committed and began anew, in one text", text("END; START TRANSACTION"), true, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"savepoints are its own business", text("SAVEPOINT a; SAVEPOINT b", "ROLLBACK TO b; RELEASE a; SAVEPOINT c"), true, map[int]int{201: 201, 409: 409, 500: 500}, map[int]bool{201: keeps, 409: keeps}},
		{"it failed and committed", text(raise, "COMMIT"), gone, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it failed and committed, by its transaction", func(ctx context.Context, tx pgx.Tx) {
			tx.Exec(ctx, "SELECT 1/0")
			tx.Exec(ctx, "COMMIT")
		}, gone, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it committed", text("COMMIT"), true, map[int]int{201: 503, 409: 503, 500: 503}, nil},
		{"it committed a transaction of its own", func(ctx context.Context, tx pgx.Tx) {
			pgx.BeginFunc(ctx, tx.Conn(), func(pgx.Tx) error { return nil })
		}, true, map[int]int{201: 503, 409: 503, 500: 503}, nil},
	} {
		for _, before := range []string{"no record", "an expired record"} {
			for _, answer := range []int{201, 409, 500} {
				t.Run(fmt.Sprint(c.name, ", ", answer, ", ", before), func(t *testing.T) {
					s.Exec("DELETE FROM records")
					s.Work = testshop.Status(201)
					if before != "no record" {
						s.Post("k", "x")
						s.Exec("UPDATE records SET expires = 1")
					}
					s.Exec("DELETE FROM effects")
					s.Runs.Store(0)
					s.Work = func(w http.ResponseWriter, r *http.Request) {
						c.work(r.Context(), TxFrom(r.Context()))
						testshop.Status(answer)(w, r)
					}
					if w := s.Post("k", "x"); w.Code != c.sent[answer] {
						t.Errorf("%d %s", w.Code, w.Body)
					}
					effects := 0
					if c.stands && (c.sent[answer] == 503 || answer == 201) {
						effects = int(s.Runs.Load())
					}
					s.WantEffects(effects)
					s.Work = testshop.Status(201)
					w := s.Post("k", "x")
					if kept := c.kept[answer]; testshop.Replayed(w) != kept || !kept && w.Code != 201 {
						t.Errorf("then %d %s, replayed %v", w.Code, w.Body, testshop.Replayed(w))
					}
				})
			}
		}
	}
}

// The caller of Do learns that it is not known what became of its work.
func TestWorkThatEndsItsTransactionIsTold(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	own := errors.New("the work's own")
	for _, end := range []string{"COMMIT", "ROLLBACK", "ROLLBACK AND CHAIN", "COMMIT; BEGIN"} {
		for _, err := range []error{nil, own} {
			runs := 0
			_, got := s.store.Do(t.Context(), claimOf("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
				runs++
				tx.Exec(ctx, end)
				return idempotency.Result{}, err
			})
			told := errors.Is(got, ErrNotYours) && errors.Is(got, idempotency.ErrUnknown)
			if !told || err != nil && !errors.Is(got, err) || runs != 1 {
				t.Errorf("%s, %v: %d runs, %v", end, err, runs, got)
			}
		}
	}
}

// What work says of a failure that the store could not hear counts as if it had.
func TestFailed(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	raw := func(ctx context.Context) error { return TxFrom(ctx).Conn().PgConn().Exec(ctx, raise).Close() }
	for _, answer := range []int{201, 409, 500} {
		s.Exec("DELETE FROM effects")
		s.Runs.Store(0)
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			if s.Runs.Load() < 3 {
				Failed(r.Context(), fmt.Errorf("wrapped: %w", raw(r.Context())))
				http.Error(w, "leak", answer)
				return
			}
			testshop.Status(201)(w, r)
		}
		key := fmt.Sprint("again", answer)
		if w := s.Post(key, "x"); w.Code != 201 || w.Body.String() != "body" {
			t.Errorf("%d: %d %s", answer, w.Code, w.Body)
		}
		s.WantRuns(3)
		s.WantEffects(1)
		if w := s.Post(key, "x"); w.Code != 201 || !testshop.Replayed(w) {
			t.Errorf("%d, then: %d %s", answer, w.Code, w.Body)
		}
	}
	s.Exec("DELETE FROM effects")
	s.Runs.Store(0)
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		Failed(r.Context(), nil)
		Failed(r.Context(), errors.New("not the database's word"))
		testshop.Status(409)(w, r)
	}
	if w := s.Post("other", "x"); w.Code != 409 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.WantRuns(1)
	Failed(t.Context(), errors.New("outside of work"))
}
