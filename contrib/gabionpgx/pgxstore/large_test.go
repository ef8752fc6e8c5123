package pgxstore

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/internal/testshop"
)

// altered is another body of the same size.
var altered = "X" + testshop.Large[1:]

// 47: the database wants a transaction repeated. What was read of a large body can't be
// read again, so the client repeats it.
func TestLargeBodyIsNotRepeatedOnceItWasRead(t *testing.T) {
	gabiontest.NoLeaks(t)
	pool := connect(t, testservers.Postgres(t), 8, "default_transaction_isolation", "repeatable read")
	s := newShop(t, pool, open(t, pool, "records"))
	s.Exec("CREATE TABLE accounts (n int); INSERT INTO accounts VALUES (0); CREATE TABLE late (n int)")
	s.Exec("CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
	s.Exec("CREATE CONSTRAINT TRIGGER again AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION again()")
	update := func(ctx context.Context) error { // another transaction changes the row that this one has seen
		TxFrom(ctx).Exec(ctx, "SELECT n FROM accounts")
		s.Exec("UPDATE accounts SET n = n + 1")
		_, err := TxFrom(ctx).Exec(ctx, "UPDATE accounts SET n = n + 1")
		return err
	}
	commit := func(ctx context.Context) error {
		_, err := TxFrom(ctx).Exec(ctx, "INSERT INTO late VALUES (1)")
		return err
	}
	s.NotRepeated(update, commit)
}

// What comes of a body that goes on to the database as it comes.
func TestLargeBodyIsCopied(t *testing.T) {
	rows := strings.Count(testshop.Large, "\n")
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
		{"whole", testshop.Large, false, 0, 201},
		{"altered", altered, false, 0, 400},
		{"broken off", testshop.Large[:len(testshop.Large)/2], true, 0, 0},
		{"stalled", testshop.Large[:len(testshop.Large)/2], false, time.Second, 503},
	} {
		for _, answer := range []int{400, 201} { // to a COPY that failed
			t.Run(fmt.Sprint(c.name, answer), func(t *testing.T) {
				s.Exec("DELETE FROM effects")
				copied := make(chan error, 2)
				s.Work = func(w http.ResponseWriter, r *http.Request) {
					_, err := TxFrom(r.Context()).Conn().PgConn().CopyFrom(r.Context(), r.Body, "COPY effects FROM STDIN")
					copied <- err
					if err != nil {
						testshop.Status(answer)(w, r)
						return
					}
					testshop.Status(201)(w, r)
				}
				server := httptest.NewServer(s.Handler(s.store, c.most))
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
				s.WantEffects(effects)
				if w := s.Upload(t.Name(), testshop.Large); w.Code != 201 || testshop.Replayed(w) != (c.status == 201) {
					t.Errorf("the retry got %d %s", w.Code, w.Body)
				}
				s.WantEffects(rows + 1)
			})
		}
	}
}

// send sends a request that says that it is testshop.Large, and body. It returns the status of
// the answer unless the client leaves before.
func send(t *testing.T, server *httptest.Server, key, body string, leaves bool) int {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: %q\r\nContent-Digest: %s\r\nContent-Length: %d\r\n\r\n%s", key, testshop.Digest(testshop.Large), len(testshop.Large), body)
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
