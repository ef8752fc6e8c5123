package idempotencytest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// Effects are what work does to the database of a store, for RunTx to count. No field
// may be nil.
type Effects struct {
	Store idempotency.TxStore

	// Add makes one, in the transaction of the work whose context it gets.
	Add func(context.Context) error

	// Count returns how many are committed, also if Add made them in another test.
	Count func(context.Context) (int, error)
}

// RunTx checks what a store does in transactions, which [Run] does not: behind a Handler
// with guarantee Tx, effects come and go together with the record. open returns effects
// that may be shared with earlier tests.
func RunTx(t *testing.T, open func(testing.TB) Effects) {
	for _, c := range txCases {
		t.Run(c.name, func(t *testing.T) { c.run(newTxBench(t, open(t))) })
	}
}

var txCases = []struct {
	name string
	run  func(*txBench)
}{
	{"24 what a response means for effects and record", responses},
	{"26 a panic rolls back", panics},
	{"work that is left has no effect, then or later", abandons},
	{"48 nothing is seen before COMMIT", heldBack},
	{"3 concurrent duplicates have one effect", duplicates},
	{"a claim without a retention is refused", forgotten},
	{"only a verified body has an effect", largeBodies},
	{"concurrent duplicates with large bodies have one effect", largeDuplicates},
}

// A txBench is a test with a Handler whose work has one effect, and answers.
type txBench struct {
	testing.TB
	effects Effects
	before  int // effects of earlier tests
	handler http.Handler
	work    http.HandlerFunc // answers
	runs    atomic.Int64
}

// quiet keeps the store's warnings out of the log.
type quiet struct{}

func (quiet) Observe(context.Context, idempotency.Event) {}

func newTxBench(t testing.TB, e Effects) *txBench {
	t.Helper()
	b := &txBench{TB: t, effects: e}
	b.before = b.count()
	own := fmt.Sprint(t.Name(), time.Now().UnixNano())
	var err error
	b.handler, err = idempotency.New(func(*http.Request) string { return own }, e.Store, http.HandlerFunc(b.serve),
		idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeTx, Wait: 20 * time.Second, Observer: quiet{}}, MaxRequestBody: maxRead, MaxStreamedBody: maxStreamed, MaxResponseBody: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *txBench) serve(w http.ResponseWriter, r *http.Request) {
	b.runs.Add(1)
	if err := b.effects.Add(r.Context()); err != nil {
		b.Errorf("no effect: %v", err)
	}
	b.work(w, r)
}

func (b *txBench) count() int {
	b.Helper()
	n, err := b.effects.Count(context.Background())
	if err != nil {
		b.Fatalf("count: %v", err)
	}
	return n - b.before
}

func (b *txBench) want(effects, runs int) {
	b.Helper()
	if n := b.count(); n != effects {
		b.Errorf("%d effects, want %d", n, effects)
	}
	if n := int(b.runs.Load()); n != runs {
		b.Errorf("%d runs, want %d", n, runs)
	}
}

func request(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	return r
}

func (b *txBench) post(key, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, request(key, body))
	return w
}

func status(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(n)
		io.WriteString(w, "body")
	}
}

func responses(b *txBench) {
	for n, c := range []struct {
		name          string
		work          http.HandlerFunc
		status        int // of the first request
		effects, runs int // after two requests
		again         int // status of the second request
	}{
		{"2xx commits", status(201), 201, 1, 1, 201},
		{"500 rolls back and runs again", status(500), 500, 0, 2, 500},
		{"429 rolls back and runs again", status(429), 429, 0, 2, 429},
		{"4xx rolls back and is kept", status(422), 422, 0, 1, 422},
		{"4xx commits when asked", func(w http.ResponseWriter, r *http.Request) {
			idempotency.CommitError(r.Context())
			status(402)(w, r)
		}, 402, 1, 1, 402},
		{"a body that is not kept commits", writes(5), 200, 1, 1, 409},
		{"a body beyond all bounds rolls back", writes(20), 500, 0, 2, 500},
	} {
		b.work, b.before = c.work, b.before+b.count()
		b.runs.Store(0)
		key := fmt.Sprint(n)
		first, second := b.post(key, "x"), b.post(key, "x")
		if first.Code != c.status || second.Code != c.again {
			b.Errorf("%s: %d, then %d: %s", c.name, first.Code, second.Code, second.Body)
		}
		replayed := second.Header().Get("Idempotent-Replayed") == "true"
		if replayed != (c.runs == 1 && c.again == c.status) {
			b.Errorf("%s: replayed: %v", c.name, replayed)
		}
		b.want(c.effects, c.runs)
		if got := b.post(key, "other").Code; c.effects == 1 && got != 422 { // 6
			b.Errorf("%s: another request got %d", c.name, got)
		}
	}
}

