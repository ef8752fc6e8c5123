package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

func endpointsAt(mode policy.EndpointMode, urls ...string) policy.Policy {
	p := policy.Policy{Endpoints: policy.Endpoints{Mode: mode}}
	for i, u := range urls {
		p.Endpoints.List = append(p.Endpoints.List, policy.Endpoint{Name: string(rune('a' + i)), URL: u})
	}
	return p
}

// sentTo records what goes over the wire.
type sentTo struct{ url, host string }

func (s *sentTo) RoundTrip(r *http.Request) (*http.Response, error) {
	s.url, s.host = r.URL.String(), r.Host
	return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
}

func TestRequestsGoToTheEndpointsURL(t *testing.T) {
	for _, c := range []struct{ endpoint, asked, host, url, wire string }{
		{"https://eu.example.com", "https://api.example.com/charges?n=1", "", "https://eu.example.com/charges?n=1", "eu.example.com"},
		{"https://eu.example.com/v1", "http://any/charges", "", "https://eu.example.com/v1/charges", "eu.example.com"},
		{"https://eu.example.com/v1/", "http://any/charges/", "", "https://eu.example.com/v1/charges/", "eu.example.com"},
		{"https://eu.example.com/v1", "http://any", "", "https://eu.example.com/v1", "eu.example.com"},
		{"https://eu.example.com/a%2Fb", "http://any/c%2Fd", "", "https://eu.example.com/a%2Fb/c%2Fd", "eu.example.com"},
		{"https://eu.example.com", "http://any/x", "tenant.example.com", "https://eu.example.com/x", "tenant.example.com"}, // the caller's own
		{"http://10.0.0.1:8080", "http://payments.internal:8080/x", "", "http://10.0.0.1:8080/x", "payments.internal:8080"},
		{"http://[2001:db8::1]", "http://payments.internal/x", "", "http://[2001:db8::1]/x", "payments.internal"},
	} {
		base := new(sentTo)
		d := gabion.New("payments", endpointsAt(policy.EndpointsEqual, c.endpoint))
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.asked, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.host != "" {
			req.Host = c.host
		}
		if _, err := (&gabionhttp.Transport{Dependency: d, Base: base}).RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if base.url != c.url || base.host != c.wire || req.URL.String() != c.asked {
			t.Errorf("%s at %s: sent to %s, Host %s", c.asked, c.endpoint, base.url, base.host)
		}
	}
}

// A redirect leads on from where the answer came, with the key if that is the same host, and is not turned to another endpoint.
func TestRedirectsLeadOnFromTheEndpoint(t *testing.T) {
	var at []string
	note := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at = append(at, fmt.Sprintf("%s %s %s %s", name, r.Method, r.URL, r.Header.Get("Idempotency-Key")))
			switch r.URL.Path {
			case "/v1/old":
				http.Redirect(w, r, "new?x=1", http.StatusTemporaryRedirect)
			case "/v1/far":
				http.Redirect(w, r, "http://"+r.Header.Get("Far")+"/there", http.StatusFound)
			}
		})
	}
	a, far := httptest.NewServer(note("a")), httptest.NewServer(note("far"))
	defer a.Close()
	defer far.Close()
	d := gabion.New("payments", endpointsAt(policy.EndpointsOrdered, a.URL+"/v1", "http://127.0.0.1:1"))
	c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d}}
	for _, path := range []string{"old", "far"} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://payments/"+path, strings.NewReader("x"))
		req.Header.Set("Far", strings.TrimPrefix(far.URL, "http://"))
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	want := []string{"a POST /v1/old k1", "a POST /v1/new?x=1 k1", "a POST /v1/far k1", "far GET /there "}
	if !slices.Equal(at, want) {
		t.Errorf("got  %q\nwant %q", at, want)
	}
}

// ledger is a server that carries each key out once, and knows nothing of others.
type ledger struct {
	*httptest.Server
	mu   sync.Mutex
	done map[string]int // times the work was done
	down atomic.Bool
	mess func(n int) int // what goes wrong with a request: see serve
	n    int
}

