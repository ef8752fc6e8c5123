package mysqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
)

// 46: the connection breaks when COMMIT was sent. Only the database can tell the two cases apart, and
// the retry asks it.
func TestAnswersAreLost(t *testing.T) {
	server := testservers.StartMariaDB(t)
	for _, c := range []struct {
		name    string
		fault   testproxy.Fault
		says    string
		replays bool
	}{
		{"COMMIT does not arrive", testproxy.Fault{Requests: testproxy.Break, Match: "COMMIT", Once: true}, "outcome-unknown", false},
		{"the answer to COMMIT is lost", testproxy.Fault{Requests: testproxy.PassBreak, Match: "COMMIT", Once: true}, "outcome-unknown", true},
		{"the record does not arrive", testproxy.Fault{Requests: testproxy.Break, Match: "UPDATE", Once: true}, "store-unavailable", false},
		{"what looks for the savepoint does not arrive", testproxy.Fault{Requests: testproxy.Break, Match: "RELEASE", Once: true}, "store-unavailable", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShop(t, server.DSN)
			p := testproxy.New(t, server.Addr)
			s.db.Close()
			s.db, s.store = open(t, strings.Replace(server.DSN, server.Addr, p.Addr, 1))
			s.H = s.Handler(s.store, 0)
			s.Work = func(w http.ResponseWriter, r *http.Request) {
				p.Set(c.fault)
				testshop.Status(201)(w, r)
			}
			w := s.Post("k", "x")
			if w.Code != 503 || !strings.Contains(w.Body.String(), c.says) || w.Header().Get("Location") != "" {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if n := p.Struck(); n != 1 {
				t.Errorf("%d faults, want 1", n)
			}
			p.Set(testproxy.Fault{})
			s.Work = testshop.Status(201)
			for limit := time.Now().Add(time.Minute); ; { // the server is still committing, or notices by and by that its client has gone
				w = s.Post("k", "x")
				if w.Code != 409 || time.Now().After(limit) {
					break
				}
			}
			if again := s.Runs.Load() == 2; w.Code != 201 || testshop.Replayed(w) != c.replays || again == c.replays {
				t.Errorf("the retry: %d %s, replayed: %v after %d runs", w.Code, w.Body, testshop.Replayed(w), s.Runs.Load())
			}
			s.WantEffects(1)
		})
	}
}

// D: the server is killed again and again while claims are made. What it acknowledged is
// there when it comes back, and what was done is done once.
func TestKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	server := testservers.StartMariaDB(t, "innodb-flush-log-at-trx-commit=1")
	s := newShop(t, server.DSN)
	for round := range 3 {
		s.Exec("DELETE FROM effects")
		var mu sync.Mutex
		acknowledged := map[string]idempotency.State{}
		var all sync.WaitGroup
		ready := make(chan struct{}, 1)
		for n := range 8 {
			all.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%d-%d-%d", round, n, i)
					var err error
					state := idempotency.StateRunning
					if n%2 == 0 {
						_, err = s.store.Begin(t.Context(), hold(key))
					} else {
						state = idempotency.StateDone
						_, err = s.store.Do(t.Context(), claim(key), func(ctx context.Context, _ *sql.Tx) (idempotency.Result, error) {
							return idempotency.Result{Status: 201}, effect(ctx)
						})
					}
					if err != nil {
						return
					}
					mu.Lock()
					acknowledged[key] = state
					enough := len(acknowledged) == 50*(round+1)
					mu.Unlock()
					if enough {
						ready <- struct{}{}
					}
				}
			})
		}
		<-ready
		server.Kill()
		all.Wait()
		server.Restart()
		done := 0
		for key, state := range acknowledged {
			if r, err := s.store.Get(t.Context(), hold(key).ID); err != nil || r.State != state {
				t.Errorf("round %d: %s is %v, want %v: %v", round, key, r.State, state, err)
			}
			if state == idempotency.StateDone {
				done++
			}
		}
		var effects, records int
		if err := s.witness.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&effects); err != nil {
			t.Fatal(err)
		}
		if err := s.witness.QueryRowContext(t.Context(), "SELECT count(*) FROM records WHERE state = 3").Scan(&records); err != nil {
			t.Fatal(err)
		}
		if effects != records || effects < done {
			t.Errorf("round %d: %d effects of %d records, %d were acknowledged", round, effects, records, done)
		}
		s.Exec("DELETE FROM records")
	}
}