// writes answers with n kilobytes.
func writes(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for range n {
			io.WriteString(w, strings.Repeat("x", 1000))
		}
	}
}

// abandons leaves work that goes on in its transaction while the store ends it, and after that.
func abandons(b *txBench) {
	b.Helper()
	claim := idempotency.Claim{ID: idempotency.IDOf(fmt.Sprint("left", time.Now().UnixNano()), "1"), Lease: time.Minute, Retention: time.Hour, Guarantee: idempotency.GuaranteeTx}
	ended := make(chan struct{})
	var working sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := b.effects.Store.Tx(ctx, claim, func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		err := b.effects.Add(ctx)
		working.Go(func() {
			for range 20 { // some of it beside the store's own last words
				_ = b.effects.Add(ctx)
			}
			<-ended
			_ = b.effects.Add(ctx)
		})
		return idempotency.Result{}, idempotency.EndingAbandoned, err
	})
	if err != nil {
		b.Errorf("the run that was left: %v", err)
	}
	close(ended)
	working.Wait()
	if n := b.count(); n != 0 {
		b.Errorf("%d effects of work that was left", n)
	}
	a, err := b.effects.Store.Tx(ctx, claim, func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		return idempotency.Result{}, idempotency.EndingSucceeded, b.effects.Add(ctx)
	})
	if err != nil || a.Decision != idempotency.DecisionRun {
		b.Errorf("the next run: %v, %v", a.Decision, err)
	}
	if n := b.count(); n != 1 {
		b.Errorf("%d effects of the next run", n)
	}
}

func panics(b *txBench) {
	b.work = func(http.ResponseWriter, *http.Request) { panic("boom") }
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				b.Errorf("panic %v", p)
			}
		}()
		b.post("k", "x")
	}()
	b.want(0, 1)
	b.work = status(200)
	if got := b.post("k", "x").Code; got != 200 {
		b.Errorf("%d", got)
	}
	b.want(1, 2)
}

func heldBack(b *txBench) {
	w := &late{ResponseRecorder: httptest.NewRecorder(), leaves: func() { b.want(1, 1) }}
	b.work = func(inner http.ResponseWriter, r *http.Request) {
		status(201)(inner, r)
		inner.(http.Flusher).Flush()
		if w.left {
			b.Errorf("the response left before COMMIT")
		}
	}
	b.handler.ServeHTTP(w, request("k", "x"))
	if !w.left || w.Code != 201 || w.Body.String() != "body" {
		b.Errorf("%d %q", w.Code, w.Body)
	}
}

// A late response calls leaves before its first byte.
type late struct {
	*httptest.ResponseRecorder
	left   bool
	leaves func()
}

func (w *late) WriteHeader(status int) {
	w.left = true
	w.leaves()
	w.ResponseRecorder.WriteHeader(status)
}

func duplicates(b *txBench) {
	b.work = status(201)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if w := b.post("k", "x"); w.Code != 201 || w.Body.String() != "body" {
				b.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	b.want(1, 1)
}

// forgotten claims a key whose record would expire as it is written, so that the work would run at each call.
func forgotten(b *txBench) {
	claim := idempotency.Claim{ID: idempotency.IDOf(fmt.Sprint("forgotten", time.Now().UnixNano()), "1"), Guarantee: idempotency.GuaranteeTx}
	a, err := b.effects.Store.Tx(context.Background(), claim, func(ctx context.Context, _ idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		b.runs.Add(1)
		return idempotency.Result{}, idempotency.EndingSucceeded, b.effects.Add(ctx)
	})
	if err == nil {
		b.Errorf("%v, and no error", a.Decision)
	}
	b.want(0, 0)
}
