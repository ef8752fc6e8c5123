package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// pooled is one client with connections, who calls at those times.
func pooled(t testing.TB, c Conns, v Service, edit func(*policy.Policy), times ...time.Duration) *World {
	w := at(tries(t, 1), v, times...)
	if edit != nil {
		w.edge().Rules = tries(t, 1, edit)
	}
	w.edge().Conns = &c
	return w
}

// Ten connections of which eight are busy on average are M/M/c: 41 % wait, for 0.2046 times as
// long as an answer takes on average (Erlang C).
func TestWaitingForAConnectionAgreesWithErlangC(t *testing.T) {
	w := steady(tries(t, 1), 80, 20_000*time.Second, Service{Time: draw.Exponential(100 * ms)})
	w.Fleets[0].Clients = 1
	w.edge().Conns = &Conns{Size: 10}
	r := play(t, w)
	e := &r.Edges[0]
	near(t, "wait", e.Waited.Seconds()/float64(e.Attempts)*1000, 20.46, 0.02)
	near(t, "mean", r.Fleets[0].Answered.Mean().Seconds()*1000, 120.46, 0.01)
	is(t, "opened", e.Opened, 10)
}

func TestWhenAConnectionIsOpened(t *testing.T) {
	second := Service{Time: draw.Constant(100 * ms)}
	cut := attemptTimeout(50 * ms)
	for _, c := range []struct {
		fact   string
		conns  Conns
		edit   func(*policy.Policy)
		fault  Fault
		times  []time.Duration
		opened int64
		got    int64         // requests that reached the service
		took   time.Duration // the last call
	}{
		{"once, if it is free again", Conns{Size: 2}, nil, Fault{}, []time.Duration{0, 200 * ms, 400 * ms}, 1, 3, 100 * ms},
		{"for each at the same time", Conns{Size: 2}, nil, Fault{}, []time.Duration{0, 50 * ms, 60 * ms}, 2, 3, 140 * ms},
		{"after each that was cut off", Conns{Size: 2}, cut, Fault{}, []time.Duration{0, 200 * ms, 400 * ms}, 3, 3, 50 * ms},
		{"at once for who waits for one that is cut off", Conns{Size: 1}, cut, Fault{}, []time.Duration{0, 40 * ms}, 2, 2, 50 * ms},
		{"in vain where that takes too long", Conns{Size: 2, Open: draw.Constant(60 * ms)}, cut, Fault{}, []time.Duration{0, 200 * ms}, 2, 0, 50 * ms},
		{"for nobody who has given up", Conns{Size: 1}, attemptTimeout(150 * ms), Fault{Kind: Slow, Factor: 2, For: time.Minute}, []time.Duration{0, 10 * ms, 140 * ms}, 3, 3, 150 * ms},
		{"after it was not used for too long", Conns{Size: 2, Idle: 150 * ms}, nil, Fault{}, []time.Duration{0, 200 * ms, 450 * ms}, 2, 3, 100 * ms},
		{"after it was used for too long", Conns{Size: 2, Life: 250 * ms}, nil, Fault{}, []time.Duration{0, 200 * ms, 400 * ms}, 2, 3, 100 * ms},
		{"after it broke", Conns{Size: 2}, nil, Fault{Kind: Reset, For: 10 * ms}, []time.Duration{0, 200 * ms}, 2, 2, 100 * ms},
		{"after the service has restarted", Conns{Size: 2}, nil, Fault{Kind: Restart, At: 150 * ms, For: 10 * ms}, []time.Duration{0, 200 * ms}, 2, 2, 100 * ms},
		{"not after an answer that is an error", Conns{Size: 2}, nil, Fault{Kind: Errors, Status: 500, For: 150 * ms}, []time.Duration{0, 200 * ms}, 1, 2, 100 * ms},
		{"before the first request", Conns{Size: 2, Open: draw.Constant(30 * ms)}, nil, Fault{}, []time.Duration{0}, 1, 1, 130 * ms},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := pooled(t, c.conns, second, c.edit, c.times...)
			if c.fault.For > 0 {
				w.Faults = []Fault{c.fault}
			}
			w.Cuts = []time.Duration{c.times[len(c.times)-1]}
			if w.Cuts[0] == 0 {
				w.Cuts = nil
			}
			r := play(t, w)
			is(t, "opened", r.Edges[0].Opened, c.opened)
			is(t, "requests", r.Services[0].Received, c.got)
			last := r.Phases[len(r.Phases)-1].Fleets[0]
			is(t, "the last took", last.Latency.Max(), c.took)
		})
	}
}

// Who may wait for 300 ms and gets none has sent nothing.
func TestAWaitForAConnectionEnds(t *testing.T) {
	w := pooled(t, Conns{Size: 1, Wait: 300 * ms}, Service{Time: draw.Constant(time.Second)}, nil, 0, 100*ms, 900*ms)
	r := play(t, w)
	is(t, "in vain", r.Edges[0].Unconnected, 1)
	is(t, "attempts", r.Edges[0].Attempts, 2)
	is(t, "waited", r.Edges[0].Waited, 400*ms)
	is(t, "failed after", r.Fleets[0].Failed.Max(), 300*ms)
	is(t, "good", r.Fleets[0].Good, 2)
}

// A hedge that waits for the only connection is not sent when that has brought the answer.
func TestWhoNoLongerHasToBeSentIsNot(t *testing.T) {
	hedged := func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: 20 * ms} }
	r := play(t, pooled(t, Conns{Size: 1}, Service{Time: draw.Constant(100 * ms)}, hedged, 0, 200*ms))
	is(t, "attempts", r.Edges[0].Attempts, 2)
	is(t, "opened", r.Edges[0].Opened, 1)
	is(t, "waited", r.Edges[0].Waited, 160*ms)
}

// Each replica that calls has connections of its own, and a new one when it has restarted.
func TestConnectionsAreTheReplicasOwn(t *testing.T) {
	w := at(tries(t, 1), Service{Replicas: 2, Balance: RoundRobin, Plan: Plan{Steps: []Step{{Edge: Edge{To: 1, Rules: tries(t, 1), Conns: &Conns{Size: 5}}}}}}, 0, 100*ms, 500*ms, 600*ms)
	w.Services = append(w.Services, Service{Time: draw.Constant(10 * ms)})
	is(t, "opened", play(t, w).Edges[1].Opened, 2)
	w.Faults = []Fault{{Kind: Restart, At: 300 * ms, For: ms, Replicas: 1}}
	is(t, "opened", play(t, w).Edges[1].Opened, 3)
}