func newLedger(mess func(int) int) *ledger {
	l := &ledger{done: map[string]int{}, mess: mess}
	l.Server = httptest.NewServer(http.HandlerFunc(l.serve))
	return l
}

func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	if l.down.Load() {
		panic(http.ErrAbortHandler)
	}
	l.mu.Lock()
	l.n++
	what := l.mess(l.n)
	l.mu.Unlock()
	if what == 1 { // breaks off before the work
		panic(http.ErrAbortHandler)
	}
	if what == 2 { // refuses before the work
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	io.Copy(io.Discard, r.Body)
	l.mu.Lock()
	if key := r.Header.Get("Idempotency-Key"); l.done[key] == 0 {
		l.done[key]++
	}
	l.mu.Unlock()
	switch what {
	case 3: // breaks off after it
		panic(http.ErrAbortHandler)
	case 4: // says that it was refused, though it was done
		w.WriteHeader(http.StatusServiceUnavailable)
	case 5: // answers too late
		select {
		case <-r.Context().Done():
		case <-time.After(400 * time.Millisecond):
		}
	}
}

// 500 faults and more over real connections: each key is carried out at one endpoint at most, and once.
func TestKeyedRequestsAreNeverCarriedOutTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("long: TestACallWithAKeyStaysWhereItMayHaveHappened shows the rule")
	}
	var faults atomic.Int64
	r := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	mess := func(int) int {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(3) > 0 {
			return 0
		}
		faults.Add(1)
		return 1 + r.IntN(5)
	}
	ledgers := []*ledger{newLedger(mess), newLedger(mess)}
	defer ledgers[0].Close()
	defer ledgers[1].Close()
	p := endpointsAt(policy.EndpointsOrdered, ledgers[0].URL, ledgers[1].URL)
	p.Timeout.Attempt, p.Timeout.Call = 200*time.Millisecond, 2*time.Second
	p.Retry.Backoff.Base, p.Retry.Budget.Off, p.Retry.Hold = 5*time.Millisecond, true, policy.Off
	p.Bulkhead.Off, p.Breaker.Off = true, false
	d := gabion.New("payments", p)
	c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d}}
	post := func(ctx context.Context, key string) error {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://payments/charges", strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", key)
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if why := gabionhttp.Verdict(resp); why != nil {
			return why
		}
		return nil
	}
	var all sync.WaitGroup
	var unknown, fine atomic.Int64
	const workers, each = 8, 250
	for w := range workers {
		all.Go(func() {
			for i := range each {
				if w == 0 && i%20 == 10 {
					ledgers[0].down.Store(i%40 == 10) // the primary is down for a while, in which all goes to the backup
				}
				var e *gabion.Error
				switch err := post(t.Context(), fmt.Sprintf("key-%d-%d", w, i)); {
				case err == nil:
					fine.Add(1)
				case errors.As(err, &e) && e.Effect == policy.UnknownEffect && e.Endpoint != "":
					unknown.Add(1)
				case !errors.As(err, &e):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	doubled := 0
	for key, n := range ledgers[0].done {
		if n+ledgers[1].done[key] > 1 {
			doubled++
		}
	}
	t.Logf("%d faults, %d answered, %d unknown and said so; a did %d, b %d, %d doubled", faults.Load(), fine.Load(), unknown.Load(), len(ledgers[0].done), len(ledgers[1].done), doubled)
	if faults.Load() < 500 || doubled > 0 || len(ledgers[1].done) < 50 || unknown.Load() == 0 {
		t.Errorf("%d faults, %d doubled, the backup did %d, %d are unknown", faults.Load(), doubled, len(ledgers[1].done), unknown.Load())
	}
}

// One of three endpoints is dead, over real connections, with load that does not wait for answers.
func TestOneOfThreeIsDead(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the lab shows it in virtual time")
	}
	work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Millisecond) })
	one, two, three := httptest.NewServer(work), httptest.NewServer(work), httptest.NewServer(work)
	defer one.Close()
	defer two.Close()
	defer three.Close()
	_, usual, _ := openLoop(t, endpointsAt(policy.EndpointsEqual, one.URL, two.URL, three.URL), 1000)
	for _, c := range []struct {
		fact string
		dead func(t *testing.T) (url string)
	}{
		{"nothing listens", func(t *testing.T) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return "http://" + l.Addr().String()
		}},
		{"breaks off", func(t *testing.T) string {
			l := newLedger(func(int) int { return 1 })
			t.Cleanup(l.Close)
			return l.URL
		}},
		{"accepts and is silent", func(t *testing.T) string {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return "http://" + l.Addr().String()
		}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			failed, p99, d := openLoop(t, endpointsAt(policy.EndpointsEqual, one.URL, two.URL, c.dead(t)), 1000)
			st := d.Stats().Endpoints
			share := float64(st[2].Attempts) / float64(st[0].Attempts+st[1].Attempts+st[2].Attempts)
			t.Logf("%d of 1000 failed, p99 %v instead of %v, %.2f %% of the attempts went to the dead one", failed, p99, usual, 100*share)
			if failed > 5 || share > 0.02 || st[0].Attempts < 300 || st[1].Attempts < 300 {
				t.Errorf("%d failed, %+v", failed, st)
			}
		})
	}
}

