package pgxstore

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// heard counts events.
type heard struct {
	mu    sync.Mutex // guards all below
	count map[idempotency.EventKind]int
	text  string
}

func (h *heard) Observe(_ context.Context, n idempotency.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == nil {
		h.count = map[idempotency.EventKind]int{}
	}
	h.count[n.Kind]++
	if n.Kind == "store_unsafe" {
		h.text += n.Err.Error()
	}
}

// Eight requests at once, whose work holds a connection for two leases, and four
// connections: what is said of the pool decides whether outcomes become unknown.
func TestWorkThatSharesTheStoresPool(t *testing.T) {
	const connections, requests, lease = 4, 8, 1500 * time.Millisecond
	dsn := testservers.Postgres(t)
	open(t, connect(t, dsn, 1), "pooled") // before all others want to at once
	sqlOf(t, openSQL(t, dsn, 1))
	stores := map[string]func(*testing.T, *pgxpool.Pool, *sql.DB) idempotency.Store{
		"pgxstore": func(t *testing.T, pool *pgxpool.Pool, _ *sql.DB) idempotency.Store { return open(t, pool, "pooled") },
		"sqlstore": func(t *testing.T, _ *pgxpool.Pool, db *sql.DB) idempotency.Store { return sqlOf(t, db) },
	}
	for _, c := range []struct {
		name    string
		perRun  int
		own     bool // the store has another pool than the work
		warned  bool
		unknown bool
	}{
		{"nothing is said", 0, false, true, true},
		{"what the work takes is said", 1, false, false, false},
		{"the store has a pool of its own", 0, true, false, false},
	} {
		for name, of := range stores {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel() // the database sleeps
				pool, db := connect(t, dsn, connections), openSQL(t, dsn, connections)
				keys, keysDB := pool, db
				if c.own {
					keys, keysDB = connect(t, dsn, connections), openSQL(t, dsn, connections)
				}
				var seen heard
				work := func(w http.ResponseWriter, r *http.Request) {
					var err error
					if query := fmt.Sprintf("SELECT pg_sleep(%f)", (2 * lease).Seconds()); name == "sqlstore" {
						_, err = db.ExecContext(r.Context(), query)
					} else {
						_, err = pool.Exec(r.Context(), query)
					}
					if err != nil {
						w.WriteHeader(http.StatusInternalServerError)
					}
				}
				h, err := idempotency.New(idempotency.Global, of(t, keys, keysDB), http.HandlerFunc(work), idempotency.Config{
					RunnerConfig: idempotency.RunnerConfig{Lease: lease, StoreTimeout: time.Minute, ConnectionsPerRun: c.perRun, OwnPool: c.own, Observer: &seen},
				})
				if err != nil {
					t.Fatal(err)
				}
				if warned := strings.Contains(seen.text, "4 connections"); warned != c.warned {
					t.Errorf("warned %v: %s", warned, seen.text)
				}
				codes := make([]int, requests)
				var all sync.WaitGroup
				for n := range requests {
					all.Go(func() {
						r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
						r.Header.Set("Idempotency-Key", fmt.Sprintf("k%d-%v-%d", c.perRun, c.own, n))
						w := httptest.NewRecorder()
						h.ServeHTTP(w, r)
						codes[n] = w.Code
					})
				}
				all.Wait()
				unknown := seen.count["unknown"] + seen.count["lease_lost"]
				t.Logf("answers %v, %d leases lost or outcomes unknown", codes, unknown)
				if unknown > 0 != c.unknown {
					t.Errorf("%d outcomes are unknown: %v", unknown, codes)
				}
				for n, code := range codes {
					if code != http.StatusOK && !c.unknown {
						t.Errorf("request %d: %d", n, code)
					}
				}
			})
		}
	}
}

func sqlOf(t *testing.T, db *sql.DB) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.New(db, sqlstore.Postgres, "pooled_sql")
	if err == nil {
		err = store.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func openSQL(t *testing.T, dsn string, connections int) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(connections)
	t.Cleanup(func() { db.Close() })
	return db
}
