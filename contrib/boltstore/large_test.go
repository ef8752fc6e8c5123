package boltstore

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gabion-go/gabion/idempotency"
)

// What the file says, also to the next process, of a key whose large body was not what
// its digest says: never that it was a success.
func TestUnverifiedBodyIsNoSuccess(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 100<<10/16)
	sum := sha256.Sum256([]byte(large))
	bodies := map[string]func() io.Reader{
		"altered": func() io.Reader { return strings.NewReader("X" + large[1:]) },
		"broken off": func() io.Reader {
			return io.MultiReader(strings.NewReader(large[:len(large)/2]), iotest.ErrReader(io.ErrUnexpectedEOF))
		},
	}
	const held, retryable = idempotency.GuaranteeHold, idempotency.StateRetryable
	for _, c := range []struct {
		guarantee      idempotency.Guarantee
		noEffect       bool
		answer         int // to a body that is not whole; whole ones get 201
		state          idempotency.State
		status         int // of the first request
		retried, again int // status of an honest retry by the next process, and runs
	}{
		{held, false, 201, idempotency.StateUnknown, 409, 409, 1},
		{held, false, 400, idempotency.StateDone, 400, 400, 1},
		{held, true, 201, retryable, 400, 201, 2},
		{held, true, 400, retryable, 400, 201, 2},
		{idempotency.GuaranteeReexecute, false, 201, retryable, 400, 201, 2},
		{idempotency.GuaranteeReexecute, false, 400, retryable, 400, 201, 2},
	} {
		for name, body := range bodies {
			t.Run(fmt.Sprint(name, c.guarantee, c.noEffect, c.answer), func(t *testing.T) {
				file, runs := newFile(t), 0
				work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					runs++
					if _, err := io.Copy(io.Discard, r.Body); err == nil {
						w.WriteHeader(201)
						return
					}
					if c.noEffect {
						idempotency.NoEffect(r.Context())
					}
					w.WriteHeader(c.answer)
				})
				upload := func(s *Store, body io.Reader) int {
					h, err := idempotency.New(idempotency.Global, s, work, idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: c.guarantee}, MaxRequestBody: 1 << 10, MaxStreamedBody: 1 << 20})
					if err != nil {
						t.Fatal(err)
					}
					r := httptest.NewRequest(http.MethodPost, "/", body)
					r.Header.Set("Idempotency-Key", "k")
					r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					return w.Code
				}
				first := openStore(t, file)
				if got := upload(first, body()); got != c.status {
					t.Errorf("the first got %d, want %d", got, c.status)
				}
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				second := openStore(t, file)
				r := get(t, second, idempotency.Claim{ID: idempotency.IDOf("*", "k")})
				if r.State != c.state || r.State == idempotency.StateDone && r.Result.Status < 400 {
					t.Errorf("the record is %v with %d, want %v", r.State, r.Result.Status, c.state)
				}
				if got := upload(second, strings.NewReader(large)); got != c.retried || runs != c.again {
					t.Errorf("the retry got %d, want %d; %d runs, want %d", got, c.retried, runs, c.again)
				}
			})
		}
	}
}
