package gabionproxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
)

// before returns the URL of an ingress before a program, with keys in memory.
func before(t *testing.T, to, more string) string {
	t.Helper()
	file, err := config.Parse("gabion.yaml", []byte("version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \""+to+"\", "+more+"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	store := idempotency.NewMemoryStore(0, 0)
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{Store: func(string) (idempotency.Store, error) { return store, nil }})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p.Handler(file.Proxy.Listen[0].Address))
	t.Cleanup(s.Close)
	return s.URL
}

const orders = "idempotency: {store: gabion.db, routes: [POST /orders]}"

// order posts one and returns what came.
func order(t *testing.T, url, key, body string) (status int, text string, h http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got), resp.Header
}

// isRefusal checks what a problem of keys or admission says.
func isRefusal(t *testing.T, text, kind, reason, effect string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Reason, Effect string
		Status                              int
		Attempts                            *int
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	if !strings.HasPrefix(p.Type, kind) || reason != "" && p.Reason != reason || p.Effect != effect ||
		p.Title == "" || p.Detail == "" || p.Reason == "" || p.Status < 400 ||
		(p.Attempts != nil) != (effect == "not sent") || p.Attempts != nil && *p.Attempts != 0 {
		t.Errorf("%s, want %s, %s, %s, and what to do", text, kind, reason, effect)
	}
}

func TestAProgramRunsEachKeyOnce(t *testing.T) {
	var runs atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "" && r.URL.Path == "/orders" {
			t.Error("the program does not get the key")
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%d %s", runs.Add(1), body)
		w.(http.Flusher).Flush() // most programs' answers are chunked
		io.WriteString(w, ".")
	}))
	defer program.Close()
	url := before(t, program.URL, orders)
	for _, c := range []struct { // one after the other
		name, path, key, body string
		status                int
		text                  string // of a refusal the reason
	}{
		{"first", "/orders", "k", "a", 201, "1 a."},
		{"replayed", "/orders", "k", "a", 201, "1 a."},
		{"another request", "/orders", "k", "b", 422, "key_reused"},
		{"no key", "/orders", "", "a", 400, "key_missing"},
		{"a slash too many", "/orders/", "", "a", 400, "key_missing"},
		{"another way of writing it", "/./orders", "", "a", 400, "key_missing"},
		{"a letter that is escaped", "/%6frders", "", "a", 400, "key_missing"},
		{"another path takes no keys", "/other", "", "a", 201, "2 a."},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, text, _ := order(t, url+c.path, c.key, c.body)
			if status == c.status && status >= 400 {
				isRefusal(t, text, "urn:gabion:idempotency:", c.text, "not sent")
			} else if status != c.status || text != c.text {
				t.Errorf("%d %q, want %d %q", status, text, c.status, c.text)
			}
		})
	}
}

// A request that found no program had no effect; one that was sent and not answered may have had one.
func TestAProgramThatDies(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var runs atomic.Int64
	url := before(t, "http://"+address, orders)
	status, text, h := order(t, url+"/orders", "never-sent", "a")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "not sent") || h.Get("Retry-After") == "" {
		t.Errorf("without the program: %d %s", status, text)
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Skip("the port was taken by another program:", err)
	}
	program := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		if r.URL.Path == "/orders" && r.Header.Get("Idempotency-Key") != "never-sent" {
			panic(http.ErrAbortHandler)
		}
	})}
	go program.Serve(l)
	defer program.Close()
	if status, text, _ = order(t, url+"/orders", "never-sent", "a"); status != 200 {
		t.Errorf("with the program again: %d %s", status, text)
	}
	runs.Store(0)
	for range 3 {
		if status, text, _ = order(t, url+"/orders", "sent", "a"); status != http.StatusConflict {
			t.Errorf("the program died on it: %d %s", status, text)
		}
		isRefusal(t, text, "urn:gabion:idempotency:outcome-unknown", "outcome_unknown", "may have happened")
	}
	if runs.Load() != 1 {
		t.Errorf("it ran %d times", runs.Load())
	}
}

// net/http sends a request without a body again by itself when it has a key, or is a GET, and its connection
// dies. Before a program that would do the work twice.
func TestNothingIsSentAgainBelow(t *testing.T) {
	var runs atomic.Int64
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			runs.Add(1)
			panic(http.ErrAbortHandler)
		}
	}))
	defer program.Close()
	url := before(t, program.URL, "idempotency: {store: gabion.db, routes: [POST /orders, GET /orders], optional: true}")
	for i, c := range []struct{ method, path, body, wish string }{
		{"POST", "/orders", "", ""},
		{"POST", "/orders", "a", ""},
		{"POST", "/orders", "a", "Expect"},
		{"POST", "/other", "", ""},
		{"POST", "/other", "a", ""},
		{"GET", "/orders", "", ""},
		{"GET", "/orders", "", "Expect"},
		{"GET", "/orders", "", "Upgrade"},
		{"GET", "/orders", "a", ""},
	} {
		t.Run(c.method+" "+c.path+" "+c.body+" "+c.wish, func(t *testing.T) {
			headers := http.Header{"Idempotency-Key": {strconv.Itoa(i)}}
			switch c.wish {
			case "Expect":
				headers.Set(c.wish, "100-continue")
			case "Upgrade":
				headers.Set(c.wish, "websocket")
				headers.Set("Connection", c.wish)
			}
			first, _ := http.NewRequest("GET", url, nil) // so that there is a connection to be used again
			first.Header = headers
			if status, _ := answer(t, first); status != 200 {
				t.Fatal(status)
			}
			runs.Store(0)
			req, _ := http.NewRequest(c.method, url+c.path, strings.NewReader(c.body))
			req.Header = headers
			if status, _ := answer(t, req); runs.Load() != 1 || status < 400 {
				t.Errorf("%d runs, %d", runs.Load(), status)
			}
		})
	}
}

func TestDeadlinesAndAdmissionBeforeAProgram(t *testing.T) {
	busy, free := make(chan bool), make(chan bool)
	var left atomic.Value
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		left.Store(r.Header.Get("X-Request-Deadline-Ms"))
		if r.URL.Path == "/slow" {
			busy <- true
			<-free
		}
	}))
	defer program.Close()
	url := before(t, program.URL, "deadlines: true, admission: {limit: 1, queue: 1}")
	get := func(path, ms string) int {
		req, _ := http.NewRequest(http.MethodGet, url+path, nil)
		if ms != "" {
			req.Header.Set("X-Request-Deadline-Ms", ms)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if status := get("/", "0"); status != http.StatusGatewayTimeout || left.Load() != nil {
		t.Errorf("without time: %d; the program saw %v", status, left.Load())
	}
	if status := get("/", "60000"); status != 200 || left.Load() == "60000" || len(left.Load().(string)) != 5 {
		t.Errorf("with a minute: %d; the program was told %v ms", status, left.Load())
	}
	var wg sync.WaitGroup
	wg.Go(func() { get("/slow", "") })
	<-busy
	if status := get("/", "50"); status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
		t.Errorf("while the only slot is taken: %d", status)
	}
	req, _ := http.NewRequest(http.MethodGet, url, nil)
	req.Header.Set("X-Request-Deadline-Ms", "50")
	_, text := answer(t, req)
	isRefusal(t, text, "urn:gabion:admission:", "", "not sent")
	close(free)
	wg.Wait()
}
