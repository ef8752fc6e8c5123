package pgxstore

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
	"github.com/gabion-go/gabion/messages/inbox"
	"github.com/gabion-go/gabion/policy"
)

var queryModes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// inMode returns a pool of one connection in a query mode, through a proxy.
func inMode(t *testing.T, server *testservers.Server, mode pgx.QueryExecMode) (*pgxpool.Pool, *testproxy.Proxy) {
	t.Helper()
	p := testproxy.New(t, server.Addr)
	config, err := pgxpool.ParseConfig(strings.Replace(server.DSN, server.Addr, p.Addr, 1))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	config.ConnConfig.DefaultQueryExecMode = mode
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	return connectTo(t, config), p
}

// A loss is a way in which COMMIT ends without an answer.
type loss struct {
	name    string
	request testproxy.Fault // struck when the work ends
	ends    bool            // the server ends the session
	effects int             // after the first request
}

var losses = []loss{
	{"the request is lost", testproxy.Fault{Requests: testproxy.Break, Once: true}, false, 0},
	{"the answer is lost", testproxy.Fault{Replies: testproxy.Break, Match: "COMMIT", Once: true}, false, 1},
	{"the server ends the session", testproxy.Fault{}, true, 0},
}

// endSession makes the server end a session while it commits an effect.
func endSession(s *shop) {
	s.Exec(`CREATE OR REPLACE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
	s.Exec(`CREATE CONSTRAINT TRIGGER ends AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION end_session()`)
	s.Exec(`ALTER TABLE effects DISABLE TRIGGER ends`)
}

// Whatever the query mode: a COMMIT without an answer is reported as unknown, and the
// next claim finds out.
func TestCommitWithoutAnswerIsUnknown(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	witness := connect(t, server.DSN, 4)
	for _, mode := range queryModes {
		for _, l := range losses {
			for _, before := range []string{"no record", "an expired record"} {
				for _, warm := range []bool{false, true} { // statements are prepared, in those modes that do
					name := strings.Join([]string{mode.String(), l.name, before, map[bool]string{false: "cold", true: "warm"}[warm]}, ", ")
					t.Run(name, func(t *testing.T) { commitUnknown(t, server, witness, mode, l, before, warm) })
				}
			}
		}
	}
}

func commitUnknown(t *testing.T, server *testservers.Server, witness *pgxpool.Pool, mode pgx.QueryExecMode, l loss, before string, warm bool) {
	if _, err := witness.Exec(t.Context(), "DROP TABLE IF EXISTS records"); err != nil {
		t.Fatal(err)
	}
	pool, p := inMode(t, server, mode)
	s := newShop(t, witness, open(t, pool, "records"))
	endSession(s)
	s.Work = testshop.Status(201)
	if warm {
		s.Post("warm", "x")
	}
	if before != "no record" {
		s.Post("k", "x")
		s.Exec("UPDATE records SET expires = 1")
	}
	s.Exec("DELETE FROM effects")
	if l.ends {
		s.Exec("ALTER TABLE effects ENABLE TRIGGER ends")
	}
	fault := l.request
	if fault.Requests != "" && before != "no record" {
		fault.Match = "commit" // the finished record goes ahead of it
	}
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		p.Set(fault)
		testshop.Status(201)(w, r)
	}
	w := s.Post("k", "x")
	if w.Code != 503 || !strings.Contains(w.Body.String(), string("outcome-unknown")) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n := p.Struck(); n != 1 && !l.ends {
		t.Errorf("%d faults, want 1", n)
	}
	p.Set(testproxy.Fault{})
	s.WantEffects(l.effects)
	s.Exec("ALTER TABLE effects DISABLE TRIGGER ends")
	s.Work = testshop.Status(201)
	if w := s.Post("k", "x"); w.Code != 201 || testshop.Replayed(w) != (l.effects == 1) {
		t.Errorf("the next claim: %d %s, replayed: %v", w.Code, w.Body, testshop.Replayed(w))
	}
	s.WantEffects(1)
}

// A consumer whose work was committed is not told that its message failed.
func TestInboxWithoutAnswerOfCommit(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	witness := connect(t, server.DSN, 4)
	for _, mode := range queryModes {
		t.Run(mode.String(), func(t *testing.T) {
			if _, err := witness.Exec(t.Context(), "DROP TABLE IF EXISTS records"); err != nil {
				t.Fatal(err)
			}
			pool, p := inMode(t, server, mode)
			s := newShop(t, witness, open(t, pool, "records"))
			in, err := inbox.New("orders", s.store, inbox.Options{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx}, Retry: policy.Retry{Attempts: 1}})
			if err != nil {
				t.Fatal(err)
			}
			m := inbox.Message{ID: "m", Payload: []byte("x"), Delivery: 1}
			got := in.Handle(t.Context(), m, func(ctx context.Context) error {
				p.Set(testproxy.Fault{Replies: testproxy.Break, Match: "COMMIT", Once: true})
				return add(ctx, TxFrom(ctx))
			})
			if got.Verb == inbox.DeadLetter || got.Cause != "commit_unknown" || !errors.Is(got.Err, idempotency.ErrUnknown) {
				t.Errorf("%+v", got)
			}
			s.WantEffects(1)
			m.Delivery = 2
			if got := in.Handle(t.Context(), m, func(context.Context) error { t.Error("it ran again"); return nil }); got.Verb != inbox.Ack {
				t.Errorf("redelivered: %+v", got)
			}
		})
	}
}

// COMMIT checks what was deferred. If a row of the work was there before, that is no conflict about the
// record: the store does not ask for the work again.
func TestDeferredViolationIsTheWorksError(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 4)
	s := newShop(t, pool, open(t, pool, "records"))
	s.Exec("CREATE TABLE orders (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	s.Exec("INSERT INTO orders VALUES (1)")
	order := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO orders VALUES (1)")
		return err
	}
	runs := 0
	_, err := s.store.Do(t.Context(), claimOf("do"), func(ctx context.Context, tx pgx.Tx) (idempotency.Result, error) {
		runs++
		return idempotency.Result{Status: 201}, order(ctx, tx)
	})
	if runs != 1 || stateOf(err) != "23505" || errors.Is(err, ErrConflict) || errors.Is(err, idempotency.ErrUnknown) {
		t.Errorf("ran %d times: %v", runs, err)
	}
	s.Work = func(w http.ResponseWriter, r *http.Request) {
		if err := order(r.Context(), TxFrom(r.Context())); err != nil {
			t.Error(err)
		}
		testshop.Status(201)(w, r)
	}
	if w := s.Post("handler", "x"); w.Code != 503 || w.Header().Get("Location") != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	s.WantRuns(1)
	s.WantEffects(0)
}
