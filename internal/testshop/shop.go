// Package testshop is a service under guarantee tx, in whose database each run of its work makes an effect.
package testshop

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// A Database has the records and the effects: rows of its table effects.
type Database struct {
	Store idempotency.TxStore

	Add    func(context.Context) error         // makes an effect, in the transaction of the work whose context it gets
	Exec   func(context.Context, string) error // runs a statement outside of work
	Count  func(context.Context) (int, error)  // counts the effects, outside of work
	Failed func(context.Context, error)        // tells the store of an error; nil if it sees errors by itself
	Wait   time.Duration                       // for how long a duplicate waits
}

// A Shop is the service in a test.
type Shop struct {
	*testing.T
	DB   Database
	H    http.Handler
	Work http.HandlerFunc // what a run does after its effect
	Runs atomic.Int64
}

// New returns a shop that answers 201.
func New(t *testing.T, db Database) *Shop {
	t.Helper()
	s := &Shop{T: t, DB: db, Work: Status(201)}
	s.H = s.Handler(db.Store, 0)
	return s
}

// quiet keeps the warnings about a server that does not sync out of the log.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

// Handler returns one whose runs may take so long, by default minutes.
func (s *Shop) Handler(store idempotency.TxStore, most time.Duration) http.Handler {
	s.Helper()
	h, err := idempotency.New(idempotency.Global, store, http.HandlerFunc(s.serve), idempotency.Config{
		RunnerConfig:   idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Wait: s.DB.Wait, MaxExecution: most, Observer: quiet{}},
		MaxRequestBody: 1 << 10, MaxStreamedBody: 1 << 20, MaxResponseBody: 1000,
	})
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (s *Shop) serve(w http.ResponseWriter, r *http.Request) {
	s.Runs.Add(1)
	_ = s.DB.Add(r.Context()) // tests count what came of it
	s.Work(w, r)
}

// Exec runs a statement outside of work.
func (s *Shop) Exec(text string) {
	s.Helper()
	if err := s.DB.Exec(context.WithoutCancel(s.Context()), text); err != nil {
		s.Fatalf("%s: %v", text, err)
	}
}

// WantEffects checks how many there are.
func (s *Shop) WantEffects(want int) {
	s.Helper()
	if n, err := s.DB.Count(s.Context()); err != nil || n != want {
		s.Errorf("%d effects, want %d (%v)", n, want, err)
	}
}

// WantRuns checks how many there were.
func (s *Shop) WantRuns(want int64) {
	s.Helper()
	if n := s.Runs.Load(); n != want {
		s.Errorf("%d runs, want %d", n, want)
	}
}

func (s *Shop) request(key, body string) *http.Request {
	r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	return r
}

// Post sends a request.
func (s *Shop) Post(key, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.H.ServeHTTP(w, s.request(key, body))
	return w
}

// Upload sends a body with its digest.
func (s *Shop) Upload(key, body string) *httptest.ResponseRecorder {
	r := s.request(key, body)
	r.Header.Set("Content-Digest", Digest(body))
	w := httptest.NewRecorder()
	s.H.ServeHTTP(w, r)
	return w
}

// Digest is the value of the header that has the digest of a body.
func Digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

// Replayed reports whether the answer was given before.
func Replayed(w *httptest.ResponseRecorder) bool {
	return w.Header().Get("Idempotent-Replayed") == "true"
}

// Status is work that answers so, with a header and a body.
func Status(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/1")
		w.WriteHeader(n)
		_, _ = io.WriteString(w, "body")
	}
}

// tell tells the store of an error where it does not see them.
func (s *Shop) tell(ctx context.Context, err error) {
	if s.DB.Failed != nil {
		s.DB.Failed(ctx, err)
	}
}

// RunsAgain has work that meets a conflict in all of its runs but the last. Whatever it answers then, nothing
// of that is sent or kept.
func (s *Shop) RunsAgain(name string, runs int64, conflict func(context.Context) error) {
	s.Helper()
	for _, answer := range []int{500, 409, 201} { // forgotten, kept, committed
		s.Exec("DELETE FROM effects")
		s.Runs.Store(0)
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			if s.Runs.Load() == runs {
				Status(201)(w, r)
				return
			}
			s.tell(r.Context(), conflict(r.Context()))
			w.Header().Set("Leak", "yes")
			http.Error(w, "leak", answer)
		}
		key := fmt.Sprint(name, answer)
		if w := s.Post(key, "x"); w.Code != 201 || w.Body.String() != "body" || w.Header().Get("Leak") != "" {
			s.Errorf("%s: %d %q %v", key, w.Code, w.Body, w.Header())
		}
		s.WantRuns(runs)
		s.WantEffects(1)
		if w := s.Post(key, "x"); !Replayed(w) || w.Code != 201 {
			s.Errorf("%s, again: %d %q", key, w.Code, w.Body)
		}
	}
}
