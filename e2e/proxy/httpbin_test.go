package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/mccutchen/go-httpbin/v2/httpbin"
	"github.com/rs/zerolog"
)

// toxic is a fault of Toxiproxy's between the proxy and the server, and what clients must see of it.
type toxic struct {
	name string
	json string
	fate fate
	most int  // bytes of a connection that pass, for what is cut
	dies bool // each connection ends with its answer
	fast bool // also with -short
}

type fate uint8

const (
	whole   fate = iota // each answer arrives as the server wrote it, after one request
	lost                // the server acts, and no answer comes
	unheard             // the server gets no whole request
	cut                 // answers that are longer break off
	broken              // requests that are longer break off
)

var toxics = []toxic{
	{name: "none", fate: whole, fast: true},
	{name: "latency", json: `{"type":"latency","attributes":{"latency":30,"jitter":20}}`, fate: whole},
	{name: "bandwidth", json: `{"type":"bandwidth","attributes":{"rate":1000}}`, fate: whole},
	{name: "bandwidth of requests", json: `{"type":"bandwidth","stream":"upstream","attributes":{"rate":1000}}`, fate: whole},
	{name: "slicer", json: `{"type":"slicer","attributes":{"average_size":64,"size_variation":32,"delay":10}}`, fate: whole, fast: true},
	{name: "slicer of requests", json: `{"type":"slicer","stream":"upstream","attributes":{"average_size":7,"size_variation":3,"delay":0}}`, fate: whole},
	{name: "slow_close", json: `{"type":"slow_close","attributes":{"delay":100}}`, fate: whole, dies: true},
	{name: "reset_peer", json: `{"type":"reset_peer","attributes":{"timeout":0}}`, fate: lost, dies: true, fast: true},
	{name: "reset_peer of requests", json: `{"type":"reset_peer","stream":"upstream","attributes":{"timeout":0}}`, fate: unheard, dies: true},
	{name: "timeout", json: `{"type":"timeout","attributes":{"timeout":50}}`, fate: lost, dies: true},
	{name: "timeout that never ends", json: `{"type":"timeout","attributes":{"timeout":0}}`, fate: lost, dies: true},
	{name: "timeout of requests", json: `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`, fate: unheard, dies: true},
	{name: "limit_data in the headers", json: `{"type":"limit_data","attributes":{"bytes":20}}`, fate: lost, dies: true},
	{name: "limit_data in the headers of requests", json: `{"type":"limit_data","stream":"upstream","attributes":{"bytes":40}}`, fate: unheard, dies: true},
	{name: "limit_data in the body", json: `{"type":"limit_data","attributes":{"bytes":2000}}`, fate: cut, most: 2000, dies: true, fast: true},
	{name: "limit_data in the body of requests", json: `{"type":"limit_data","stream":"upstream","attributes":{"bytes":20000}}`, fate: broken, most: 20000, dies: true},
}

// ask is a request, and what go-httpbin says to it.
type ask struct {
	name, method, path string
	body               string
	header             string // one, as in HTTP/1
	status             int
	chunked            bool // the length of the body is not told
	again              bool // it is one that may be repeated
}

var large = strings.Repeat("0123456789abcdef", 4<<10) // 64 KiB, as many as are remembered

var asks = []ask{
	{name: "get", method: "GET", path: "/get?a=b", status: 200, again: true},
	{name: "head", method: "HEAD", path: "/head", status: 200, again: true},
	{name: "bytes", method: "GET", path: "/bytes/60000?seed=1", status: 200, again: true},
	{name: "lines", method: "GET", path: "/stream/20", status: 200, again: true},
	{name: "a stream of bytes", method: "GET", path: "/stream-bytes/30000?seed=1&chunk_size=777", status: 200, again: true},
	{name: "a drip", method: "GET", path: "/drip?numbytes=3000&duration=100ms&delay=0s", status: 200, again: true},
	{name: "events", method: "GET", path: "/sse?count=40&duration=100ms&delay=0s", status: 200, again: true},
	{name: "compressed", method: "GET", path: "/gzip", header: "Accept-Encoding: gzip", status: 200, again: true},
	{name: "a part", method: "GET", path: "/range/30000", header: "Range: bytes=100-25000", status: 206, again: true},
	{name: "not modified", method: "GET", path: "/etag/abc", header: `If-None-Match: "abc"`, status: 304, again: true},
	{name: "moved", method: "GET", path: "/redirect/2", status: 302, again: true},
	{name: "slow", method: "GET", path: "/delay/50ms", status: 200, again: true},
	{name: "not there", method: "GET", path: "/status/404", status: 404, again: true},
	{name: "trailers", method: "GET", path: "/trailers?X-Sum=7&X-End=e", status: 200, again: true},
	{name: "a body", method: "POST", path: "/post", body: "hello", status: 200},
	{name: "a large body", method: "POST", path: "/post", body: large, status: 200},
	{name: "a chunked body", method: "POST", path: "/post", body: large, chunked: true, status: 200},
	{name: "a body with a key", method: "POST", path: "/post", body: "hello", header: "Idempotency-Key: k", status: 200, again: true},
	{name: "put", method: "PUT", path: "/put", body: large, status: 200, again: true},
	{name: "put, chunked", method: "PUT", path: "/put", body: large[1:], chunked: true, status: 200, again: true},
	{name: "patch", method: "PATCH", path: "/patch", body: "hello", status: 200},
	{name: "delete", method: "DELETE", path: "/delete", status: 200, again: true},
	{name: "post to a server that fails", method: "POST", path: "/status/503", body: "hello", status: 503},
}

