package pgxstore

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// A body that is too large to be read before the claim: rows for COPY.
const rows = 100 << 10 / 16

var (
	large   = strings.Repeat("0123456789abcde\n", rows)
	altered = "X" + large[1:]
)

func digest() string {
	sum := sha256.Sum256([]byte(large))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// upload sends body with the digest of large.
func (s *shop) upload(key, body string) *httptest.ResponseRecorder {
	r := request(key, body)
	r.Header.Set("Content-Digest", digest())
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

// A counted store counts how often it runs the Handler's work.
type counted struct {
	*Store
	works int
}

func (s *counted) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	return s.Store.Tx(ctx, c, func(ctx context.Context, r idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		s.works++
		return run(ctx, r)
	})
}

// 47: the database wants a transaction repeated. What was read of a large body can't be
// read again, so the client repeats it.
func TestLargeBodyIsNotRepeatedOnceItWasRead(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 8, "default_transaction_isolation", "repeatable read")
	s := newShop(t, pool, open(t, pool, "records"))
	store := &counted{Store: s.store}
	s.h = s.handler(store, 0)
	s.exec("CREATE TABLE accounts (n int); INSERT INTO accounts VALUES (0); CREATE TABLE late (n int)")
	s.exec("CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
	s.exec("CREATE CONSTRAINT TRIGGER again AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION again()")
	update := func(ctx context.Context) error { // another transaction changes the row that this one has seen
		TxFrom(ctx).Exec(ctx, "SELECT n FROM accounts")
		s.exec("UPDATE accounts SET n = n + 1")
		_, err := TxFrom(ctx).Exec(ctx, "UPDATE accounts SET n = n + 1")
		return err
	}
	commit := func(ctx context.Context) error {
		_, err := TxFrom(ctx).Exec(ctx, "INSERT INTO late VALUES (1)")
		return err
	}
	for n, c := range []struct {
		name     string
		read     int // bytes, before the conflict
		conflict func(context.Context) error
		answer   int // of the run that met it
		status   int // of the first request
	}{
		{"after all was read, forgotten", len(large), update, 500, 503},
		{"after all was read, kept", len(large), update, 409, 503},
		{"after all was read, committed", len(large), update, 201, 503},
		{"after all was read, at COMMIT", len(large), commit, 201, 503},
		{"after the beginning was read", 1, update, 500, 503},
		{"before a success, for which the body is read", 0, update, 201, 503},
		{"at COMMIT, for which the body is read", 0, commit, 201, 503},
		{"before it was read", 0, update, 500, 201},
	} {
		s.exec("DELETE FROM effects")
		s.runs.Store(0)
		store.works = 0
		s.work = func(w http.ResponseWriter, r *http.Request) {
			if s.runs.Load() > 1 {
				if body, err := io.ReadAll(r.Body); string(body) != large {
					t.Errorf("%s: the next run read %d bytes, %v", c.name, len(body), err)
				}
				status(201)(w, r)
				return
			}
			if _, err := io.ReadFull(r.Body, make([]byte, c.read)); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if err := c.conflict(r.Context()); err != nil && stateOf(err) != "40001" {
				t.Errorf("%s: %v", c.name, err)
			}
			w.Header().Set("Leak", "yes")
			w.WriteHeader(c.answer)
		}
		key := fmt.Sprint(n)
		first := s.upload(key, large)
		if first.Code != c.status || first.Header().Get("Leak") != "" || replayed(first) {
			t.Errorf("%s: %d %v %s", c.name, first.Code, first.Header(), first.Body)
		}
		if c.status == 503 {
			if !strings.Contains(first.Body.String(), "store-unavailable") || first.Header().Get("Retry-After") == "" {
				t.Errorf("%s: %v %s", c.name, first.Header(), first.Body)
			}
			s.wantRuns(1)
			s.wantEffects(0)
		}
		if store.works != 2 { // the second is refused if the body was read
			t.Errorf("%s: the store ran the work %d times", c.name, store.works)
		}
		for retry, again := range []bool{c.status == 201, true} {
			if w := s.upload(key, large); w.Code != 201 || replayed(w) != again {
				t.Errorf("%s: retry %d: %d %s", c.name, retry, w.Code, w.Body)
			}
		}
		s.wantRuns(2)
		s.wantEffects(1)
	}
}

// What comes of a body that goes on to the database as it comes.
func TestLargeBodyIsCopied(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 8)
	s := newShop(t, pool, open(t, pool, "records"))
	for _, c := range []struct {
		name   string
		body   string // what comes of it
		leaves bool   // the client, or else it sends nothing more
		most   time.Duration
		status int // of the first answer, 0 if the client has left
	}{
		{"whole", large, false, 0, 201},
		{"altered", altered, false, 0, 400},
		{"broken off", large[:len(large)/2], true, 0, 0},
		{"stalled", large[:len(large)/2], false, time.Second, 503},
	} {
		for _, answer := range []int{400, 201} { // to a COPY that failed
			t.Run(fmt.Sprint(c.name, answer), func(t *testing.T) {
				s.exec("DELETE FROM effects")
				copied := make(chan error, 2)
				s.work = func(w http.ResponseWriter, r *http.Request) {
					_, err := TxFrom(r.Context()).Conn().PgConn().CopyFrom(r.Context(), r.Body, "COPY effects FROM STDIN")
					copied <- err
					if err != nil {
						status(answer)(w, r)
						return
					}
					status(201)(w, r)
				}
				server := httptest.NewServer(s.handler(s.store, c.most))
				defer server.Close()
				got := send(t, server, t.Name(), c.body, c.leaves)
				if err := <-copied; (err == nil) != (c.status == 201) {
					t.Errorf("COPY: %v", err)
				}
				server.Close() // waits for its handlers
				if got != c.status {
					t.Errorf("the first got %d", got)
				}
				effects := 0
				if c.status == 201 {
					effects = rows + 1
				}
				s.wantEffects(effects)
				if w := s.upload(t.Name(), large); w.Code != 201 || replayed(w) != (c.status == 201) {
					t.Errorf("the retry got %d %s", w.Code, w.Body)
				}
				s.wantEffects(rows + 1)
			})
		}
	}
}

// send sends a request that says that it is large, and body. It returns the status of
// the answer unless the client leaves before.
func send(t *testing.T, server *httptest.Server, key, body string, leaves bool) int {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: %q\r\nContent-Digest: %s\r\nContent-Length: %d\r\n\r\n%s", key, digest(), len(large), body)
	if leaves {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
