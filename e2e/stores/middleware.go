package stores

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// A Cost is what the Handler adds to a request, with records in memory.
type Cost struct {
	Name        string
	Nanoseconds []float64 // of each round, without the bare handler's
	Allocations float64
}

// The names of costs.
const (
	NewKey  = "new key"
	SameKey = "the same key after it expired: the store does not grow"
	Replay  = "replay"
)

const middlewareRounds = 7

// Middleware measures one goroutine, in rounds: the bare handler and the Handler in turn.
func Middleware(t testing.TB, s Sizes) []Cost {
	costs := []Cost{{Name: NewKey}, {Name: SameKey}, {Name: Replay}}
	for range middlewareRounds {
		bare, bareAllocs := timed(s.Calls, http.HandlerFunc(charge), "k")
		for i := range costs {
			config, key := idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Retention: 50 * time.Millisecond}}, "" // the store forgets as fast as it learns
			switch costs[i].Name {
			case SameKey:
				config.Retention, key = 1, "k"
			case Replay:
				config.Retention, key = time.Hour, "k"
			}
			h, err := idempotency.New(idempotency.Global, idempotency.NewMemoryStore(0, 0), http.HandlerFunc(charge), config)
			if err != nil {
				t.Fatal(err)
			}
			ns, allocs := timed(s.Calls, h, key)
			costs[i].Nanoseconds = append(costs[i].Nanoseconds, ns-bare)
			costs[i].Allocations = allocs - bareAllocs
		}
	}
	return costs
}

// charge is a handler that does nothing.
func charge(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusCreated)
	w.Write([]byte(`{"id":"ch_1","amount":1200}`))
}

// A sink is a ResponseWriter that costs nothing.
type sink http.Header

func (s sink) Header() http.Header       { return http.Header(s) }
func (sink) Write(p []byte) (int, error) { return len(p), nil }
func (sink) WriteHeader(int)             {}

// timed sends requests with the key, or each with its own, and returns nanoseconds and
// allocations of one.
func timed(calls int, h http.Handler, key string) (ns, allocs float64) {
	body := bytes.NewReader([]byte(`{"amount":1200,"currency":"eur","order":"o-77"}`))
	r := httptest.NewRequest(http.MethodPost, "/charges", body)
	r.Header.Set("Content-Type", "application/json")
	keys := make([]string, calls) // made before, so that they are not measured
	for i := range keys {
		if keys[i] = key; key == "" {
			keys[i] = strconv.Itoa(i)
		}
	}
	w, line := sink{}, []string{""}
	r.Header["Idempotency-Key"] = line
	send := func(key string) {
		clear(w)
		body.Seek(0, io.SeekStart)
		line[0] = key
		h.ServeHTTP(w, r)
	}
	for _, key := range keys[:min(1000, calls)/2] {
		send(key)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for _, key := range keys {
		send(key)
	}
	ns = float64(time.Since(start).Nanoseconds()) / float64(calls)
	runtime.ReadMemStats(&after)
	return ns, float64(after.Mallocs-before.Mallocs) / float64(calls)
}

// Least returns the round that was disturbed least.
func (c Cost) Least() float64 { return slices.Min(c.Nanoseconds) }