// go-httpbin behind Toxiproxy. What a client takes for an answer is what the server wrote, all of it; without one the
// client reads so, and that something may have happened. Nothing is sent that may not be repeated.
func TestHTTPBinBehindToxiproxy(t *testing.T) {
	before := len(goroutines())
	for _, x := range toxics {
		if testing.Short() && !x.fast {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			for _, side := range []string{"egress", "egress, HTTP/2", "ingress"} {
				if !testing.Short() || side == "egress" {
					t.Run(side, func(t *testing.T) { x.test(t, side) })
				}
			}
		})
	}
	for limit := time.Now().Add(20 * time.Second); len(goroutines()) > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d goroutines before, and now:\n%s", before, strings.Join(goroutines(), "\n\n"))
		}
	}
}

// goroutines are the stacks of all, but not those of Toxiproxy, which keeps some of each connection that it cuts.
func goroutines() []string {
	stacks := make([]byte, 8<<20)
	all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
	return slices.DeleteFunc(all, func(one string) bool { return strings.Contains(one, "toxiproxy") })
}

func (x *toxic) test(t *testing.T, side string) {
	bin := &bin{next: httpbin.New(), came: map[string][]*arrival{}, most: map[string]int{}, more: make(chan struct{})}
	server := httptest.NewUnstartedServer(bin)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // go-httpbin panics where its client is gone
	server.Start()
	t.Cleanup(server.Close)
	server.Config.SetKeepAlivesEnabled(!x.dies)
	between := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", server.Listener.Addr().String())
	if err := between.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(between.Stop)
	if x.json != "" {
		if _, err := between.Toxics.AddToxicJson(strings.NewReader(x.json)); err != nil {
			t.Fatal(err)
		}
	}
	to, attempt := "http://"+between.Listen, "50s"
	if strings.HasPrefix(x.name, "timeout") {
		attempt = "300ms"
	}
	text := egress(to, "retry: {attempts: 2, backoff: {base: 1ms}, budget: off}, breaker: off, timeout: {call: 100s, attempt: "+attempt+"}")
	if side == "ingress" {
		text = strings.ReplaceAll(ingress(to), "ingress: {", "ingress: {deadlines: true, ")
	}
	p, at := fronted(t, text)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(side != "egress, HTTP/2")
	protocols.SetUnencryptedHTTP2(side == "egress, HTTP/2")
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, Protocols: protocols},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for _, a := range asks {
		all.Go(func() {
			s := a.send(t, client, at, side == "ingress" && attempt != "50s")
			a.check(named{t, a.name}, x, side, s, bin)
		})
	}
	all.Wait()
	for name, most := range bin.most {
		if n := len(bin.of(name, 0)); n > most {
			t.Errorf("%s: the server got %d requests, and %d is the most", name, n, most)
		}
	}
	if s := p.Stats(); s.BodyBytes != 0 || s.Requests != int64(len(asks)) {
		t.Errorf("at the end %+v", s)
	}
}

// named says which request an error is about. All are under way at once.
type named struct {
	*testing.T
	name string
}

// Errorf is the test's.
func (n named) Errorf(format string, args ...any) {
	n.Helper()
	n.T.Errorf("%s: %s", n.name, fmt.Sprintf(format, args...))
}

// seen is what a client saw.
type seen struct {
	resp *http.Response
	body []byte
	err  error // after which there is no answer, or not all of it
}

func (a *ask) send(t *testing.T, client *http.Client, at string, hurried bool) (s seen) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	var body io.Reader
	if body = strings.NewReader(a.body); a.chunked {
		body = struct{ io.Reader }{body}
	}
	req, err := http.NewRequestWithContext(ctx, a.method, "http://"+at+a.path, body)
	if err != nil {
		return seen{err: err}
	}
	req.GetBody = nil
	req.Header.Set("X-Ask", a.name)
	if name, value, ok := strings.Cut(a.header, ": "); ok {
		req.Header.Set(name, value)
	}
	if hurried {
		req.Header.Set("X-Request-Deadline-Ms", "500")
	}
	if s.resp, s.err = client.Do(req); s.err != nil {
		return s
	}
	defer s.resp.Body.Close()
	s.body, s.err = io.ReadAll(s.resp.Body)
	return s
}

