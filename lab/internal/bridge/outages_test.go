package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// Outages of a minute, with the defaults: 200 clients of a call a second each. What is
// wrong is wrong from the 15th to the 45th second; the flapping service is gone for
// 3 s of every 10 then.
const (
	outageLasts     = time.Minute
	outageFrom      = 15 * time.Second
	outageTo        = 45 * time.Second
	outageClients   = 200
	outageTolerance = 0.02 // two points
)

var outages = []struct {
	name  string
	fault sim.Fault
}{
	{"a storm of 80 % errors", sim.Fault{Kind: sim.Errors, Status: 503, Share: 0.8}},
	{"gone for 3 s of every 10", sim.Fault{Kind: sim.Refuse, Period: 10 * time.Second, For: 3 * time.Second, Until: outageTo - time.Second}},
	{"steady 30 % errors", sim.Fault{Kind: sim.Errors, Status: 503, Share: 0.3}},
	{"half of the requests let through", sim.Fault{Kind: sim.RateLimit, Limit: sim.Limit{Rate: outageClients / 2, Burst: 20, After: 2 * time.Second}}},
}

func outage(t testing.TB, f sim.Fault, network time.Duration) *sim.World {
	t.Helper()
	f.At = outageFrom
	if f.For == 0 {
		f.For = outageTo - outageFrom
	}
	return &sim.World{
		Duration: outageLasts,
		Cuts:     []time.Duration{outageFrom, outageTo},
		Fleets: []sim.Fleet{{Clients: outageClients, Load: sim.Steady(outageClients), Plan: sim.Plan{
			Steps: []sim.Step{{Edge: sim.Edge{Rules: compiled(t, defaults), Network: draw.Constant(network)}}},
		}}},
		Services: []sim.Service{{Time: draw.LogNormal(20*time.Millisecond, 80*time.Millisecond)}},
		Faults:   []sim.Fault{f},
	}
}

// defaults are gabion's, for calls that may be repeated, with the timeouts of a service
// next door.
var defaults = policy.Policy{Safe: true, Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}}

// A tally is what an outage did. Shares and ratios, so that 0.02 is two points.
type tally struct {
	answered, answeredInIt float64 // calls that ended well, of all and of those begun in the trouble
	load                   float64 // attempts in the trouble for each call begun in it
	after                  float64 // attempts in the two seconds after it, for each call begun in them
}

func inTheLab(t testing.TB, w *sim.World, seed uint64) tally {
	t.Helper()
	with := *w
	with.Cuts = append(with.Cuts, outageTo+2*time.Second)
	r := sim.Run(&with, seed)
	for _, b := range r.Broken {
		t.Error(b)
	}
	in, after := &r.Phases[1], &r.Phases[2]
	return tally{
		answered:     share(r.Fleets[0].Good, r.Fleets[0].Offered),
		answeredInIt: share(in.Fleets[0].Good, in.Fleets[0].Offered),
		load:         share(in.Edges[0].Attempts, in.Edges[0].Calls),
		after:        share(after.Edges[0].Attempts, after.Edges[0].Calls),
	}
}

func share(n, of int64) float64 { return float64(n) / float64(of) }

// differences says where the lab and what was lived through differ by more than two points.
func differences(lab, lived tally) (table string, wrong []string) {
	var rows strings.Builder
	for _, m := range []struct {
		what       string
		lab, lived float64
	}{
		{"answered", lab.answered, lived.answered},
		{"answered in the trouble", lab.answeredInIt, lived.answeredInIt},
		{"attempts per call in it", lab.load, lived.load},
		{"attempts per call in the 2 s after it", lab.after, lived.after},
	} {
		fmt.Fprintf(&rows, "  %-38s lab %.3f, lived through %.3f\n", m.what, m.lab, m.lived)
		if off := math.Abs(m.lab - m.lived); !(off <= outageTolerance) { // a NaN is off too
			wrong = append(wrong, fmt.Sprintf("%s: %.3f in the lab, %.3f lived through", m.what, m.lab, m.lived))
		}
	}
	return rows.String(), wrong
}

// TestOutagesAreAsTheLabSays lives through outages in a bubble, where no machine is
// late, and compares with the lab.
func TestOutagesAreAsTheLabSays(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			w := outage(t, o.fault, 0)
			var lived tally
			synctest.Test(t, func(t *testing.T) {
				d := newDependency(w, 1)
				lived = d.live(t, "http://server", unplugged{d, direct{d}})
				time.Sleep(time.Minute) // who works on for nobody comes to an end
			})
			table, wrong := differences(inTheLab(t, w, 1), lived)
			t.Log("\n" + table)
			for _, text := range wrong {
				t.Error(text)
			}
		})
	}
}

// TestOutagesOverTCPAreAsTheLabSays is the same over TCP in real time, all at once,
// counted at the server: a minute. The service that is gone has no listener then.
func TestOutagesOverTCPAreAsTheLabSays(t *testing.T) {
	if os.Getenv("GABION_SOAK") == "" {
		t.Skip("a minute in real time: make soak (TestOutagesAreAsTheLabSays is the same in made-up time)")
	}
	gabiontest.NoLeaks(t)
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			w := outage(t, o.fault, 200*time.Microsecond)
			d := newDependency(w, 1)
			l := listen(t, d)
			defer l.close()
			base := &http.Transport{MaxIdleConnsPerHost: outageClients}
			defer base.CloseIdleConnections()
			stop := watch()
			lived := d.live(t, "http://"+l.addr, base)
			late := stop()
			table, wrong := differences(inTheLab(t, w, 1), lived)
			t.Logf("the machine was %s\n%s", late, table)
			for _, text := range wrong {
				t.Error(text)
			}
		})
	}
}

