package bridge

import (
	"cmp"
	"math"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// Outages of a minute, with the defaults: 200 clients of a call a second each. What is
// wrong is wrong from the 15th to the 45th second; the flapping service is gone for
// 3 s of every 10 then.
const (
	outageLasts   = time.Minute
	outageFrom    = 15 * time.Second
	outageTo      = 45 * time.Second
	outageClients = 200
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

func outage(t testing.TB, f sim.Fault) *sim.World {
	t.Helper()
	f.At = outageFrom
	f.For = cmp.Or(f.For, outageTo-outageFrom)
	return &sim.World{
		Duration: outageLasts,
		Cuts:     []time.Duration{outageFrom, outageTo},
		Fleets: []sim.Fleet{{Clients: outageClients, Load: sim.Steady(outageClients), Plan: sim.Plan{
			Steps: []sim.Step{{Edge: sim.Edge{Rules: compiled(t, defaults)}}},
		}}},
		Services: []sim.Service{{Time: draw.LogNormal(20*time.Millisecond, 80*time.Millisecond)}},
		Faults:   []sim.Fault{f},
	}
}

// defaults are gabion's, for calls that may be repeated, with the timeouts of a service
// next door.
var defaults = policy.Policy{Safe: true, Timeout: policy.Timeout{Call: 3 * time.Second, Attempt: time.Second}}

// twoPoints is how far the lab may be off in each figure of an outage, which are shares
// and ratios.
var twoPoints = []float64{0.02, 0.02, 0.02, 0.02}

func figures(all, in, after part) []figure {
	return []figure{
		{"answered", share(all.good, all.calls)},
		{"answered in the trouble", share(in.good, in.calls)},
		{"attempts per call in it", share(in.sent, in.calls)},
		{"attempts per call in the 2 s after it", share(after.sent, after.calls)},
	}
}

const outageEcho = outageTo + 2*time.Second // the end of the two seconds after it

func inTheLab(t testing.TB, w *sim.World, seed uint64) []figure {
	t.Helper()
	with := *w
	with.Cuts = append(with.Cuts, outageEcho)
	r := sim.Run(&with, seed)
	for _, b := range r.Broken {
		t.Error(b)
	}
	of := func(f *sim.FleetCounts, e *sim.Counts) part { return part{f.Offered, f.Good, e.Attempts} }
	in, after := &r.Phases[1], &r.Phases[2]
	return figures(of(&r.Fleets[0], &r.Edges[0]), of(&in.Fleets[0], &in.Edges[0]), of(&after.Fleets[0], &after.Edges[0]))
}

// live lives through the outage.
func (s *server) live(t *testing.T, url string, base http.RoundTripper) []figure {
	t.Helper()
	w := s.draws.World
	r := s.replay(clients(w, defaults, s.draws.Seed, base), url)
	if n := int64(len(r.sent)); w.Faults[0].Kind != sim.Refuse && s.requests.Load() != n {
		t.Errorf("%d requests arrived, and the clients say that they sent %d", s.requests.Load(), n)
	}
	return figures(r.part(0, math.MaxInt64), r.part(outageFrom, outageTo), r.part(outageTo, outageEcho))
}

// TestOutagesAreAsTheLabSays lives through outages in a bubble, where no machine is
// late, and compares with the lab.
func TestOutagesAreAsTheLabSays(t *testing.T) {
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			w := outage(t, o.fault)
			var lived []figure
			synctest.Test(t, func(t *testing.T) {
				s := newServer(w, 1)
				lived = s.live(t, "http://server", unplugged{s, direct{s}})
				time.Sleep(time.Minute) // work whose caller has gone ends
			})
			table, wrong := compare("defaults", inTheLab(t, w, 1), lived, byPoints, twoPoints...)
			t.Log("\n" + header + table)
			for _, text := range wrong {
				t.Error(text)
			}
		})
	}
}

// unplugged refuses connections while the server is gone.
type unplugged struct {
	s    *server
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u unplugged) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.s.gone() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	return u.next.RoundTrip(r)
}
