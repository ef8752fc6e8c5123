package idempotency_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/idempotency"
)

// A client that heard no answer asks again with the same key. The card is charged
// once.
func Example() {
	tenant := func(r *http.Request) string { return r.Header.Get("Tenant") } // who was authenticated
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("charging")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "ch_1")
	})
	h, err := idempotency.New(tenant, idempotency.NewMemoryStore(0, 0), charge, idempotency.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, amount := range []string{"12 EUR", "12 EUR", "99 EUR"} {
		r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(amount))
		r.Header.Set("Tenant", "acme")
		r.Header.Set("Idempotency-Key", `"order-77"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(amount, w.Code, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// charging
	// 12 EUR 201 replayed: false
	// 12 EUR 201 replayed: true
	// 99 EUR 422 replayed: false
}

// A large body is read as it comes. One that was altered on its way has no end: the
// handler drops what it read, and the retry is taken.
func Example_streamedBody() {
	var stored []string
	upload := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, err := io.ReadAll(r.Body)
		if err != nil {
			fmt.Println("altered:", errors.Is(err, idempotency.ErrDigest))
			idempotency.NoEffect(r.Context())
			http.Error(w, "the upload failed", http.StatusBadRequest)
			return
		}
		stored = append(stored, string(part))
		w.WriteHeader(http.StatusCreated)
	})
	h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), upload,
		idempotency.Config{MaxRequestBody: 16, MaxStreamedBody: 1 << 30})
	if err != nil {
		fmt.Println(err)
		return
	}
	const body = "a body that is larger than 16 bytes"
	sum := sha256.Sum256([]byte(body))
	for _, sent := range []string{strings.ToUpper(body), body, body} {
		r := httptest.NewRequest(http.MethodPost, "/files", strings.NewReader(sent))
		r.Header.Set("Idempotency-Key", "file-7")
		r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	fmt.Println(len(stored), "stored")
	// Output:
	// altered: true
	// 400 replayed: false
	// 201 replayed: false
	// 201 replayed: true
	// 1 stored
}

// A handler that calls others gives each call a key derived from its request's. A run
// that repeats a lost one asks with the same, and finds what that did.
func ExampleStepKey() {
	ledger := map[string]bool{} // of a payment provider, which honours keys
	lost := true
	charge := func(key string) error {
		ledger[key] = true
		if lost {
			lost = false
			return io.ErrUnexpectedEOF // charged, but the answer is lost
		}
		return nil
	}
	order := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := charge(idempotency.StepKey(r.Context(), "charge")); err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), order, idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("a book"))
		r.Header.Set("Idempotency-Key", "order-77")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, "replayed:", w.Header().Get("Idempotent-Replayed") == "true")
	}
	fmt.Println(len(ledger), "charge")
	// Output:
	// 503 replayed: false
	// 201 replayed: false
	// 201 replayed: true
	// 1 charge
}

// A store asks the record what becomes of a claim, with its own clock's time.
func ExampleRecord_Begin() {
	claim := idempotency.Claim{ID: idempotency.IDOf("acme", "order-77"), Owner: [16]byte{1}, Lease: 30, Retention: 1000}
	var none idempotency.Record
	first, _ := none.Begin(claim, 100)
	claim.Owner = [16]byte{2}
	early, _ := first.Record.Begin(claim, 129)
	late, _ := first.Record.Begin(claim, 130)
	fmt.Println(first.Decision, early.Decision, late.Decision)
	// Output: run in_progress unknown
}

// Two tenants with one key have two records, and stores see neither.
func ExampleIDOf() {
	fmt.Println(idempotency.IDOf("acme", "order-77"), idempotency.IDOf("zeta", "order-77"))
	// Output: ac32b461 8cafc484
}

// A job that is started twice is done once, and its result kept.
func ExampleRunner_Do() {
	r, err := idempotency.NewRunner(idempotency.NewMemoryStore(0, 0), idempotency.RunnerConfig{Guarantee: idempotency.GuaranteeReexecute})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, fingerprint := idempotency.IDOf("invoices", "2026-11"), idempotency.Fingerprint(nil, []byte("November"))
	for range 2 {
		a, err := r.Do(context.Background(), id, fingerprint, func(context.Context) (idempotency.Result, idempotency.Ending) {
			fmt.Println("writing invoices")
			return idempotency.Result{Body: []byte("17 invoices")}, idempotency.EndingSucceeded
		})
		fmt.Println(a.Decision, string(a.Record.Result.Body), err)
	}
	// Output:
	// writing invoices
	// run 17 invoices <nil>
	// replay 17 invoices <nil>
}

// A service sweeps for as long as it lives.
func ExampleSweep() {
	store := idempotency.NewMemoryStore(0, 0)
	ctx, stop := context.WithCancel(context.Background())
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		idempotency.Sweep(ctx, store, idempotency.SweepConfig{Observer: idempotency.LogTo(slog.Default())})
	})
	// ... serve ...
	stop()
	sweeping.Wait() // before the store is closed
}