// A dependency is the world's service: nobody waits for a worker, and one thing is
// wrong with it at times.
type dependency struct {
	weather sim.Weather
	limit   ratelimit.Limiter
	start   time.Time

	mu    sync.Mutex // guards tries
	tries map[string]int

	requests, inIt, after atomic.Int64
}

func newDependency(w *sim.World, seed uint64) *dependency {
	return &dependency{weather: sim.Weather{World: w, Seed: seed}, start: time.Now(), tries: map[string]int{}}
}

// wrong reports whether the fault is there.
func (d *dependency) wrong(at time.Duration) bool {
	f := &d.weather.World.Faults[0]
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
func (d *dependency) gone(at time.Duration) bool {
	return d.weather.World.Faults[0].Kind == sim.Refuse && d.wrong(at)
}

// ServeHTTP implements http.Handler.
func (d *dependency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Since(d.start)
	d.requests.Add(1)
	d.mu.Lock()
	name := r.Header.Get(headerCall)
	d.tries[name]++
	try := d.tries[name]
	d.mu.Unlock()
	call, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch f := &d.weather.World.Faults[0]; {
	case !d.wrong(at):
	case f.Kind == sim.Errors && d.weather.Strikes(0, call, try):
		w.WriteHeader(f.Status)
		return
	case f.Kind == sim.RateLimit && !d.lets(at, &f.Limit):
		w.Header().Set("Retry-After", strconv.Itoa(int(f.Limit.After/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(d.weather.Work(0, call, try))
}

func (d *dependency) lets(at time.Duration, l *sim.Limit) bool {
	_, ok := d.limit.Reserve(clock.Instant(at), ratelimit.Every(l.Rate, l.Burst), 0)
	return ok
}

// live makes the world's calls.
func (d *dependency) live(t *testing.T, url string, base http.RoundTripper) tally {
	t.Helper()
	w := d.weather.World
	calls := d.weather.Arrivals(0)
	all := clients(w, defaults, d.weather.Seed, base)
	var sent, sentIn, sentAfter, in, after, good, goodIn atomic.Int64
	for _, c := range all {
		c.sent.each = func() {
			sent.Add(1)
			switch at := time.Since(d.start); {
			case at >= outageFrom && at < outageTo:
				sentIn.Add(1)
			case at >= outageTo && at < outageTo+2*time.Second:
				sentAfter.Add(1)
			}
		}
	}
	var running sync.WaitGroup
	for _, c := range calls {
		time.Sleep(time.Until(d.start.Add(c.At)))
		isIn := c.At >= outageFrom && c.At < outageTo
		if isIn {
			in.Add(1)
		} else if c.At >= outageTo && c.At < outageTo+2*time.Second {
			after.Add(1)
		}
		running.Go(func() {
			if get(all[c.Client], url, c.Call) {
				good.Add(1)
				if isIn {
					goodIn.Add(1)
				}
			}
		})
	}
	running.Wait()
	if w.Faults[0].Kind != sim.Refuse && d.requests.Load() != sent.Load() {
		t.Errorf("%d requests arrived, and the clients say that they sent %d", d.requests.Load(), sent.Load())
	}
	return tally{
		answered:     share(good.Load(), int64(len(calls))),
		answeredInIt: share(goodIn.Load(), in.Load()),
		load:         share(sentIn.Load(), in.Load()),
		after:        share(sentAfter.Load(), after.Load()),
	}
}

// unplugged refuses connections while the dependency is gone.
type unplugged struct {
	d    *dependency
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u unplugged) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.d.gone(time.Since(u.d.start)) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return u.next.RoundTrip(r)
}

// A listening serves a dependency at one address, and closes it while it is gone.
type listening struct {
	addr string
	quit chan struct{}
	done chan struct{}
}

func listen(t *testing.T, d *dependency) *listening {
	t.Helper()
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listening{addr: first.Addr().String(), quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		s := serve(t, d, first)
		for l.pause() {
			switch gone := d.gone(time.Since(d.start)); {
			case gone && s != nil:
				s.hangUp()
				s = nil
			case !gone && s == nil:
				again, err := net.Listen("tcp", l.addr)
				if err != nil {
					t.Errorf("the address is lost: %v", err)
					return
				}
				s = serve(t, d, again)
			}
		}
		if s != nil {
			s.hangUp()
		}
	}()
	return l
}

func (l *listening) pause() bool {
	select {
	case <-l.quit:
		return false
	case <-time.After(time.Millisecond):
		return true
	}
}

func (l *listening) close() {
	close(l.quit)
	<-l.done
}

type serving struct {
	*http.Server
	done chan struct{}
}

func serve(t *testing.T, h http.Handler, l net.Listener) *serving {
	s := &serving{&http.Server{Handler: h, ReadHeaderTimeout: time.Minute}, make(chan struct{})}
	go func() {
		defer close(s.done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended: %v", err)
		}
	}()
	return s
}

// hangUp closes the listener at once, and connections when their answer is out.
func (s *serving) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Shutdown(ctx)
	_ = s.Close()
	<-s.done
}
