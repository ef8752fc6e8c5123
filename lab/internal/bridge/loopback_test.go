package bridge

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// outcome is what both ways of running an outage measure.
type outcome struct {
	goodput       float64 // calls a second that ended well
	amplification float64 // attempts to a call
	p50, p99      float64 // of all calls, failures included, in milliseconds from when they were due
}

// tolerance is by how much the lab may be off, as shares.
type tolerance struct{ goodput, amplification, p50, p99 float64 }

// TestTheLabAgreesWithRealTime runs an outage in which four answers in five are
// 503 for a while: twenty clients through gabionhttp against a server on the
// loopback device, and the same in the lab with the same luck.
//
// What runs in real time is also late by what the machine is late, which is measured
// beside it: a machine that was too late to be judged by is asked again, and in the end
// not at all. TestTheLabAgreesWithTheClients always judges.
func TestTheLabAgreesWithRealTime(t *testing.T) {
	runs, within := []string{"protected"}, tolerance{0.1, 0.1, 0.5, 0.5} // other tests want the processor too
	lasts, from, until := 8*time.Second, 2*time.Second, 5*time.Second
	if os.Getenv("GABION_SOAK") != "" {
		runs, within = []string{"protected", "naive", "hedged"}, tolerance{0.05, 0.05, 0.15, 0.15}
		lasts, from, until = 30*time.Second, 8*time.Second, 20*time.Second
	}
	table := header
	for _, name := range runs {
		for try := 1; ; try++ {
			w := smallOutage(t, name, lasts, from, until)
			real, network, late := inRealTime(t, w, policies[name], 1)
			w.Fleets[0].Plan.Steps[0].Edge.Network = draw.Constant(network)
			lab := simulated(t, w, 1)
			rows, wrong := compare(name, &lab, &real, &within)
			t.Logf("%s: one way through the stack takes %s; the machine was %s", name, network, late)
			if late.tooMuch() && len(wrong) > 0 {
				if try < 3 {
					continue
				}
				t.Skipf("not judged: in %d runs this machine was too late, the last time %s, and then %s", try, late, wrong)
			}
			for _, text := range wrong {
				t.Error(text)
			}
			table += rows
			break
		}
	}
	t.Log("\n" + table)
}

// TestTheLabAgreesWithTheClients is the same where no machine is late: in a bubble and
// without a network.
func TestTheLabAgreesWithTheClients(t *testing.T) {
	table := header
	for name := range policies {
		w := smallOutage(t, name, 8*time.Second, 2*time.Second, 5*time.Second)
		lab := simulated(t, w, 1)
		var real outcome
		synctest.Test(t, func(t *testing.T) {
			handler := newServer(w, 1)
			real = handler.replay(clients(w, policies[name], 1, direct{handler}), "http://server")
			time.Sleep(time.Minute) // who works on for nobody comes to an end
		})
		rows, wrong := compare(name, &lab, &real, &tolerance{0.001, 0.001, 0.02, 0.02})
		for _, text := range wrong {
			t.Error(text)
		}
		table += rows
	}
	t.Log("\n" + table)
}

const header = "policy | measure | lab | real time | deviation\n"

// steady is a breaker that asks again at a steady rate. With open times that grow, a
// probe that comes a millisecond later can cost a client the rest of the outage, and
// two runs in real time differ from each other by a tenth.
var steady = policy.Breaker{Open: time.Second, OpenGrowth: 1}

var policies = map[string]policy.Policy{
	"protected": { // gabion's defaults, with times for a service next door
		Safe:    true,
		Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: 500 * time.Millisecond},
		Retry:   policy.Retry{Attempts: 4, Backoff: backoff.Full(100*time.Millisecond, time.Second)},
		Breaker: steady,
	},
	"naive": { // retries and nothing that bounds them
		Safe:     true,
		Timeout:  policy.Timeout{Call: 3 * time.Second, Attempt: 500 * time.Millisecond},
		Retry:    policy.Retry{Attempts: 4, Backoff: backoff.Full(100*time.Millisecond, time.Second), Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},
	},
	"hedged": { // a second attempt for the slowest
		Safe:    true,
		Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: 500 * time.Millisecond},
		Retry:   policy.Retry{Attempts: 3, Backoff: backoff.Full(100*time.Millisecond, time.Second)},
		Hedge:   policy.Hedge{Max: 1, Delay: 50 * time.Millisecond},
		Breaker: steady,
	},
}

