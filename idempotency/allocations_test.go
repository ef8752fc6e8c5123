package idempotency

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A sink is a ResponseWriter that costs nothing, so that the middleware's own cost
// is what is measured.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(int)             {}

var created = []byte(`{"id":"ch_1","amount":1200}`)

func charge(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(http.StatusCreated)
	w.Write(created)
}

// A client sends the same request again and again without building it anew.
type client struct {
	w    sink
	r    *http.Request
	body *bytes.Reader
	key  []string
}

func newClient() *client {
	c := &client{w: sink{http.Header{}}, body: bytes.NewReader([]byte(`{"amount":1200,"currency":"eur","order":"o-77"}`)), key: []string{""}}
	c.r = httptest.NewRequest(http.MethodPost, "/charges", c.body)
	c.r.Header.Set("Content-Type", "application/json")
	c.r.Header[headerKey] = c.key
	return c
}

func (c *client) send(h http.Handler, key string) {
	clear(c.w.h)
	c.body.Seek(0, io.SeekStart)
	c.key[0] = key
	h.ServeHTTP(&c.w, c.r)
}

func benchHandler(b testing.TB, config Config) *Handler {
	h, err := New(Global, NewMemoryStore(1<<30, 1<<40), http.HandlerFunc(charge), config)
	if err != nil {
		b.Fatal(err)
	}
	return h
}

func TestAllocations(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates")
	}
	h, c := benchHandler(t, Config{RunnerConfig: RunnerConfig{Retention: 1}}), newClient()
	fresh := testing.AllocsPerRun(200, func() { c.send(h, "k") })
	h = benchHandler(t, Config{})
	c.send(h, "k")
	replay := testing.AllocsPerRun(200, func() { c.send(h, "k") })
	bare := testing.AllocsPerRun(200, func() { c.send(http.HandlerFunc(charge), "k") })
	t.Logf("new key %v, replay %v, without %v", fresh, replay, bare)
	if fresh-bare > 25 {
		t.Errorf("a new key costs %v allocations", fresh-bare)
	}
	if replay > 10 {
		t.Errorf("a replay costs %v allocations", replay)
	}
}
