package page

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// A program calls servers over the loopback, and has a page.
type program struct {
	t        *testing.T
	registry *gabion.Registry
	page     *dashboard.Page
	url      string // of the page
	ctx      context.Context
	calls    sync.WaitGroup
	servers  map[string]*server
}

// A server answers as its function says, which a test can change at any time.
type server struct {
	*httptest.Server
	does   atomic.Pointer[http.HandlerFunc]
	served atomic.Int64
}

func (s *server) do(h http.HandlerFunc) { s.does.Store(&h) }

// newProgram starts a server for each policy, and the page's own under /debug/gabion/.
func newProgram(t *testing.T, policies map[string]policy.Policy, config dashboard.Config) *program {
	t.Helper()
	registry, err := gabion.NewRegistry(policies)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{t: t, registry: registry, ctx: ctx, servers: map[string]*server{}}
	config.Registry = registry
	p.page = dashboard.New(config)
	mux := http.NewServeMux()
	mux.Handle("/debug/gabion/", p.page)
	site := httptest.NewServer(mux)
	p.url = site.URL + "/debug/gabion/"
	t.Cleanup(func() {
		cancel()
		p.page.Close()
		p.calls.Wait()
		site.Close()
		for _, s := range p.servers {
			s.Close()
		}
	})
	for name := range policies {
		p.serve(name)
	}
	return p
}

// serve starts the server of a dependency. It answers 200 at first.
func (p *program) serve(name string) {
	s := &server{}
	s.do(answers(200))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		(*s.does.Load())(w, r)
	}))
	p.servers[name] = s
}

func (p *program) dependency(name string) *gabion.Dependency {
	p.t.Helper()
	d, err := p.registry.Get(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// client calls a dependency's server under its policy.
func (p *program) client(name string) *http.Client {
	return &http.Client{Transport: &gabionhttp.Transport{Dependency: p.dependency(name)}}
}

// get makes one call to its end.
func (p *program) get(c *http.Client, name string) error {
	req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, p.servers[name].URL, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// load calls a dependency times times in a row.
func (p *program) load(name string, times int) {
	c := p.client(name)
	for range times {
		p.get(c, name)
	}
}

// steady calls a dependency at that rate until the test ends.
func (p *program) steady(name string, perSecond float64) {
	c := p.client(name)
	p.calls.Go(func() {
		tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
		defer tick.Stop()
		for {
			select {
			case <-p.ctx.Done():
				return
			case <-tick.C:
				p.calls.Go(func() { p.get(c, name) })
			}
		}
	})
}

// atOnce makes n calls that go on in the background.
func (p *program) atOnce(name string, n int) {
	c := p.client(name)
	for range n {
		p.calls.Go(func() { p.get(c, name) })
	}
}

// answers answers that status.
func answers(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// sometimes answers one status for a share of the requests, and 200 for the others, each after
// a time that is drawn around that one.
func sometimes(share float64, status int, around time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(float64(around) * (0.5 + rand.ExpFloat64()*0.6))):
		}
		if rand.Float64() < share {
			w.WriteHeader(status)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// hangs answers when the request is given up.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// comeBackIn answers 429 and asks for that many seconds.
func comeBackIn(seconds int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// Policies that say little but what a test is about.
var (
	noRetry   = policy.Retry{Attempts: 1}
	quick     = policy.Retry{Attempts: 3, Hold: policy.Off, Backoff: backoff.Const(time.Millisecond)}
	half      = policy.Breaker{MinCalls: 10, FailureRate: 0.5, Open: 10 * time.Minute, OpenJitter: policy.Off}
	noBreaker = policy.Breaker{Off: true}
)