func smallOutage(t testing.TB, name string, lasts, from, until time.Duration) *sim.World {
	t.Helper()
	rules := compiled(t, policies[name])
	return &sim.World{
		Duration: lasts,
		Fleets: []sim.Fleet{{Clients: 20, Load: sim.Steady(100), Plan: sim.Plan{
			Steps: []sim.Step{{Edge: sim.Edge{Rules: rules}}},
		}}},
		Services: []sim.Service{{Workers: 4, Queue: 20, Time: draw.LogNormal(20*time.Millisecond, 80*time.Millisecond)}},
		Faults:   []sim.Fault{{Kind: sim.Errors, Status: 503, Share: 0.8, At: from, For: until - from}},
	}
}

func simulated(t testing.TB, w *sim.World, seed uint64) outcome {
	t.Helper()
	r := sim.Run(w, seed)
	for _, b := range r.Broken {
		t.Error(b)
	}
	f, e := &r.Fleets[0], &r.Edges[0]
	return outcome{
		goodput:       float64(f.Good) / w.Duration.Seconds(),
		amplification: float64(e.Attempts) / float64(e.Calls),
		p50:           milliseconds(f.Latency.Quantile(0.5)),
		p99:           milliseconds(f.Latency.Quantile(0.99)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

// compare returns the rows of the table, and where the lab is off by too much.
func compare(name string, lab, real *outcome, within *tolerance) (table string, wrong []string) {
	var rows strings.Builder
	for _, m := range []struct {
		what             string
		lab, real, allow float64
	}{
		{"goodput, calls/s", lab.goodput, real.goodput, within.goodput},
		{"amplification", lab.amplification, real.amplification, within.amplification},
		{"p50, ms", lab.p50, real.p50, within.p50},
		{"p99, ms", lab.p99, real.p99, within.p99},
	} {
		off := m.lab/m.real - 1
		if !(math.Abs(off) <= m.allow) { // a NaN is off too
			wrong = append(wrong, fmt.Sprintf("%s: %s is %.4g in the lab and %.4g in real time, off by %.1f %%, more than %.1f %%", name, m.what, m.lab, m.real, 100*off, 100*m.allow))
		}
		fmt.Fprintf(&rows, "%s | %s | %.3f | %.3f | %+.1f %%\n", name, m.what, m.lab, m.real, 100*off)
	}
	return rows.String(), wrong
}

// headerCall carries the name of a call, so that the server has the lab's luck.
const headerCall = "X-Call"

// server is the world's service as a real one: so many workers, and a queue.
type server struct {
	weather sim.Weather
	start   atomic.Pointer[time.Time] // nil while the network is measured

	mu      sync.Mutex // guards all below
	busy    int
	waiting []chan struct{}
	tries   map[string]int
}

func newServer(w *sim.World, seed uint64) *server {
	return &server{weather: sim.Weather{World: w, Seed: seed}, tries: map[string]int{}}
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.start.Load()
	if start == nil {
		time.Sleep(ping)
		return
	}
	name := r.Header.Get(headerCall)
	call, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	try := s.count(name)
	fault := &s.weather.World.Faults[0]
	if now := time.Since(*start); now >= fault.At && now < fault.At+fault.For && s.weather.Strikes(0, call, try) {
		w.WriteHeader(fault.Status)
		return
	}
	if !s.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	time.Sleep(s.weather.Work(0, call, try))
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
	service := &s.weather.World.Services[0]
	s.mu.Lock()
	if s.busy < service.Workers {
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

// inRealTime runs the world on the loopback device. It also says how long one way
// through client and server takes there, which the lab has to be told, and how late
// the machine was.
func inRealTime(t *testing.T, w *sim.World, p policy.Policy, seed uint64) (outcome, time.Duration, lateness) {
	t.Helper()
	gabiontest.NoLeaks(t)
	handler := newServer(w, seed)
	listening := httptest.NewServer(handler)
	defer listening.Close()
	base := &http.Transport{MaxIdleConnsPerHost: 200}
	defer base.CloseIdleConnections()
	all := clients(w, p, seed, base)
	network := oneWay(t, listening.URL, base)
	stop := watch()
	o := handler.replay(all, listening.URL)
	return o, network, stop()
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
		d := gabion.New("server", p, gabion.WithSeed(sim.Weather{World: w, Seed: seed}.PolicySeed(0, i)), gabion.WithObserver(&c.sent))
		c.Transport = &gabionhttp.Transport{
			Dependency: d, Base: base,
			Partition: func(*http.Request) string { return "" }, // a second breaker would draw the luck of the next call
		}
		all[i] = c
	}
	return all
}

// replay makes the world's calls.
func (s *server) replay(clients []*client, url string) outcome {
	calls := s.weather.Arrivals(0)
	took := make([]time.Duration, len(calls))
	var good, sent atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	s.start.Store(&start)
	for i, c := range calls {
		due := start.Add(c.At)
		time.Sleep(time.Until(due))
		all.Go(func() {
			if get(clients[c.Client], url, c.Call) {
				good.Add(1)
			}
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	for _, c := range clients {
		sent.Add(c.sent.n.Load())
	}
	slices.Sort(took)
	return outcome{
		goodput:       float64(good.Load()) / s.weather.World.Duration.Seconds(),
		amplification: float64(sent.Load()) / float64(len(calls)),
		p50:           milliseconds(took[len(took)/2]),
		p99:           milliseconds(took[len(took)*99/100]),
	}
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

// lateness is by how much a goroutine that only sleeps woke too late.
type lateness struct{ most, usual time.Duration } // usual: one time in ten it was more

// tooMuch reports whether times that were measured meanwhile are the machine's. The
// clients wait 500 ms for an answer that takes 20.
func (l lateness) tooMuch() bool {
	return l.most > 100*time.Millisecond || l.usual > 5*time.Millisecond
}

// String implements fmt.Stringer.
func (l lateness) String() string {
	return fmt.Sprintf("up to %s late, and one time in ten more than %s", l.most, l.usual)
}

// watch measures until it is told to stop.
func watch() (stop func() lateness) {
	const every = 5 * time.Millisecond
	quit, told := make(chan struct{}), make(chan lateness)
	go func() {
		var late []time.Duration
		for {
			due := time.Now().Add(every)
			time.Sleep(every)
			late = append(late, time.Since(due))
			select {
			case <-quit:
				slices.Sort(late)
				told <- lateness{late[len(late)-1], late[len(late)*9/10]}
				return
			default:
			}
		}
	}()
	return func() lateness { close(quit); return <-told }
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

// oneWay measures half of what a call takes beyond its work, timers that fire late
// included, at the load of the outage. Its policy has no part in it: each client's
// must be new when the outage begins.
func oneWay(t *testing.T, url string, base http.RoundTripper) time.Duration {
	t.Helper()
	patient := policy.Policy{Timeout: policy.Timeout{Call: time.Minute, Attempt: time.Minute}, Breaker: policy.Breaker{Off: true}}
	by := &gabionhttp.Transport{Dependency: gabion.New("ping", patient), Base: base}
	took := make([]time.Duration, 101)
	var all sync.WaitGroup
	start := time.Now()
	for i := range took {
		due := start.Add(time.Duration(i) * 10 * time.Millisecond)
		time.Sleep(time.Until(due))
		all.Go(func() {
			if !get(by, url, 0) {
				t.Error("the server does not answer")
			}
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	slices.Sort(took)
	return max(took[len(took)/2]-ping, 0) / 2
}

// attempts counts those that were sent, and tells of each.
type attempts struct {
	n    atomic.Int64
	each func() // may be nil
}

// Observe implements gabion.Observer.
func (a *attempts) Observe(_ context.Context, e gabion.Event) {
	if e.Kind == policy.KindAttemptSent {
		a.n.Add(1)
		if a.each != nil {
			a.each()
		}
	}
}
