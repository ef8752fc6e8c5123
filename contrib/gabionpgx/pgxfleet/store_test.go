package pgxfleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/testfleet"
	"github.com/gabion-go/gabion/internal/testservers"
)

// connect returns a pool that is gone with the test. more changes its configuration.
func connect(t testing.TB, dsn string, more ...func(*pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 16
	for _, change := range more {
		change(config.ConnConfig)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func open(t testing.TB, pool *pgxpool.Pool) *Store {
	t.Helper()
	s, err := New(pool, "shop_fleet")
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	dsn := testservers.Postgres(t)
	for fact, change := range map[string]func(*pgx.ConnConfig){
		"as it comes":                         func(*pgx.ConnConfig) {},
		"without prepared statements":         func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeExec },
		"by the simple protocol":              func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
		"where transactions are repeatable":   func(c *pgx.ConnConfig) { c.RuntimeParams["default_transaction_isolation"] = "repeatable read" },
		"where transactions are serializable": func(c *pgx.ConnConfig) { c.RuntimeParams["default_transaction_isolation"] = "serializable" },
	} {
		t.Run(fact, func(t *testing.T) {
			fleettest.Run(t, func(t testing.TB) fleet.Store { return open(t, connect(t, dsn, change)) })
		})
	}
}

func TestAServerThatStopsAndIsKilled(t *testing.T) {
	t.Parallel()
	server := testservers.StartPostgres(t)
	testfleet.Outages(t, func(t testing.TB) fleet.Store { return open(t, connect(t, server.DSN)) },
		func() { server.Kill(); time.Sleep(2 * time.Second); server.Restart() },
		func() { server.Pause(2 * time.Second) }, // of the process that accepts connections
	)
}

// trips counts how often a connection waits for an answer after it has sent something.
type trips struct {
	net.Conn
	n     *atomic.Int64
	asked *atomic.Bool
}

func (c trips) Write(b []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(b)
}

func (c trips) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.asked.Swap(false) {
		c.n.Add(1)
	}
	return n, err
}

func TestABatchIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := open(t, connect(t, testservers.Postgres(t), func(c *pgx.ConnConfig) {
		dial := c.DialFunc
		c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return trips{conn, &n, new(atomic.Bool)}, err
		}
	}))
	const batches = 20
	for round := range 2 { // in the first the statements are prepared
		before := n.Load()
		for range batches {
			r, err := s.Do(t.Context(), fleet.Batch{Puts: []fleet.Put{{Key: "f/pods/1", Value: []byte("x")}}, Get: []string{"f/pool"}, List: "f/pods/"})
			if err != nil || len(r.Items) != 1 {
				t.Fatal(r, err)
			}
		}
		if made := n.Load() - before; round == 1 && made != batches {
			t.Errorf("%d batches took %d round trips", batches, made)
		}
	}
}

// Rows that are over go with the next swap of their fleet.
func TestRowsThatAreOverAreDeleted(t *testing.T) {
	t.Parallel()
	pool := connect(t, testservers.Postgres(t))
	s := open(t, pool)
	do := func(b fleet.Batch) {
		t.Helper()
		if _, err := s.Do(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(want int) {
		t.Helper()
		var n int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM shop_fleet").Scan(&n); err != nil || n != want {
			t.Errorf("%d rows, want %d (%v)", n, want, err)
		}
	}
	for _, of := range []string{"a", "b", "a_"} {
		do(fleet.Batch{Puts: []fleet.Put{
			{Key: of + "/pods/1", Value: []byte("x"), Lasts: time.Millisecond}, {Key: of + "/pods/2", Value: []byte("x"), Lasts: time.Hour}, {Key: of + "/k", Value: []byte("x")},
		}})
	}
	time.Sleep(5 * time.Millisecond)
	do(fleet.Batch{List: "a/"})
	rows(9)
	do(fleet.Batch{Swap: &fleet.Put{Key: "a/pool", Value: []byte("x")}})
	rows(9) // one came, one went
	do(fleet.Batch{Swap: &fleet.Put{Key: "b/pool", Value: []byte("x")}})
	rows(9)
}

func TestRights(t *testing.T) {
	t.Parallel()
	dsn := testservers.Postgres(t)
	admin := connect(t, dsn)
	open(t, admin)
	for _, text := range []string{
		"CREATE ROLE member LOGIN", "GRANT SELECT, INSERT, UPDATE, DELETE ON shop_fleet TO member", "CREATE ROLE looker LOGIN", "GRANT SELECT ON shop_fleet TO looker",
	} {
		if _, err := admin.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	as := func(role string) *Store {
		s, err := New(connect(t, dsn, func(c *pgx.ConnConfig) { c.User = role }), "shop_fleet")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	b := fleet.Batch{Swap: &fleet.Put{Key: "f/k", Value: []byte("x")}, Puts: []fleet.Put{{Key: "f/p", Value: []byte("x")}, {Key: "f/q"}}, Get: []string{"f/k"}}
	if _, err := as("looker").Do(t.Context(), b); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("one who may only look puts: %v", err)
	}
	if r, err := as("looker").Do(t.Context(), fleet.Batch{Get: []string{"f/k"}, List: "f/"}); err != nil || len(r.Items) != 0 {
		t.Errorf("one who may only look: %+v, %v", r, err)
	}
	if r, err := as("member").Do(t.Context(), b); err != nil || !r.Swapped || len(r.Items) != 1 {
		t.Errorf("a member: %+v, %v", r, err)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"fleet": true, "app.fleet": true, "": false, "a b": false, "a;b": false, strings.Repeat("a", 49): false} {
		if _, err := New(nil, name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	pool := connect(t, testservers.Postgres(t))
	s, err := New(pool, "missing")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(t.Context(), fleet.Batch{Get: []string{"f/k"}}); !errors.Is(err, ErrNoTable) {
		t.Errorf("without a table: %v", err)
	}
	for round := range 3 { // servers that start together make the table together
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := New(pool, fmt.Sprint("together_", round))
				if err == nil {
					err = s.Migrate(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}
