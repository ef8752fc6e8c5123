package idempotency

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A rig is a Handler around work that counts its runs.
type rig struct {
	*testing.T
	h     *Handler
	store *faulty
	runs  atomic.Int64
	work  http.HandlerFunc
	seen  observed
	wire  *wire // nil: the Handler is called
}

type observed struct {
	mu  sync.Mutex
	all []Event
}

func (n *observed) Observe(_ context.Context, one Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, one)
}

func (n *observed) count(s EventKind) (c int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.all {
		if one.Kind == s {
			c++
		}
	}
	return c
}

var errDown = errors.New("the store is down")

// A faulty store fails when told to.
type faulty struct {
	Store
	begin, apply atomic.Pointer[error]
	begun        atomic.Int64
	maxValue     int
}

func (s *faulty) Begin(ctx context.Context, c Claim) (Answer, error) {
	s.begun.Add(1)
	if err := s.begin.Load(); err != nil {
		return Answer{}, *err
	}
	return s.Store.Begin(ctx, c)
}

func (s *faulty) Apply(ctx context.Context, r Ref, c Change) error {
	if err := s.apply.Load(); err != nil {
		return *err
	}
	if s.maxValue > 0 && len(c.Result.Body) > s.maxValue {
		return ErrTooLarge
	}
	return s.Store.Apply(ctx, r, c)
}

func (s *faulty) fail(what *atomic.Pointer[error], err error) {
	if err == nil {
		what.Store(nil)
		return
	}
	what.Store(&err)
}

func newRig(t *testing.T, config Config, work http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{T: t, store: &faulty{Store: NewMemoryStore(0, 0)}, work: work}
	config.Observer = &r.seen
	h, err := New(tenant, r.store, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.runs.Add(1)
		r.work(w, req)
	}), config)
	if err != nil {
		t.Fatal(err)
	}
	r.h = h
	return r
}

func tenant(r *http.Request) string { return "t/" + r.Header.Get("Tenant") }

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// post makes a request; further strings are pairs of header names and values.
func post(key, body string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/charges?a=1", strings.NewReader(body))
	if key != "" {
		r.Header.Set(headerKey, key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// over makes send take a wire.
func (r *rig) over(protocol string) *rig {
	r.Helper()
	if protocol != "" {
		r.wire = serveOver(r.T, protocol, r.h)
	}
	return r
}

func (r *rig) send(req *http.Request) *httptest.ResponseRecorder {
	if r.wire != nil {
		r.Helper()
		return r.wire.do(r.wire.request(req))
	}
	w := httptest.NewRecorder()
	r.h.ServeHTTP(w, req)
	return w
}

// wantRuns checks how often the work ran.
func (r *rig) wantRuns(n int64) {
	r.Helper()
	if got := r.runs.Load(); got != n {
		r.Errorf("the work ran %d times, want %d", got, n)
	}
}

// wantProblem checks a refusal.
func (r *rig) wantProblem(w *httptest.ResponseRecorder, status int, p Problem) {
	r.Helper()
	body := w.Body.String()
	if w.Code != status || !strings.Contains(body, `"`+problemType+string(p)+`"`) {
		r.Errorf("answer: %d %s, want %d %s", w.Code, body, status, p)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		r.Errorf("content type %q", got)
	}
	if links := w.Header()["Link"]; !slices.ContainsFunc(links, func(l string) bool { return strings.HasSuffix(l, "#"+string(p)+`>; rel="describedby"`) }) {
		r.Errorf("links: %q", links)
	}
	later := p == problemInProgress || p == problemStoreUnavailable || p == problemUnknown && status == 503
	if got := w.Header().Get("Retry-After") != ""; got != later {
		r.Errorf("%s: Retry-After is there: %v", p, got)
	}
}

// wantReplay checks that a response repeats another.
func (r *rig) wantReplay(first, second *httptest.ResponseRecorder) {
	r.Helper()
	if second.Header().Get(headerReplayed) != "true" || first.Header().Get(headerReplayed) != "" {
		r.Errorf("replay headers: %q, then %q", first.Header(), second.Header())
	}
	if first.Code != second.Code || first.Body.String() != second.Body.String() {
		r.Errorf("first %d %q, second %d %q", first.Code, first.Body, second.Code, second.Body)
	}
}

func (r *rig) record(key string) Record {
	r.Helper()
	got, err := r.store.Get(r.Context(), IDOf("t/", key))
	if err != nil {
		r.Fatal(err)
	}
	return got
}
