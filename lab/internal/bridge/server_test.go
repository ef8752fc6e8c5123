package bridge

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// headerCall carries the name of a call, so that the server has the lab's luck.
const headerCall = "X-Call"

// A server is the world's service as a real one: a number of workers and a queue, or as many
// workers as there are requests, and one thing that is wrong with it at times.
type server struct {
	draws    sim.Draws
	start    atomic.Pointer[time.Time] // nil while the network is measured
	limit    ratelimit.Limiter
	requests atomic.Int64 // since the start

	mu      sync.Mutex // guards all below
	busy    int
	waiting []chan struct{}
	tries   map[string]int
}

func newServer(w *sim.World, seed uint64) *server {
	return &server{draws: sim.Draws{World: w, Seed: seed}, tries: map[string]int{}}
}

// since is how long the world has been running, or -1 before it starts.
func (s *server) since() time.Duration {
	if start := s.start.Load(); start != nil {
		return time.Since(*start)
	}
	return -1
}

// wrong reports whether the fault is there.
func (s *server) wrong(at time.Duration) bool {
	f := &s.draws.World.Faults[0]
	if at < f.At {
		return false
	}
	since := at - f.At
	if f.Period > 0 {
		since %= f.Period
	}
	return since < f.For && (f.Until == 0 || at-since <= f.Until)
}

// gone reports whether connections are refused now.
func (s *server) gone() bool {
	return s.draws.World.Faults[0].Kind == sim.Refuse && s.wrong(s.since())
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := s.since()
	if at < 0 {
		time.Sleep(ping)
		return
	}
	s.requests.Add(1)
	name := r.Header.Get(headerCall)
	call, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	try := s.count(name)
	switch f := &s.draws.World.Faults[0]; {
	case !s.wrong(at):
	case f.Kind == sim.Errors && s.draws.Strikes(0, call, try):
		w.WriteHeader(f.Status)
		return
	case f.Kind == sim.RateLimit && !s.lets(at, &f.Limit):
		w.Header().Set("Retry-After", strconv.Itoa(int(f.Limit.After/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if !s.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	time.Sleep(s.draws.Work(0, call, try))
}

func (s *server) lets(at time.Duration, l *sim.Limit) bool {
	_, ok := s.limit.Reserve(clock.Instant(at), ratelimit.Every(l.Rate, l.Burst), 0)
	return ok
}

func (s *server) count(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[call]++
	return s.tries[call]
}

// enter takes a worker, or waits for one in turn. Who gave up waits on, as in the
// lab: a server does not see it before it has read the request.
func (s *server) enter() bool {
	service := &s.draws.World.Services[0]
	s.mu.Lock()
	if service.Workers == 0 || s.busy < service.Workers {
		s.busy++
		s.mu.Unlock()
		return true
	}
	if len(s.waiting) >= service.Queue {
		s.mu.Unlock()
		return false
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	<-turn
	return true
}

// leave hands the worker on to who waits longest.
func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.busy--
		return
	}
	close(s.waiting[0])
	s.waiting = s.waiting[1:]
}

// A client is one of the world's, and counts its attempts.
type client struct {
	*gabionhttp.Transport
	sent attempts
}

func clients(w *sim.World, p policy.Policy, seed uint64, base http.RoundTripper) []*client {
	all := make([]*client, w.Fleets[0].Clients)
	for i := range all {
		c := new(client)
		d := gabion.New("server", p, gabion.WithSeed(sim.Draws{World: w, Seed: seed}.PolicySeed(0, i)), gabion.WithObserver(&c.sent))
		c.Transport = &gabionhttp.Transport{
			Dependency: d, Base: base,
			Partition: func(*http.Request) string { return "" }, // a second breaker would draw the luck of the next call
		}
		all[i] = c
	}
	return all
}

// A run is what came of the world's calls.
type run struct {
	calls []called
	sent  []time.Duration // when each attempt was
}

type called struct {
	at, took time.Duration // from when it was due
	good     bool
}

// replay makes the world's calls.
func (s *server) replay(clients []*client, url string) (r run) {
	calls := s.draws.Arrivals(0)
	r.calls = make([]called, len(calls))
	start := time.Now()
	s.start.Store(&start)
	var all sync.WaitGroup
	for i, c := range calls {
		due := start.Add(c.At)
		time.Sleep(time.Until(due))
		all.Go(func() {
			good := get(clients[c.Client], url, c.Call)
			r.calls[i] = called{c.At, time.Since(due), good}
		})
	}
	all.Wait()
	for _, c := range clients {
		c.sent.mu.Lock()
		for _, at := range c.sent.at {
			r.sent = append(r.sent, at.Sub(start))
		}
		c.sent.mu.Unlock()
	}
	return r
}

// A part of a run is from one moment to another: the calls that were due, those of them
// that ended well, and the attempts that were sent.
type part struct{ calls, good, sent int64 }

func (r *run) part(from, to time.Duration) (p part) {
	for _, c := range r.calls {
		if c.at >= from && c.at < to {
			p.calls++
			if c.good {
				p.good++
			}
		}
	}
	for _, at := range r.sent {
		if at >= from && at < to {
			p.sent++
		}
	}
	return p
}

// direct is a network without one. Who gives up leaves, and the server works on.
type direct struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.Clone(context.Background()))
		answer <- w.Result()
	}()
	select {
	case resp := <-answer:
		return resp, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// get reports whether the answer was good.
func get(by http.RoundTripper, url string, call uint64) bool {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	req.Header.Set(headerCall, strconv.FormatUint(call, 16))
	resp, err := by.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// ping is the work of a request that measures the network.
const ping = 20 * time.Millisecond

// attempts keeps when each was sent.
type attempts struct {
	mu sync.Mutex // guards at
	at []time.Time
}

// Observe implements gabion.Observer.
func (a *attempts) Observe(_ context.Context, e gabion.Event) {
	if e.Kind == policy.KindAttemptSent {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at = append(a.at, time.Now())
	}
}
