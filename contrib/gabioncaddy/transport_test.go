package gabioncaddy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/gabionproxy"
)

// failing answers the first requests with a status, and what it got after that.
func failing(first int32, status int, seen *atomic.Int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if seen.Add(1) <= first {
			w.WriteHeader(status)
			io.WriteString(w, "the server's own words")
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, body)
	}
}

func TestRequestsFollowThePolicy(t *testing.T) {
	large := strings.Repeat("x", 100<<10)
	for _, c := range []struct {
		fact, method, body, key   string
		failures                  int32
		status, requests          int
		attempts, reason, theBody string
	}{
		{"a 503 of a GET is repeated", "GET", "", "", 1, 200, 2, "2", "", "GET /v1 "},
		{"a POST is not", "POST", "order", "", 1, 503, 1, "1", "not_safe", "the server's own words"},
		{"a POST with a key is, with its body", "POST", "order", "k1", 2, 200, 3, "3", "", "POST /v1 order"},
		{"a PUT is, with its body", "PUT", "order", "", 1, 200, 2, "2", "", "PUT /v1 order"},
		{"attempts have an end, and the server's answer is kept", "GET", "", "", 9, 503, 3, "3", "attempts_exhausted", "the server's own words"},
		{"a body over the limit is sent once", "PUT", large, "", 1, 503, 1, "1", "body_not_rewindable", "the server's own words"},
		{"a body over the limit arrives", "PUT", large, "", 0, 200, 1, "1", "", "PUT /v1 " + large},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var seen atomic.Int32
			to := server(t, failing(c.failures, 503, &seen))
			s := newSite(t, policies)
			s.mustLoad("reverse_proxy " + to + " {\nUSE\n}")
			var headers []string
			if c.key != "" {
				headers = []string{"Idempotency-Key", c.key}
			}
			resp, body := s.ask(c.method, "/v1", c.body, headers...)
			if resp.StatusCode != c.status || body != c.theBody {
				t.Errorf("got %d %.80q, want %d %.80q", resp.StatusCode, body, c.status, c.theBody)
			}
			if got := int(seen.Load()); got != c.requests {
				t.Errorf("the server got %d requests, want %d", got, c.requests)
			}
			if got := resp.Header.Get(gabionproxy.HeaderAttempts); got != c.attempts {
				t.Errorf("attempts %q, want %q", got, c.attempts)
			}
			if got := resp.Header.Get(gabionproxy.HeaderReason); got != c.reason {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
		})
	}
}

// broken opens a breaker with one failure.
const broken = `version: 1
dependencies:
  api:
    preset: external-api
    retry: {attempts: 1}
    breaker: {min_calls: 1, failure_rate: 10%, open: 1h}
`

// problemOf reads a refusal.
func problemOf(t *testing.T, resp *http.Response, body string) (reason, effect string) {
	t.Helper()
	var p struct{ Reason, Effect string }
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the refusal is %q", got)
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Errorf("%q: %v", body, err)
	}
	return p.Reason, p.Effect
}

func TestARefusalIsNotCaddysOwnErrorPage(t *testing.T) {
	var seen atomic.Int32
	to := server(t, failing(9, 500, &seen))
	s := newSite(t, broken)
	site := "reverse_proxy " + to + " {\nUSE\n}\nhandle_errors {\nrespond \"an error page\"\n}"
	s.mustLoad(site)
	s.ask("GET", "/", "")
	resp, body := s.ask("GET", "/", "")
	reason, effect := problemOf(t, resp, body)
	if resp.StatusCode != 503 || reason != "breaker_open" || effect != "not sent" || resp.Header.Get(gabionproxy.HeaderAttempts) != "0" {
		t.Errorf("got %d %s, headers %v", resp.StatusCode, body, resp.Header)
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("the server got %d requests, want 1", n)
	}
	if resp, body := s.ask("HEAD", "/", ""); resp.StatusCode != 503 || body != "" {
		t.Errorf("HEAD got %d %q", resp.StatusCode, body)
	}
}

func TestAReloadKeepsTheBreakerOpen(t *testing.T) {
	var seen atomic.Int32
	to := server(t, failing(9, 500, &seen))
	s := newSite(t, broken)
	site := "reverse_proxy /a " + to + " {\nUSE\n}\nreverse_proxy /b " + to + " {\nUSE\n}"
	s.mustLoad(site)
	s.ask("GET", "/a", "")
	for range 2 {
		s.mustLoad(site)
		for _, path := range []string{"/a", "/b"} {
			if resp, _ := s.ask("GET", path, ""); resp.Header.Get(gabionproxy.HeaderReason) != "breaker_open" {
				t.Errorf("%s: got %d, headers %v", path, resp.StatusCode, resp.Header)
			}
		}
	}
	if n, _ := groups.References(s.file); n != 2 {
		t.Errorf("%d transports use the file, want 2", n)
	}
}

func TestAFailureAfterAReloadCountsForIt(t *testing.T) {
	var s *site
	var site string
	reload := sync.OnceValue(func() error { return s.load(site) })
	to := server(t, func(w http.ResponseWriter, r *http.Request) {
		if err := reload(); err != nil { // while the request is under way by the configuration before
			t.Error(err)
		}
		w.WriteHeader(500)
	})
	s = newSite(t, broken)
	site = "reverse_proxy " + to + " {\nUSE\n}"
	s.mustLoad(site)
	if resp, body := s.ask("GET", "/", ""); resp.StatusCode != 500 || resp.Header.Get(gabionproxy.HeaderAttempts) != "1" {
		t.Errorf("during the reload: got %d %q, headers %v", resp.StatusCode, body, resp.Header)
	}
	if resp, body := s.ask("GET", "/", ""); resp.Header.Get(gabionproxy.HeaderReason) != "breaker_open" {
		t.Errorf("after it: got %d %q, headers %v", resp.StatusCode, body, resp.Header)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	s := newSite(t, policies)
	s.mustLoad("reverse_proxy http://" + freePort(t) + " {\nUSE\n}")
	resp, body := s.ask("POST", "/", "order")
	if reason, effect := problemOf(t, resp, body); reason != "attempts_exhausted" || effect != "not sent" || resp.Header.Get(gabionproxy.HeaderAttempts) != "3" {
		t.Errorf("got %d %s, headers %v", resp.StatusCode, body, resp.Header)
	}
}

func TestStreamsOfEventsComeAsTheyAreSent(t *testing.T) {
	next := make(chan struct{})
	to := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next // the client has read this one
		}
	})
	s := newSite(t, policies)
	s.mustLoad("reverse_proxy " + to + " {\nUSE\n}")
	resp, err := s.client.Get(siteURL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get(gabionproxy.HeaderAttempts) != "1" {
		t.Errorf("headers %v", resp.Header)
	}
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		lines.ReadString('\n')
		next <- struct{}{}
	}
}

func TestConnectionsAreUpgraded(t *testing.T) {
	to := server(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := rw.ReadString('\n')
		io.WriteString(conn, "echo "+line)
	})
	s := newSite(t, policies)
	s.mustLoad("reverse_proxy " + to + " {\nUSE\n}")
	r, _ := http.NewRequestWithContext(t.Context(), "GET", siteURL, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := s.client.Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	conn, ok := resp.Body.(io.ReadWriter)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok || resp.Header.Get(gabionproxy.HeaderAttempts) != "1" {
		t.Fatalf("got %d, headers %v", resp.StatusCode, resp.Header)
	}
	io.WriteString(conn, "hello\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "echo hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}
