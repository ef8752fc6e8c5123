package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/gabion-go/gabion/idempotency"
)

// A bank is a payment API that fails as planned: each request takes the next fault.
type bank struct {
	http.Handler

	mu       sync.Mutex
	faults   []fault
	requests int
	charged  map[string]int // how often, by order
}

// A fault is what happens to one request. Nil means that nothing does.
type fault func(w http.ResponseWriter, r *http.Request, service http.Handler)

// down answers 503 and does nothing. The client may come back when it likes.
func down(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

// busy asks the client to come back later.
func busy(seconds int) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// silent charges, and the answer is lost.
func silent(w http.ResponseWriter, r *http.Request, service http.Handler) {
	service.ServeHTTP(discarded{header: make(http.Header)}, r)
	panic(http.ErrAbortHandler) // net/http closes the connection
}

// held charges and keeps the answer back until the client is gone.
func held(charged chan<- struct{}) fault {
	return func(_ http.ResponseWriter, r *http.Request, service http.Handler) {
		service.ServeHTTP(discarded{header: make(http.Header)}, r)
		charged <- struct{}{}
		<-r.Context().Done()
	}
}

// newBank returns a bank that remembers its keys, so that it charges once for each.
func newBank(faults ...fault) (*bank, error) {
	b := &bank{faults: faults, charged: make(map[string]int)}
	service, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), http.HandlerFunc(b.charge), idempotency.Config{})
	b.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fails := b.next(); fails != nil {
			fails(w, r, service)
			return
		}
		service.ServeHTTP(w, r)
	})
	return b, err
}

func (b *bank) next() (f fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests++; len(b.faults) > 0 {
		f, b.faults = b.faults[0], b.faults[1:]
	}
	return f
}

// plan says what happens to the next requests, and counts them from zero.
func (b *bank) plan(faults ...fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults, b.requests = faults, 0
}

// counts returns how many requests came, and how often the order was charged.
func (b *bank) counts(order string) (requests, charged int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.charged[order]
}

// charge is the service: POST with an order and cents.
func (b *bank) charge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	order, cents, ok := strings.Cut(string(body), " ")
	if err != nil || !ok || cents == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if strings.HasPrefix(order, "declined") {
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	b.mu.Lock()
	b.charged[order]++
	b.mu.Unlock()
	fmt.Fprintln(w, "charged", cents)
}

// discarded is an answer whose caller has gone.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header         { return d.header }
func (d discarded) Write(p []byte) (int, error) { return len(p), nil }
func (d discarded) WriteHeader(int)             {}