// check holds what a client saw against what the server did.
func (a *ask) check(t named, x *toxic, side string, s seen, b *bin) {
	if s.resp == nil {
		t.Errorf("the client got nothing: %v", s.err)
		return
	}
	want, attempts := 1, 1
	refused := x.fate == lost || x.fate == unheard || x.fate == broken && len(a.body) > x.most
	if a.again && side != "ingress" && (refused || a.status == http.StatusServiceUnavailable) {
		want, attempts = 2, 2
	}
	if x.fate == unheard {
		want = 0
	}
	came := b.of(a.name, want)
	if len(came) != want {
		t.Errorf("the server got %d requests, want %d", len(came), want)
	}
	if n := s.resp.Header.Get("Gabion-Attempts"); side != "ingress" && n != strconv.Itoa(attempts) {
		t.Errorf("the answer says %s attempts, and there were %d", n, attempts)
	}
	switch {
	case refused:
		a.refused(t, s)
	case len(came) > 0:
		came[len(came)-1].check(t, a, x, s)
	}
}

// refused checks what a client reads that gets no answer.
func (a *ask) refused(t named, s seen) {
	t.Helper()
	var told struct{ Reason, Effect string }
	err := json.Unmarshal(s.body, &told)
	if a.method == "HEAD" {
		told.Reason, told.Effect, err = s.resp.Header.Get("Gabion-Reason"), "may have happened", nil
	}
	if s.err != nil || err != nil || s.resp.StatusCode < 502 || s.resp.StatusCode > 504 || s.resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s, %v: want a refusal", s.resp.StatusCode, s.body, s.err)
	}
	if told.Effect != "may have happened" || told.Reason == "" {
		t.Errorf("the client reads %+v", told)
	}
}

// bin is go-httpbin with a witness.
type bin struct {
	next http.Handler
	mu   sync.Mutex // guards what follows
	came map[string][]*arrival
	most map[string]int // of what may come
	more chan struct{}  // closed when another has come
}

// arrival is a request that came, and what was written for it.
type arrival struct {
	http.ResponseWriter
	body   bytes.Buffer
	wrote  bytes.Buffer
	ended  chan struct{}
	status int
}

func (b *bin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &arrival{ResponseWriter: w, ended: make(chan struct{}), status: http.StatusOK}
	defer close(a.ended)
	b.mu.Lock()
	name := r.Header.Get("X-Ask")
	b.came[name] = append(b.came[name], a)
	close(b.more)
	b.more = make(chan struct{})
	b.mu.Unlock()
	r.Body = io.NopCloser(io.TeeReader(r.Body, &a.body))
	b.next.ServeHTTP(a, r)
	_, _ = io.Copy(io.Discard, r.Body)
}

// of waits for as many requests as are wanted of a name, since an answer to the client may be faster than they are, and returns those that came.
func (b *bin) of(name string, want int) []*arrival {
	for late := time.After(20 * time.Second); ; {
		b.mu.Lock()
		b.most[name] = max(b.most[name], want)
		all, more := b.came[name], b.more
		b.mu.Unlock()
		if len(all) >= want {
			return all
		}
		select {
		case <-more:
		case <-late:
			return all
		}
	}
}

func (a *arrival) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *arrival) Write(p []byte) (int, error) {
	a.wrote.Write(p)
	return a.ResponseWriter.Write(p)
}

func (a *arrival) Flush() { a.ResponseWriter.(http.Flusher).Flush() }

// check compares an answer with what was written.
func (a *arrival) check(t named, asked *ask, x *toxic, s seen) {
	if s.resp.StatusCode != asked.status {
		t.Errorf("%d, want %d", s.resp.StatusCode, asked.status)
	}
	<-a.ended
	want := a.wrote.Bytes()
	if asked.method == "HEAD" || asked.status == http.StatusNotModified {
		want = nil
	}
	if s.err != nil {
		if x.fate != cut || len(want) < x.most-1000 || !bytes.HasPrefix(want, s.body) { // the server may have given up, too
			t.Errorf("%d bytes of %d, and then %v", len(s.body), len(want), s.err)
		}
		return
	}
	if x.fate == cut && len(want) > x.most {
		t.Errorf("%d bytes of %d look like the whole", len(s.body), len(want))
	}
	if !bytes.Equal(s.body, want) || a.body.String() != asked.body || a.status != asked.status {
		t.Errorf("%d bytes, want %d; the server got %d of %d, and said %d", len(s.body), len(want), a.body.Len(), len(asked.body), a.status)
	}
	if asked.name == "trailers" && !maps.EqualFunc(s.resp.Trailer, http.Header{"X-Sum": {"7"}, "X-End": {"e"}}, func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("trailers %v", s.resp.Trailer)
	}
	if at := s.resp.Header.Get("Location"); (asked.status == http.StatusFound) != (at == "/relative-redirect/1") {
		t.Errorf("the next place is %q", at)
	}
}