// openLoop makes GETs at 200 a second, whatever becomes of them.
func openLoop(t *testing.T, p policy.Policy, n int) (failed int64, p99 time.Duration, d *gabion.Dependency) {
	d = gabion.New("catalogue", p)
	base := http.DefaultTransport.(*http.Transport).Clone()
	defer base.CloseIdleConnections()
	c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: base}}
	took := make([]time.Duration, n)
	var all sync.WaitGroup
	var bad atomic.Int64
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		all.Go(func() {
			began := time.Now()
			resp, err := c.Get("http://catalogue/items")
			took[i] = time.Since(began)
			if err != nil || resp.StatusCode != 200 {
				bad.Add(1)
			}
			if err == nil {
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return bad.Load(), took[n*99/100], d
}

// A failure that the caller gets as an answer counts once at its endpoint, whether its body comes whole or breaks off.
func TestAFailureThatIsAnAnswerCountsOnce(t *testing.T) {
	for _, length := range []string{"2", "100"} {
		var at []string
		serve := func(name string, status int) *httptest.Server {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				at = append(at, name)
				if status != http.StatusOK {
					w.Header().Set("Content-Length", length)
				}
				w.WriteHeader(status)
				io.WriteString(w, "no")
			}))
			t.Cleanup(s.Close)
			return s
		}
		a, b := serve("a", http.StatusBadGateway), serve("b", http.StatusOK)
		d := gabion.New("payments", endpointsAt(policy.EndpointsOrdered, a.URL, b.URL))
		c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d}}
		for range 7 {
			resp, err := c.Post("http://payments/charges", "", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if got := strings.Join(at, ""); got != "aaaaabb" {
			t.Errorf("%s bytes declared: sent to %s", length, got)
		}
	}
}

// A good answer is a failure of its endpoint if its body breaks off, and ends a row of failures only if it comes whole.
func TestABodyThatBreaksIsItsEndpoints(t *testing.T) {
	const script = "----+------"
	at, n := "", 0
	serve := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if at += name; name == "a" && script[n] == '-' {
				w.Header().Set("Content-Length", "100")
			}
			n++
			io.WriteString(w, "yes")
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	d := gabion.New("payments", endpointsAt(policy.EndpointsOrdered, serve("a"), serve("b")))
	c := &http.Client{Transport: &gabionhttp.Transport{Dependency: d}}
	for range script {
		resp, err := c.Post("http://payments/charges", "", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if at != "aaaaaaaaaab" {
		t.Errorf("sent to %s", at)
	}
}
