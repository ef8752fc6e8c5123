package pgxstore

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
	"github.com/gabion-go/gabion/internal/testsplit"
)

// through returns a pool whose connections go through a proxy of their own.
func through(t testing.TB, server *testservers.Server, conns int32) (*pgxpool.Pool, *testproxy.Proxy) {
	t.Helper()
	p := testproxy.New(t, server.Addr)
	return connectVia(t, server, p.Addr, conns), p
}

// connectVia returns a pool that reaches a server by another address.
func connectVia(t testing.TB, server *testservers.Server, addr string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(strings.Replace(server.DSN, server.Addr, addr, 1))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	// By default the pool asks a connection that was idle for a second how it is, and
	// on a slow machine a fault would strike that.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	return connectTo(t, config)
}

var (
	unseen  = testproxy.Fault{Requests: testproxy.Break, Once: true} // the server does not see what is sent
	unheard = testproxy.Fault{Replies: testproxy.Break, Once: true}  // it does, and its answer is lost
)

// 46: the connection breaks when COMMIT was sent. Only the database can tell the two cases apart, and
// the retry asks it.
func TestAnswersAreLost(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t)
	witness := connect(t, server.DSN, 4)
	for _, c := range []struct {
		name    string
		fault   testproxy.Fault
		effects int // after the first request
		replays bool
	}{
		{"before the server saw it", unseen, 0, false},
		{"after the server committed", unheard, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := witness.Exec(t.Context(), "DROP TABLE IF EXISTS records"); err != nil {
				t.Fatal(err)
			}
			pool, p := through(t, server, 1)
			s := newShop(t, witness, open(t, pool, "records"))
			s.Work = testshop.Status(201)
			if w := s.Post("warm", "x"); w.Code != 201 { // statements are prepared: what follows the work is COMMIT
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			s.Exec("DELETE FROM effects")
			s.Runs.Store(0)
			s.Work = func(w http.ResponseWriter, r *http.Request) {
				p.Set(c.fault)
				testshop.Status(201)(w, r)
			}
			w := s.Post("k", "x")
			if w.Code != 503 || !strings.Contains(w.Body.String(), "outcome-unknown") || w.Header().Get("Retry-After") == "" || w.Header().Get("Location") != "" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if n := p.Struck(); n != 1 {
				t.Errorf("%d faults, want 1", n)
			}
			s.WantEffects(c.effects)
			s.Work = testshop.Status(201)
			if w := s.Post("k", "x"); w.Code != 201 || w.Body.String() != "body" || testshop.Replayed(w) != c.replays {
				t.Errorf("the retry: %d %s, replayed: %v", w.Code, w.Body, testshop.Replayed(w))
			}
			s.WantEffects(1)
			if s.Runs.Load() == 1 != c.replays {
				t.Errorf("%d runs", s.Runs.Load())
			}
		})
	}
	t.Run("a claim's or a change's answer", func(t *testing.T) { repeatUnheard(t, server) })
}

// A claim whose answer was lost is the caller's own when he asks again.
func repeatUnheard(t *testing.T, server *testservers.Server) {
	pool, p := through(t, server, 1)
	store := open(t, pool, "records")
	begin(t, store, hold("warm"), idempotency.DecisionRun)
	for _, f := range []testproxy.Fault{unseen, unheard} {
		key := fmt.Sprint("k", f)
		p.Set(f)
		if a, err := store.Begin(t.Context(), hold(key)); err == nil {
			t.Fatalf("%v without an answer", a.Decision)
		}
		a := begin(t, store, hold(key), idempotency.DecisionRun)
		ref := idempotency.Ref{ID: hold(key).ID, Token: a.Record.Token}
		p.Set(f)
		if err := store.Apply(t.Context(), ref, complete); err == nil {
			t.Fatal("a change without an answer")
		}
		if err := store.Apply(t.Context(), ref, complete); err != nil {
			t.Errorf("a change that was repeated: %v", err)
		}
		begin(t, store, hold(key), idempotency.DecisionReplay)
	}
}

// H: the network between service and database fails.
func TestPartitions(t *testing.T) {
	gabiontest.NoLeaks(t)
	server := testservers.StartPostgres(t, "max_connections=200")
	witness := connect(t, server.DSN, 16)
	open(t, witness, "records")
	if _, err := witness.Exec(t.Context(), "CREATE TABLE effects (key text)"); err != nil {
		t.Fatal(err)
	}
	testsplit.Run(t, testsplit.Service{
		Addr: server.Addr,
		Open: func(t *testing.T, addr string) idempotency.TxStore {
			store, err := New(connectVia(t, server, addr, 4), "records")
			if err != nil {
				t.Error(err)
			}
			return store
		},
		Effect: func(ctx context.Context, key string) (err error) {
			const text = "INSERT INTO effects VALUES ($1)"
			if tx := TxFrom(ctx); tx != nil {
				_, err = tx.Exec(ctx, text, key)
				return err
			}
			_, err = witness.Exec(context.WithoutCancel(ctx), text, key)
			return err
		},
		Count: func(ctx context.Context, key string) (n int, err error) {
			err = witness.QueryRow(ctx, "SELECT count(*) FROM effects WHERE key = $1", key).Scan(&n)
			return n, err
		},
	})
}
