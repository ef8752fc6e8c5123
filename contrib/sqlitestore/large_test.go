package sqlitestore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/idempotency/sqlstore"
	"github.com/gabion-go/gabion/internal/testservers"
)

// large is a body that is too large to be read before the claim.
var large = strings.Repeat("0123456789abcdef", 100<<10/16)

func (s *shop) upload(key string) *httptest.ResponseRecorder {
	sum := sha256.Sum256([]byte(large))
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(large))
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w
}

// 47: what was read of a large body can't be read again, so a transaction that the
// database wants repeated is the client's to repeat.
func TestLargeBodyIsNotRepeatedOnceItWasRead(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		db, store := openSQLite(t)
		notRepeated(newShop(t, db, store), func(context.Context) error { return serialization{errors.New("again")} }, nil)
	})
	t.Run("postgres", func(t *testing.T) {
		db, store := openPostgres(t, testservers.Postgres(t, "default_transaction_isolation=repeatable read"))
		s := newShop(t, db, store)
		s.exec("CREATE TABLE accounts (n integer)")
		s.exec("INSERT INTO accounts VALUES (0)")
		s.exec("CREATE TABLE late (n integer)")
		s.exec("CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
		s.exec("CREATE CONSTRAINT TRIGGER again AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION again()")
		notRepeated(s, func(ctx context.Context) error { // another transaction changes the row that this one has seen
			sqlstore.TxFrom(ctx).ExecContext(ctx, "SELECT n FROM accounts")
			s.exec("UPDATE accounts SET n = n + 1")
			_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "UPDATE accounts SET n = n + 1")
			return err
		}, func(ctx context.Context) error {
			_, err := sqlstore.TxFrom(ctx).ExecContext(ctx, "INSERT INTO late VALUES (1)")
			return err
		})
	})
}

// notRepeated has work that meets a conflict at a statement, or at COMMIT if that can be.
func notRepeated(s *shop, statement, commit func(context.Context) error) {
	for n, c := range []struct {
		name     string
		read     int // bytes, before the conflict
		conflict func(context.Context) error
		answer   int // of the run that met it
		status   int // of the first request; a 503 is the Handler's
	}{
		{"after all was read, forgotten", len(large), statement, 500, 503},
		{"after all was read, kept", len(large), statement, 409, 503},
		{"after the beginning was read", 1, statement, 500, 503},
		{"before it was read", 0, statement, 500, 201},
		{"at COMMIT", len(large), commit, 201, 503},
		{"at COMMIT, for which the body is read", 0, commit, 201, 503},
	} {
		if c.conflict == nil {
			continue
		}
		s.exec("DELETE FROM effects")
		s.runs = 0
		s.work = func(w http.ResponseWriter, r *http.Request) {
			if s.runs > 1 {
				if body, err := io.ReadAll(r.Body); string(body) != large {
					s.Errorf("%s: the next run read %d bytes, %v", c.name, len(body), err)
				}
				status(201)(w, r)
				return
			}
			if _, err := io.ReadFull(r.Body, make([]byte, c.read)); err != nil {
				s.Errorf("%s: %v", c.name, err)
			}
			sqlstore.Failed(r.Context(), c.conflict(r.Context()))
			w.Header().Set("Leak", "yes")
			w.WriteHeader(c.answer)
		}
		key := fmt.Sprint(n)
		first := s.upload(key)
		if first.Code != c.status || first.Header().Get("Leak") != "" {
			s.Errorf("%s: %d %v %s", c.name, first.Code, first.Header(), first.Body)
		}
		if c.status == 503 {
			if !strings.Contains(first.Body.String(), "store-unavailable") || first.Header().Get("Retry-After") == "" || s.runs != 1 {
				s.Errorf("%s: %d runs: %v %s", c.name, s.runs, first.Header(), first.Body)
			}
			s.wantEffects(0)
		}
		for retry, again := range []bool{c.status == 201, true} {
			w := s.upload(key)
			if replayed := w.Header().Get("Idempotent-Replayed") == "true"; w.Code != 201 || replayed != again {
				s.Errorf("%s: retry %d: %d %s", c.name, retry, w.Code, w.Body)
			}
		}
		if s.runs != 2 {
			s.Errorf("%s: %d runs", c.name, s.runs)
		}
		s.wantEffects(1)
	}
}
